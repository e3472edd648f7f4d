"""Security holes of other brokers in which bytes of a client cost too much, or went to another
client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import cramjam
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tests.security.known_holes.hole import Hole
from tests.worlds.scripted_broker import ADDRESS, PROPERTIES, ScriptedBroker
from tests.worlds.stores.slow_store import SlowStore
from tests.worlds.wire_client import (
    Closed,
    WireWorld,
    module_of,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_coordination.client.errors import AuthenticationFailed, BrokerUnreachable
from tidegate_coordination.client.login import sasl
from tidegate_coordination.client.properties.jaas import SaslCredentials
from tidegate_coordination.client.wire.answer_reader import AnswerReader
from tidegate_coordination.client.wire.connection import open_connection
from tidegate_gateway.network.arenas import Arena
from tidegate_gateway.requests.records.list_offsets import ListOffsets
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol import compression
from tidegate_protocol.apis import APIS
from tidegate_protocol.compression import Codec, compress, decompress
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch, LocalProtocolError, RemoteProtocolError
from tidegate_protocol.messages import metadata
from tidegate_protocol.records import Record, build_batch
from tidegate_runtime.secret import Secret

MIB: Final = 1 << 20
ANYBODY: Final = "User:ANONYMOUS"


# -- what becomes large when it is decompressed ----------------------------------------------------


async def sizes_of_snappy_are_not_believed() -> None:
    """Check the declared size of a block, and that of all blocks of a frame."""
    zeros = bytes(8 * MIB)
    framed = compress(zeros, Codec.SNAPPY)
    raw = bytes(cramjam.snappy.compress_raw(zeros))
    huge = b"\xff\xff\xff\xff\x0f" + raw[4:]
    for each in (framed, raw, huge):
        with pytest.raises(InvalidBatch):
            decompress(each, Codec.SNAPPY, max_bytes=MIB)
    await trio.lowlevel.checkpoint()


def believes_snappy(patch: pytest.MonkeyPatch) -> None:
    def block(data: bytes, _: object) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))

    patch.setattr(compression, "_decompress_snappy_block", block)


async def what_is_small_on_the_wire_may_be_large() -> None:
    """Send a batch of a few kilobytes, whose records are decompressed only up to a bound."""
    async with wire_world({"record.decompressed.max.bytes": str(MIB)}) as world:
        await world.create_topic("t", 1, max_message_bytes=str(MIB))
        client = world.connect()
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY):
            batch = build_batch(
                [Record(0, 1_700_000_000_000, None, bytes(8 * MIB), ())], codec=codec
            )
            assert len(batch) < MIB
            answer = await client.produce("t", 0, batch)
            assert answer.error_code == ErrorCode.INVALID_RECORD, codec


def bounds_what_is_compressed(patch: pytest.MonkeyPatch) -> None:
    for codec, real in tuple(compression._DECOMPRESSORS.items()):
        patch.setitem(compression._DECOMPRESSORS, codec, _without_bound(real))


def _without_bound(real: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
    return lambda data, _: real(data, compression._Room(1 << 40))


# -- a buffer that is used again too early ---------------------------------------------------------


async def a_buffer_is_one_batchs() -> None:
    """Have a batch wait to be stored while another client's bytes arrive."""
    store = SlowStore()
    async with wire_world({"wal.upload.slots": "1"}, store=store) as world:
        for name in ("first", "mine", "theirs"):
            await world.create_topic(name, 1)
        store.put_seconds = 2.0
        await send_batch(world, "first", b"f")
        await send_batch(world, "mine", b"m" * 100)
        await send_batch(world, "theirs", b"t" * 100)
        await trio.sleep(10)
        client = world.connect()
        assert await client.fetch_values("mine", 0, 0) == [b"m" * 100]
        assert await client.fetch_values("theirs", 0, 0) == [b"t" * 100]


async def send_batch(world: WireWorld, topic: str, value: bytes) -> None:
    request = produce_request([(topic, 0, records_batch(value))])
    await world.connect().send(request_frame("Produce", 9, request))
    await wait_all_tasks_blocked()


def keeps_no_buffer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Arena, "pin", lambda self: None)
    patch.setattr(Arena, "unpin", lambda self: None)


