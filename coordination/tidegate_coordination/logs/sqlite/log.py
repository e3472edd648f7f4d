"""`sqlite:PATH`, the embedded default: a log in one file, for the gateways of one machine.

The position is a primary key, and that is the compare-and-set. `journal_mode=WAL` with
`synchronous=FULL` makes an entry durable before the answer; the pragmas are read back at the start.
Several gateways and processes may open one file on a local disk (never on a network file system:
WAL needs shared memory).

An fsync blocks, so statements run one at a time in a worker thread. A call that takes too long is
abandoned while its thread finishes: its outcome is unknown, as the contract allows. Under
simulation `in_loop` runs the statements in the event loop. Appends of others are seen by polling
`PRAGMA data_version`, appends of this object at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log.snapshots import frame_chunks, load_newest, unframe_at
from tidegate_coordination.logs.sqlite.file import OpenedFile
from tidegate_coordination.logs.sqlite.tables import (
    LogBusy,
    SqliteTables,
    connect,
    translated_errors,
)

CAPABILITIES: Final = LogCapabilities(
    forward_to_leader=False,
    typical_append_seconds=0.005,
    max_entry_bytes=1 << 20,
    inline_bytes_per_second=4 << 20,
)
_CALL_SECONDS: Final = 10.0
_LOAD_BYTES: Final = 8 << 20  # of a snapshot, in one call
_POLL_SECONDS: Final = 0.075
_BUSY_SECONDS: Final = 0.25  # SQLite's own patience, in the thread
_BUSY_PAUSES_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)

_T = TypeVar("_T")


async def open_log(url: str) -> "SqliteLog":
    """Open `sqlite:PATH`; `sqlite:///absolute/path` means the same as `sqlite:/absolute/path`."""
    return await open_file(_path(url))


def _path(url: str) -> Path:
    rest = url.removeprefix("sqlite:")
    if rest.startswith("//") and not rest.startswith("///"):
        raise LogMisconfigured("write sqlite:PATH or sqlite:///absolute/path, without a host")
    rest = rest.removeprefix("//")
    if rest in ("", ":memory:"):
        raise LogMisconfigured("sqlite: needs the path of a file; memory: keeps a log in memory")
    return Path(rest)


async def open_file(path: Path, *, in_loop: bool = False) -> "SqliteLog":
    """Open the file, creating it if absent.

    Raises:
        LogMisconfigured: no such folder, a foreign file, or a file that cannot be made durable.
    """
    worker = StatementWorker(in_loop=in_loop)
    busy_seconds = 0.0 if in_loop else _BUSY_SECONDS
    connection = await worker.call("open", lambda: connect(str(path), busy_seconds=busy_seconds))
    worker.file = OpenedFile(path)
    return SqliteLog(SqliteTables(connection), worker)


class StatementWorker:
    """Runs statements one at a time, in a thread or in the loop; patient with a locked file."""

    def __init__(self, *, in_loop: bool) -> None:
        self._in_loop = in_loop
        self.file: OpenedFile | None = None
        self._one_at_a_time = trio.CapacityLimiter(1)

    async def call(self, doing: str, work: Callable[[], _T]) -> _T:
        for pause_seconds in _BUSY_PAUSES_SECONDS:
            try:
                return await self._once(doing, work)
            except LogBusy:
                await trio.sleep(pause_seconds)
        return await self._once(doing, work)

    async def _once(self, doing: str, work: Callable[[], _T]) -> _T:
        with translated_errors(doing):
            if self._in_loop:
                await trio.lowlevel.checkpoint()
                return self._checked(work)
            return await self._in_thread(doing, lambda: self._checked(work))

    def _checked(self, work: Callable[[], _T]) -> _T:
        """Run a statement; its outcome counts only if the file is still at its path.

        If the file was removed, SQLite may also report that it is damaged or has changed.
        """
        if self.file is None:
            return work()
        self.file.check()
        try:
            return work()
        finally:
            self.file.check()

    async def _in_thread(self, doing: str, work: Callable[[], _T]) -> _T:
        with trio.move_on_after(_CALL_SECONDS):
            # A thread of an abandoned call keeps the limiter until it ends, so statements never
            # overlap.
            return await trio.to_thread.run_sync(
                work, limiter=self._one_at_a_time, abandon_on_cancel=True
            )
        raise LogUnavailable(f"the SQLite log did not {doing} within {_CALL_SECONDS:g} s")


class SqliteLog:
    """Open it with `open_log` or `open_file`."""

    def __init__(self, tables: SqliteTables, worker: StatementWorker) -> None:
        self._tables = tables
        self._worker = worker
        self._last_seen = FIRST_POSITION - 1
        self._grown = trio.lowlevel.ParkingLot()
        # One poll serves all waiting callers, including those that start to wait again.
        self._polled_at = -_POLL_SECONDS

    @property
    def capabilities(self) -> LogCapabilities:
        return CAPABILITIES

    async def append(self, position: int, payload: bytes) -> AppendResult:
        CAPABILITIES.check_append(position, payload)
        result = await self._worker.call("append", lambda: self._tables.append(position, payload))
        if result is AppendResult.APPENDED:
            # The entry is the last of the log, so this append is as good as a poll.
            self._polled_at = trio.current_time()
            self._note(position)
        return result

    def _note(self, position: int) -> None:
        """Wake the waiters if the log reaches further than was known."""
        if position > self._last_seen:
            self._last_seen = position
            self._grown.unpark_all()

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self._worker.call("read", lambda: self._tables.read(from_position, max_bytes))

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        with trio.move_on_after(timeout_seconds):
            while self._last_seen <= after_position:
                pause_seconds = self._polled_at + _POLL_SECONDS - trio.current_time()
                if pause_seconds > 0:
                    await self._park(pause_seconds)
                else:
                    self._polled_at = trio.current_time()
                    self._note(await self._worker.call("look for growth", self._tables.poll_last))

    async def _park(self, pause_seconds: float) -> None:
        with trio.move_on_after(pause_seconds):
            await self._grown.park()

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        tables, call = self._tables, self._worker.call
        framed = await call("frame a snapshot", lambda: frame_chunks(position, chunks))
        snapshot = await call("begin a snapshot", lambda: tables.begin_snapshot(position))
        for ordinal, frame in enumerate(framed):
            await call("save a snapshot", partial(tables.put_chunk, snapshot, ordinal, frame))
        await call("complete a snapshot", lambda: tables.complete_snapshot(snapshot))
        await call("drop old snapshots", tables.drop_old_snapshots)

    async def load_snapshot(self) -> Snapshot | None:
        list_complete = self._tables.complete_snapshots
        return await load_newest(
            lambda: self._worker.call("list snapshots", list_complete), self._load
        )

    async def _load(self, snapshot: int, position: int) -> Snapshot:
        """Read a snapshot, some chunks a call: each call has its own deadline."""
        read = self._tables.read_chunks
        frames: list[bytes] = []
        while more := await self._worker.call(
            "load a snapshot", partial(read, snapshot, len(frames), _LOAD_BYTES)
        ):
            frames += more
        return await self._worker.call("check a snapshot", lambda: unframe_at(position, frames))

    async def trim(self, before_position: int) -> None:
        call = self._worker.call
        await call("trim", lambda: self._tables.raise_boundary(before_position))
        while await call("delete trimmed entries", self._tables.delete_trimmed):
            pass  # a batch at a time, so that appends can run in between

    async def aclose(self) -> None:
        self._worker.file = None
        with trio.CancelScope(shield=True):
            await self._worker.call("close", self._tables.close)
