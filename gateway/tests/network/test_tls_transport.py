"""The gateway's end of a TLS connection: turns, bounds, files, and the ends of streams."""

from __future__ import annotations

import ssl
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import pytest
import trio

from tests.network.test_file_parts import Use, file_part
from tests.worlds.security.tls_world import TlsClientTransport, authority, client_context, opened
from tidegate_gateway.network.memory_transport import (
    PIPE_BYTES,
    MemoryTransport,
    memory_transport_pair,
)
from tidegate_gateway.network.replies import ReplyLine
from tidegate_gateway.network.tls_transport import (
    MAX_HANDSHAKE_BYTES,
    PLAINTEXT_REFUSED,
    TURN_BYTES,
    HandshakeFailed,
    TlsTransport,
)
from tidegate_gateway.network.transport import Part, Transport, TransportBroken
from tidegate_storage.disk.memory_disk import MemoryDiskSteps
from tidegate_storage.stores.files.file_part import FilePart
from tidegate_storage.stores.files.steps import OpenFile

RECORD_BYTES = 16 << 10


def server_context() -> ssl.SSLContext:
    [listener] = opened()
    return listener.current.context


class Spied:
    """Passes calls on to a transport, and counts the ciphertext of each turn."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.received: list[int] = []
        self.unsent_bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def receive_nowait(self, buffer: memoryview) -> int | None:
        size = self.inner.receive_nowait(buffer)
        self.received.append(size or 0)
        return size

    def send_nowait(self, parts: list[Part]) -> int:
        sent = self.inner.send_nowait(parts)
        self.unsent_bytes = sum(map(len, parts)) - sent
        return sent


@asynccontextmanager
async def pair(
    *, pipe_bytes: int = PIPE_BYTES, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> AsyncIterator[tuple[TlsTransport, TlsClientTransport, Spied]]:
    """Yield the gateway's end, the client's end, and the transport below the gateway's."""
    context = client_context(authority().root)
    context.maximum_version = version
    ours, theirs = memory_transport_pair(pipe_bytes=pipe_bytes)
    spied = Spied(theirs)
    server = TlsTransport(spied, server_context())  # type: ignore[arg-type]
    client = TlsClientTransport(ours, context)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.handshake)
            await server.handshake(trio.Lock())
        yield server, client, spied


async def received(transport: Transport, size: int, room: int = 1 << 20) -> bytes:
    """Receive `size` bytes, as a connection does."""
    found = b""
    buffer = memoryview(bytearray(room))
    while len(found) < size:
        await transport.wait_receivable()
        got = transport.receive_nowait(buffer)
        if got == 0:
            break
        found += buffer[: got or 0]
    return found


