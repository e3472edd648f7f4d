"""A producer whose first object is abandoned sends all of its batches again, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import (
    Closed,
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_gateway.work.fair_pool import FairPool, PoolBusy
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.headers import decode_response_header
from tidegate_protocol.messages import produce as pr
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable

PUT_SECONDS = 5.0


class LosingStore(MemoryObjectStore):
    """lost: how many of the next WAL objects the store refuses for ever."""

    lost = 0

    def __init__(self) -> None:
        super().__init__()
        self._refused: set[str] = set()

    async def put(self, key: str, body: Buffer) -> None:
        await trio.lowlevel.checkpoint()
        if "/wal/" in key and self.lost and key not in self._refused:
            self.lost -= 1
            self._refused.add(key)
        if key in self._refused:
            raise StoreUnavailable("planted")
        await super().put(key, body)


@asynccontextmanager
async def losing_world() -> AsyncIterator[tuple[WireWorld, LosingStore]]:
    store = LosingStore()
    settings = {"wal.put.timeout.ms": str(int(PUT_SECONDS * 1000))}
    async with wire_world(settings, store=store) as world:
        await world.create_topic("t", 2)
        yield world, store


def batch(sequence: int, value: bytes = b"", **more: Any) -> bytes:
    value = value or b"%d" % sequence
    return records_batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence, **more)


async def send(client: WireClient, *batches: tuple[int, bytes], timeout_ms: int = 30_000) -> None:
    """Send one produce request.  batches: pairs of partition and batch."""
    request = produce_request([("t", *each) for each in batches], timeout_ms=timeout_ms)
    await client.send(request_frame("Produce", 9, request))


async def codes(client: WireClient) -> list[int]:
    """Return the errors of the next answer."""
    answer = memoryview(await client.receive())
    _, position = decode_response_header(answer, 0, 9)
    response = pr.decode_response(answer[position:], 9)
    return [part.error_code for each in response.responses for part in each.partition_responses]


async def send_again(world: WireWorld, count: int) -> None:
    """Send batches of partition 0 as a client does that lost its connection; check their order."""
    client = world.connect()
    for sequence in range(count):
        assert (await client.produce("t", 0, batch(sequence))).error_code == E.NONE
    assert await client.fetch_values("t", 0, 0) == [b"%d" % each for each in range(count)]


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
async def test_later_batches_are_refused_with_the_abandoned_one(
    autojump_clock: MockClock, partitions: tuple[int, ...]
) -> None:
    async with losing_world() as (world, store):
        store.lost = 1
        client = world.connect()
        for sequence in range(3):
            await send(client, *((each, batch(sequence)) for each in partitions))
            await trio.sleep(1.0)  # so that each request has its own object
        for _ in range(3):
            assert set(await codes(client)) == {E.NOT_ENOUGH_REPLICAS}
        await send(client, (0, batch(3)))
        with pytest.raises(Closed):
            await client.receive()
        await send_again(world, 4)


@pytest.mark.parametrize(
    ("timeout_ms", "code"), [(30_000, E.NOT_ENOUGH_REPLICAS), (1000, E.REQUEST_TIMED_OUT)]
)
async def test_a_batch_that_comes_after_the_abandoned_one_is_not_taken(
    autojump_clock: MockClock, timeout_ms: int, code: int
) -> None:
    """The request of the abandoned batch may have timed out before."""
    async with losing_world() as (world, store):
        store.lost = 1
        client = world.connect()
        await send(client, (0, batch(0)), timeout_ms=timeout_ms)
        assert await codes(client) == [code]
        await trio.sleep(PUT_SECONDS)
        await send(client, (0, batch(1)))
        with pytest.raises(Closed):
            await client.receive()
        await send_again(world, 2)


async def test_other_clients_of_the_later_object_get_their_offsets(
    autojump_clock: MockClock,
) -> None:
    async with losing_world() as (world, store), trio.open_nursery() as nursery:
        store.lost = 1
        nursery.start_soon(world.connect().produce, "t", 0, batch(0))
        await trio.sleep(1.0)
        answer = await world.connect().produce("t", 0, records_batch(b"other"))
        assert (answer.error_code, answer.base_offset) == (E.NONE, 0)


LARGE = Random(1).randbytes(20_000)
"""Compressed, it is walked in a thread."""


async def no_thread(*_: object) -> object:
    """Fail as a busy pool does."""
    await trio.lowlevel.checkpoint()
    raise PoolBusy("planted")


@pytest.mark.parametrize("is_idempotent", [True, False])
async def test_no_batch_follows_one_for_which_there_was_no_thread(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, is_idempotent: bool
) -> None:
    first = batch(0, LARGE, codec=Codec.GZIP)
    if not is_idempotent:
        first = records_batch(LARGE, codec=Codec.GZIP)
    async with losing_world() as (world, _):
        client = world.connect()
        with monkeypatch.context() as patch:
            patch.setattr(FairPool, "run", no_thread)
            assert (await client.produce("t", 0, first)).error_code == E.NOT_ENOUGH_REPLICAS
        await send(client, (0, batch(1)))
        if not is_idempotent:
            assert await codes(client) == [E.NONE]
            return
        with pytest.raises(Closed):
            await client.receive()
        await send_again(world, 2)


async def test_other_partitions_of_the_request_are_written_though_there_was_no_thread_for_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a busy pool would also hold up partitions that need no thread."""
    monkeypatch.setattr(FairPool, "run", no_thread)
    async with losing_world() as (world, _):
        client = world.connect()
        await send(client, (0, batch(0, LARGE, codec=Codec.GZIP)), (1, batch(0)))
        assert await codes(client) == [E.NOT_ENOUGH_REPLICAS, E.NONE]
        await send(client, (1, batch(1)))
        with pytest.raises(Closed):
            await client.receive()
        assert await world.connect().fetch_values("t", 1, 0) == [b"0"]
