"""Snapshots over `http:`: large ones, their checksums, and how long a server keeps them."""

import json
import threading
from collections.abc import Iterable, Iterator

import pytest
import trio

from tests.worlds import http_log_opened
from tests.worlds.http_log_opened import Opened
from tests.worlds.http_log_server import log_server, tcp_server
from tidegate_coordination.log.metadata_log import (
    LogUnavailable,
    Snapshot,
)
from tidegate_coordination.logs.http import wire
from tidegate_coordination.logs.http.service import LogService
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_runtime.http.values import HttpAnswer, HttpRequest

opened = http_log_opened.opened


async def test_a_snapshot_larger_than_a_request(opened: Opened) -> None:
    chunks = [bytes([number]) * (1 << 20) for number in range(10)]
    async with log_server(MemoryLog()) as url:
        log = await opened(url)
        await log.append(1, b"x")
        await log.save_snapshot(1, chunks)
        assert await log.load_snapshot() == Snapshot(1, chunks)


class SeenChunks(list[bytes]):
    """Records which threads iterate over it."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__(chunks)
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[bytes]:
        self.threads.add(threading.get_ident())
        return super().__iter__()


class ShowsChunks(MemoryLog):
    chunks: SeenChunks = SeenChunks([b"x"])

    async def load_snapshot(self) -> Snapshot | None:
        await trio.lowlevel.checkpoint()
        return Snapshot(1, self.chunks)


@pytest.mark.parametrize("in_loop", [True, False])
async def test_a_server_makes_checksums_of_a_snapshot_beside_the_loop(in_loop: bool) -> None:
    log = ShowsChunks()
    log.chunks = SeenChunks([b"a", b"b"])
    service = LogService(log, token=None, in_loop=in_loop)
    assert (await asked(service, "/v1/snapshots/newest")).status == 200
    assert (threading.get_ident() in log.chunks.threads) is in_loop


async def test_a_client_makes_checksums_of_a_snapshot_beside_the_loop(opened: Opened) -> None:
    chunks = SeenChunks([b"a", b"b"])
    async with log_server(MemoryLog()) as url:
        log = await opened(url)
        await log.append(1, b"x")
        await log.save_snapshot(1, chunks)
        assert await log.load_snapshot() == Snapshot(1, [b"a", b"b"])
    assert chunks.threads
    assert threading.get_ident() not in chunks.threads


class TakesTurns(MemoryLog):
    """Returns another snapshot at each load."""

    turn = 0

    async def load_snapshot(self) -> Snapshot | None:
        await trio.lowlevel.checkpoint()
        self.turn += 1
        return Snapshot(self.turn, [b"x" * wire.MAX_PART_BYTES, b"more"])


async def asked(service: LogService, target: str) -> HttpAnswer:
    return await service.handle(HttpRequest("GET", target))


async def test_snapshots_on_their_way_are_bounded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    service = LogService(TakesTurns(), token=None, in_loop=True)
    paths: list[str] = []
    for _ in range(3):
        newest = json.loads((await asked(service, "/v1/snapshots/newest")).body)
        paths.append(f"/v1/snapshots/{newest['position']}?crc32c={newest['crc32c']}&from=0")
    assert [(await asked(service, path)).status for path in paths] == [410, 200, 200]
    await trio.sleep(301)
    await asked(service, "/v1/snapshots/newest")
    assert [(await asked(service, path)).status for path in paths] == [410, 410, 410]


async def test_a_snapshot_that_was_fetched_is_not_kept_for_good(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Any request drops old snapshots.

    A listener without uploads, such as a peer listener, gets no request for an upload.
    """
    service = LogService(TakesTurns(), token=None, read_only=True, in_loop=True)
    newest = json.loads((await asked(service, "/v1/snapshots/newest")).body)
    path = f"/v1/snapshots/{newest['position']}?crc32c={newest['crc32c']}&from=0"
    await trio.sleep(299)
    assert (await asked(service, "/v1/wait?after=0&timeout_ms=0")).status == 204
    assert (await asked(service, path)).status == 200
    await trio.sleep(301)
    assert (await asked(service, "/v1/wait?after=0&timeout_ms=0")).status == 204
    assert (await asked(service, path)).status == 410


async def test_a_snapshot_that_changes_all_the_time_is_unavailable(opened: Opened) -> None:
    service = LogService(TakesTurns(), token=None)

    async def forgetful(request: HttpRequest) -> HttpAnswer:
        for _ in range(2 if "from=" in request.target else 0):
            await asked(service, "/v1/snapshots/newest")
        return await service.handle(request)

    async with tcp_server(forgetful) as address:
        log = await opened(f"http://{address}")
        with pytest.raises(LogUnavailable, match="changed again and again"):
            await log.load_snapshot()