# -- arrays ----------------------------------------------------------------------------------------


async def empty_arrays_are_answered() -> None:
    """Send every request with empty arrays only: no part of the gateway fails."""
    with capture_logs() as lines:
        for settings in ({}, {"authorizer.class.name": STANDARD, "super.users": ANYBODY}):
            async with wire_world(settings) as world:
                await world.create_topic("t", 1)
                for served in APIS.values():
                    for version in range(served.min_version, served.max_version + 1):
                        await ask_for_nothing(world, served.name, version)
                assert (await world.connect().produce("t", 0, records_batch(b"v"))).error_code == 0
    failed = [each for each in lines if each["log_level"] == "error"]
    assert failed == []


async def ask_for_nothing(world: WireWorld, name: str, version: int) -> None:
    messages = module_of(name)
    client = world.connect()
    try:
        await client.send(request_frame(name, version, getattr(messages, f"{name}Request")()))
    except LocalProtocolError:
        return  # the request has no such form in this version
    with trio.move_on_after(60), suppress(Closed):
        await client.receive()
    client.transport.close()


def wants_an_item(patch: pytest.MonkeyPatch) -> None:
    real = ListOffsets.handle

    async def handle(self: ListOffsets, call: Any, request: Any) -> Any:
        assert request.topics[0] is not None
        return await real(self, call, request)

    patch.setattr(ListOffsets, "handle", handle)


async def the_length_of_an_array_is_not_believed() -> None:
    """Refuse a length beyond the frame's, and one whose array takes too much memory."""
    for count, names in ((2**31 - 1, 0), (50_000, 100), (200_000, 200_000)):
        body = count.to_bytes(4, "big") + b"\0\1x" * names
        with pytest.raises(RemoteProtocolError):
            metadata.decode_request(memoryview(body), 1)
    await trio.lowlevel.checkpoint()


def believes_the_length_of_arrays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata, "MAX_REQUEST_ELEMENTS", 1 << 31)


# -- servers that our client of classic clusters should not believe --------------------------------


async def answers_are_bounded() -> None:
    """A broker declares gigabytes.  The client gives it up, and allocates no memory."""
    async with trio.open_nursery() as nursery:
        length = (2**31 - 1).to_bytes(4, "big")
        broker = ScriptedBroker(nursery, {"ApiVersions": lambda _: length + bytes(100)})
        begun = trio.current_time()
        with pytest.raises(BrokerUnreachable):
            await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)
        assert trio.current_time() == begun
        nursery.cancel_scope.cancel()


def receives_all_answers(patch: pytest.MonkeyPatch) -> None:
    def receive(self: AnswerReader, data: bytes) -> Any:
        self._length += data
        return iter(())

    patch.setattr(AnswerReader, "receive", receive)


async def iterations_are_bounded() -> None:
    """A broker that asks for many iterations would block the event loop."""
    tokens = sasl.conversation(SaslCredentials("SCRAM-SHA-256", "alice", Secret("secret")))
    nonce = next(tokens).decode().partition("r=")[2]
    with pytest.raises(AuthenticationFailed):
        tokens.send(f"r={nonce}more,s=c2FsdHNhbHRzYWx0,i=60000".encode())
    await trio.lowlevel.checkpoint()


def computes_as_long_as_it_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sasl, "MAX_ITERATIONS", 1 << 31)


HOLES: Final = (
    Hole("CVE-2023-34455", sizes_of_snappy_are_not_believed, (believes_snappy,)),
    Hole("CVE-2026-35554", a_buffer_is_one_batchs, (keeps_no_buffer,)),
    Hole("CVE-2026-83525", empty_arrays_are_answered, (wants_an_item,)),
    Hole("CVE-2026-111073", what_is_small_on_the_wire_may_be_large, (bounds_what_is_compressed,)),
    Hole(
        "CVE-2026-111108",
        the_length_of_an_array_is_not_believed,
        (believes_the_length_of_arrays,),
    ),
    Hole("CVE-2026-10142", answers_are_bounded, (receives_all_answers,)),
    Hole("CVE-2026-10143", iterations_are_bounded, (computes_as_long_as_it_is_told,)),
)