async def sent(transport: Transport, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[transport.send_nowait([view]) :]
        if view:
            await transport.wait_sendable()


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_bytes_pass_both_ways(version: ssl.TLSVersion) -> None:
    data = Random(1).randbytes(3 << 20)
    async with pair(version=version) as (server, client, _):
        for source, target in ((client, server), (server, client)):
            found: list[bytes] = []

            async def take(target: Transport = target, found: list[bytes] = found) -> None:
                found.append(await received(target, len(data)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
                nursery.start_soon(sent, source, data)
            assert found == [data]


async def test_a_turn_takes_a_bounded_amount_of_ciphertext_and_plaintext() -> None:
    async with pair(pipe_bytes=8 << 20) as (server, client, spied):
        await sent(client, bytes(2 << 20))
        spied.received.clear()
        room = memoryview(bytearray(4 << 20))
        sizes: list[int] = []
        while sum(sizes) < 2 << 20:
            found = server.receive_nowait(room)
            assert found is not None
            sizes.append(found)
        assert max(sizes) <= TURN_BYTES
        assert max(spied.received) <= TURN_BYTES
        assert len(spied.received) <= len(sizes) + 1


async def test_what_is_decrypted_never_waits_for_the_network() -> None:
    """The socket is no longer readable while OpenSSL holds plaintext."""
    async with pair() as (server, client, _):
        await sent(client, bytes(4 * RECORD_BYTES))
        small = memoryview(bytearray(1000))
        got = 0
        while got < 4 * RECORD_BYTES:
            with trio.fail_after(1):
                await server.wait_receivable()
            got += server.receive_nowait(small) or 0
        with trio.move_on_after(0.01) as waited:
            await server.wait_receivable()
        assert waited.cancelled_caught


async def test_a_record_in_pieces_is_no_end_of_the_stream() -> None:
    async with pair() as (server, client, _):
        client.tls.write(b"x" * 100)
        record = client.outgoing.read()
        buffer = memoryview(bytearray(1000))
        for at in range(len(record) - 1):
            client.inner.send_nowait([record[at : at + 1]])
            assert server.receive_nowait(buffer) is None
        client.inner.send_nowait([record[-1:]])
        assert server.receive_nowait(buffer) == 100


async def test_plaintext_counts_as_sent_when_its_ciphertext_has_left() -> None:
    async with pair(pipe_bytes=100_000) as (server, _, spied):
        data = memoryview(bytes(1 << 20))
        assert server.send_nowait([data]) == 0
        assert 0 < spied.unsent_bytes <= TURN_BYTES + RECORD_BYTES
        for _ in range(3):  # the gateway encrypts no more for a client that does not read
            before = spied.unsent_bytes
            assert server.send_nowait([data]) == 0
            assert spied.unsent_bytes == before


async def test_the_rest_of_the_parts_follows_a_full_pipe() -> None:
    """Parts of all sizes reach a slow reader once, and in order."""
    random = Random(3)
    sizes = (1, 100, 20_000, 70_000, 300_000, 1)
    parts = [random.randbytes(size) for size in sizes]
    line = ReplyLine()
    line.open_slot().fill([memoryview(each) for each in parts])
    async with pair(pipe_bytes=10_000) as (server, client, _):
        found: list[bytes] = []

        async def take() -> None:
            found.append(await received(client, sum(sizes), room=777))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(send_line, line, server)
        assert found == [b"".join(parts)]


async def send_line(line: ReplyLine, transport: Transport) -> None:
    """Send a reply as Connection does."""
    line.collect()
    while parts := line.parts():
        size = transport.send_nowait(parts)
        line.sent(size)
        if size < sum(map(len, parts)):
            await transport.wait_sendable()


class ColdFile:
    """A file that seems to be on the disk only, as if the kernel cannot say what is in memory.

    cold_reads: how often a thread read it.
    """

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._thread = threading.get_ident()
        self.cold_reads = 0

    def stamp(self) -> tuple[int, int]:
        return self._file.stamp()

    def is_in_memory(self, start: int, size: int) -> bool:
        return False

    def read_at(self, start: int, size: int) -> bytes:
        self.cold_reads += threading.get_ident() != self._thread
        return self._file.read_at(start, size)

    def send_to(self, socket: int, start: int, size: int) -> int:
        raise AssertionError("the kernel cannot encrypt")


async def test_parts_in_files_are_read_first_and_arrive_whole() -> None:
    steps, use, body = MemoryDiskSteps(), Use(), Random(4).randbytes(700_000)
    file_part(steps, "f", body, use)
    file = ColdFile(steps.open_file("f"))
    part = FilePart(file, file.stamp(), use, 0, len(body))
    line = ReplyLine()
    line.open_slot().fill([b"head", part, b"tail"])
    async with pair() as (server, client, _), trio.open_nursery() as nursery:
        nursery.start_soon(send_line, line, server)
        assert await received(client, len(body) + 8) == b"head" + body + b"tail"
    assert file.cold_reads >= 3
    assert use.sent_bytes == len(body)


async def test_a_changed_file_breaks_the_connection() -> None:
    steps, use = MemoryDiskSteps(), Use()
    file_part(steps, "f", bytes(1000), use)
    part = FilePart(steps.open_file("f"), (0, 0), use, 0, 1000)
    async with pair() as (server, _, _):
        with pytest.raises(TransportBroken, match="another program wrote to it"):
            server.send_nowait([part])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_said_goodbye_may_still_read(version: ssl.TLSVersion) -> None:
    async with pair(version=version) as (server, client, _):
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        await client.push()
        await server.wait_receivable()
        assert server.receive_nowait(memoryview(bytearray(10))) == 0
        await server.wait_receivable()  # this must not wait
        assert server.send_nowait([b"answer"]) == 6


async def test_an_end_without_goodbye_is_an_end_as_well() -> None:
    async with pair() as (server, client, _):
        await sent(client, b"last")
        client.close()
        assert await received(server, 5) == b"last"


async def test_the_gateway_says_goodbye() -> None:
    async with pair() as (server, client, _):
        server.close()
        assert client.receive_nowait(memoryview(bytearray(10))) == 0
        assert not client.tls.read(1)  # without close_notify this raises an error


async def test_no_goodbye_follows_a_reply_that_is_cut() -> None:
    async with pair(pipe_bytes=10_000) as (server, client, _):
        server.send_nowait([bytes(100_000)])
        server.close()
        with pytest.raises((TransportBroken, ssl.SSLError, AssertionError)):
            assert len(await received(client, 100_000)) == 100_000


async def test_damaged_bytes_break_the_connection() -> None:
    async with pair() as (server, client, _):
        client.tls.write(b"x" * 100)
        record = bytearray(client.outgoing.read())
        record[50] ^= 1
        client.inner.send_nowait([record])
        with pytest.raises(TransportBroken):
            server.receive_nowait(memoryview(bytearray(1000)))


async def refused(act: Callable[[MemoryTransport], None]) -> tuple[str, bytes]:
    """Return the reason for the log, and the bytes that the client got."""
    ours, theirs = memory_transport_pair(pipe_bytes=4 << 20)
    server = TlsTransport(theirs, server_context(), probe=b"probe")
    act(ours)
    size: int | None = None
    with pytest.raises((HandshakeFailed, TransportBroken)) as failed:
        await server.handshake(trio.Lock())
    buffer = memoryview(bytearray(100))
    with suppress(TransportBroken):
        size = ours.receive_nowait(buffer)
    kind = "quietly: " if isinstance(failed.value, TransportBroken) else ""
    return kind + str(failed.value), bytes(buffer[: size or 0])


def send(data: bytes, transport: MemoryTransport) -> None:
    transport.send_nowait([data])


async def test_handshakes_that_are_none() -> None:
    plain = (b"\0\0\0\x10\0\x12\0\0", b"GET / HTTP/1.1\r\n")
    for data in plain:
        reason, answer = await refused(partial(send, data))
        assert reason == "client spoke no TLS to a listener with TLS"
        assert answer == PLAINTEXT_REFUSED
    reason, answer = await refused(partial(send, b"\0\0\0\x10probe"))
    assert reason == "quietly: another gateway's probe"
    assert answer == PLAINTEXT_REFUSED
    reason, _ = await refused(lambda ours: ours.close())
    assert reason.startswith("quietly")
    reason, answer = await refused(partial(send, b"\x16\x03\x01\x00\x04abcd"))
    assert reason.startswith("TLS handshake failed: ")
    assert answer[:1] == b"\x15"


async def test_a_handshake_that_is_too_long_is_refused() -> None:
    # Pieces of a client hello that declares 16 MB.
    piece = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16380)
    more = b"\x16\x03\x01\x40\x00" + bytes(16384)
    reason, _ = await refused(partial(send, piece + more * (MAX_HANDSHAKE_BYTES // 16384 + 1)))
    assert "too long" in reason or "excessive message size" in reason


async def test_old_versions_of_tls_are_refused_with_a_reason() -> None:
    context = client_context(authority().root)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    ours, theirs = memory_transport_pair()
    client = TlsClientTransport(ours, context)
    server = TlsTransport(theirs, server_context())
    async with trio.open_nursery() as nursery:

        async def try_it() -> None:
            with pytest.raises((ssl.SSLError, TransportBroken)):
                await client.handshake()

        nursery.start_soon(try_it)
        with pytest.raises(HandshakeFailed, match="unsupported protocol"):
            await server.handshake(trio.Lock())


class Passes(trio.abc.Instrument):
    """Counts the rounds of the event loop, in each of which all ready tasks run."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_all_else_has_its_turn_between_two_handshakes() -> None:
    context = server_context()
    passes = Passes()
    seen: list[int] = []
    # Called when OpenSSL has read a client's hello.
    context.sni_callback = lambda *_: seen.append(passes.count)
    trio.lowlevel.add_instrument(passes)
    turn = trio.Lock()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                ours, theirs = memory_transport_pair()
                client = TlsClientTransport(ours, client_context(authority().root))
                nursery.start_soon(client.handshake)
                nursery.start_soon(TlsTransport(theirs, context).handshake, turn)
    assert len(set(seen)) == len(seen) == 10


async def test_no_session_is_resumed() -> None:
    context = server_context()
    assert context.num_tickets == 0
    assert context.options & ssl.OP_NO_TICKET
    assert context.options & ssl.OP_NO_RENEGOTIATION
