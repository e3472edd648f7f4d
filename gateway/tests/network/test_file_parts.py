"""Replies with parts in files reach the client whole, over sockets and their in-memory twin."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from tidegate_gateway.network.memory_transport import memory_transport_pair
from tidegate_gateway.network.replies import JOIN_BELOW_BYTES, ReplyLine
from tidegate_gateway.network.transport import Part, SocketTransport, Transport, TransportBroken
from tidegate_storage.disk.memory_disk import MemoryDiskSteps
from tidegate_storage.stores.files.file_part import FileChanged, FilePart
from tidegate_storage.stores.files.real_disk import RealDiskSteps
from tidegate_storage.stores.files.steps import DiskSteps, OpenFile


class Use:
    """Counts sent bytes, and notes reasons of changed files."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.reasons: list[str] = []

    def used(self) -> None:
        pass

    def sent(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes

    def changed(self, reason: str) -> None:
        self.reasons.append(reason)

    async def in_thread(self, step: Callable[[], None]) -> None:
        try:
            await trio.to_thread.run_sync(step)
        except OSError as error:
            raise FileChanged(str(error)) from error


def file_part(steps: DiskSteps, path: str, body: bytes, use: Use) -> FilePart:
    handle = steps.open_new(path)
    steps.write(handle, body)
    steps.close(handle)
    file = steps.open_file(path)
    return FilePart(file, file.stamp(), use, 0, len(body))


@contextmanager
def tcp_pair() -> Iterator[tuple[SocketTransport, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    transport = SocketTransport(server)
    with client:
        yield transport, client
        transport.close()


def in_memory(line: ReplyLine) -> int:
    return sum(len(part) for part in line.parts() if not isinstance(part, FilePart))


async def send_all(line: ReplyLine, transport: Transport) -> None:
    """Send a reply as Connection does."""
    line.collect()
    while parts := line.parts():
        assert line.memory_bytes == in_memory(line)
        size = transport.send_nowait(parts)
        line.sent(size)
        if size < sum(map(len, parts)):
            await transport.wait_sendable()
    assert line.memory_bytes == line.file_bytes == 0


def some_parts(steps: DiskSteps, use: Use, random: Random) -> tuple[list[Part], bytes, int]:
    """Return parts, their bytes, and the number of bytes in files."""
    parts: list[Part] = []
    expected = b""
    in_files = 0
    for number in range(30):
        if random.random() < 0.5:
            body = random.randbytes(random.choice((1, 100, JOIN_BELOW_BYTES, 200_000)))
            parts.append(body)
        else:
            body = random.randbytes(random.choice((JOIN_BELOW_BYTES, 100_000, 1_000_000)))
            whole = file_part(steps, f"{number}", b"##" + body + b"##", use)
            parts.append(whole[2:-2])
            in_files += len(body)
        expected += body
    return parts, expected, in_files


async def test_a_socket_carries_files_among_other_parts(tmp_path: Path) -> None:
    for seed in range(5):
        use = Use()
        steps = RealDiskSteps(str(tmp_path / f"{seed}"))
        steps.make_folder("")
        parts, expected, in_files = some_parts(steps, use, Random(seed))
        line = ReplyLine()
        line.open_slot().fill(parts)
        received = bytearray()

        async def receive(client: socket.socket, into: bytearray, size: int) -> None:
            client.setblocking(False)
            while len(into) < size:
                await trio.lowlevel.wait_readable(client)
                into += client.recv(300_000)

        with tcp_pair() as (transport, client):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive, client, received, len(expected))
                await send_all(line, transport)
        assert received == expected
        assert use.sent_bytes == in_files
        assert not use.reasons


async def test_the_twin_carries_them_too() -> None:
    use = Use()
    parts, expected, in_files = some_parts(MemoryDiskSteps(), use, Random(1))
    line = ReplyLine()
    line.open_slot().fill(parts)
    received = bytearray()
    client, server = memory_transport_pair(pipe_bytes=70_000)

    async def receive() -> None:
        buffer = memoryview(bytearray(50_000))
        while len(received) < len(expected):
            await client.wait_receivable()
            size = client.receive_nowait(buffer)
            received.extend(buffer[: size or 0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await send_all(line, server)
    assert received == expected
    assert use.sent_bytes == in_files


async def test_a_file_that_was_cut_breaks_its_connection_only(tmp_path: Path) -> None:
    on_disk, twin = RealDiskSteps(str(tmp_path)), MemoryDiskSteps()
    use = Use()
    parts = [file_part(steps, "file", bytes(100_000), use) for steps in (on_disk, twin)]
    (tmp_path / "file").write_bytes(bytes(10))
    twin.cut_short("file", 10)
    with tcp_pair() as (transport, client):
        client.setblocking(False)
        with pytest.raises(TransportBroken):
            transport.send_nowait([b"head", parts[0]])
    _, server = memory_transport_pair()
    with pytest.raises(TransportBroken):
        server.send_nowait([b"head", parts[1]])
    assert len(use.reasons) == 2


async def test_a_file_that_ends_early_unnoticed_breaks_it_too(tmp_path: Path) -> None:
    steps = RealDiskSteps(str(tmp_path))
    use = Use()
    part = file_part(steps, "file", b"x", use)
    beyond = FilePart(part._file, part._stamp, use, 1, 100)
    with tcp_pair() as (transport, _), pytest.raises(TransportBroken):
        transport.send_nowait([beyond])
    assert use.reasons == ["it ends too early"]


async def test_a_peer_that_is_gone_is_not_the_files_fault(tmp_path: Path) -> None:
    steps = RealDiskSteps(str(tmp_path))
    use = Use()
    part = file_part(steps, "file", bytes(1_000_000), use)
    with tcp_pair() as (transport, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await trio.lowlevel.wait_readable(transport._socket)  # the reset has arrived
        with pytest.raises(TransportBroken):
            transport.send_nowait([part])
        transport.close()
        with pytest.raises(TransportBroken):
            transport.send_nowait([part])
    assert not use.reasons


class ColdFile:
    """A file that says that no part of it is in the kernel's memory."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.is_broken = False
        self.was_read = 0  # the end of the last read
        self.sent_cold = False

    def stamp(self) -> tuple[int, int]:
        return self._file.stamp()

    def read_at(self, start: int, length: int) -> bytes:
        if self.is_broken:
            raise OSError(errno.EIO, "broken")
        self.was_read = start + length
        return self._file.read_at(start, length)

    def is_in_memory(self, start: int, length: int) -> bool:
        return False

    def send_to(self, socket: int, start: int, length: int) -> int:
        self.sent_cold = self.sent_cold or start + length > self.was_read
        return self._file.send_to(socket, start, length)


async def test_a_file_part_outside_the_page_cache_is_read_before_it_is_sent(tmp_path: Path) -> None:
    steps, use, body = RealDiskSteps(str(tmp_path)), Use(), Random(1).randbytes(3_000_000)
    made = file_part(steps, "file", body, use)
    file = ColdFile(made._file)
    line = ReplyLine()
    line.open_slot().fill([bytes(40_000), FilePart(file, file.stamp(), use, 0, len(body))])
    received = bytearray()
    with tcp_pair() as (transport, client):
        line.collect()
        size = transport.send_nowait(line.parts())
        assert size == 40_000
        line.sent(size)

        async def receive() -> None:
            client.setblocking(False)
            while len(received) < 40_000 + len(body):
                await trio.lowlevel.wait_readable(client)
                received.extend(client.recv(300_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await send_all(line, transport)
        assert received[40_000:] == body
        assert not file.sent_cold
        file.is_broken = True
        assert not transport.send_nowait([FilePart(file, file.stamp(), use, 0, 100)])
        with pytest.raises(TransportBroken):
            await transport.wait_sendable()


async def test_an_unreachable_peer_is_not_the_files_fault(tmp_path: Path) -> None:
    use = Use()
    made = file_part(RealDiskSteps(str(tmp_path)), "file", bytes(1000), use)

    class Unreachable(ColdFile):
        number = errno.EHOSTUNREACH

        def is_in_memory(self, start: int, length: int) -> bool:
            return True

        def send_to(self, socket: int, start: int, length: int) -> int:
            raise OSError(self.number, "trouble")

    for number, is_files in ((errno.EHOSTUNREACH, False), (errno.EPERM, False), (errno.EIO, True)):
        file = Unreachable(made._file)
        file.number = number
        with tcp_pair() as (transport, _), pytest.raises(TransportBroken):
            transport.send_nowait([FilePart(file, file.stamp(), use, 0, 1000)])
        assert bool(use.reasons) == is_files
