"""The log behind `postgres:`: statements on few connections, made when needed.

All calls but appends and reads run in threads.

Appends, reads, listening, and the upkeep of snapshots and trimming have a connection each, so that
a snapshot delays no append. A call that takes too long, or is cancelled, is abandoned together with
its connection: its outcome is unknown, as the contract allows. No call is repeated here.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

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
from tidegate_coordination.logs.postgres import snapshots as saved
from tidegate_coordination.logs.postgres import tables as tables
from tidegate_coordination.logs.postgres.errors import advice_on_refusal
from tidegate_coordination.logs.postgres.history import History
from tidegate_coordination.logs.postgres.lane import CALL_SECONDS, Lane
from tidegate_coordination.logs.postgres.layout import make_tables
from tidegate_coordination.logs.postgres.listener import Listener
from tidegate_coordination.logs.postgres.own_sessions import see_own_sessions
from tidegate_coordination.logs.postgres.refusals import state_of_refusal
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.url import Address

CAPABILITIES: Final = LogCapabilities(
    forward_to_leader=False,
    typical_append_seconds=0.003,
    max_entry_bytes=1 << 20,
    inline_bytes_per_second=4 << 20,
)
_LOAD_BYTES: Final = 8 << 20  # of a snapshot, in one call


async def open_address(address: Address) -> "PostgresLog":
    """Open the log, making its tables if they are absent.

    Raises:
        LogMisconfigured, LogUnavailable: as `opening.open_log`.
    """
    history = History()
    lane = Lane(address, history.check, is_patient=False)
    second = Lane(address, history.check, is_patient=False)
    try:
        await _see_own_sessions(address, lane, second)
        await lane.call("open its tables", lambda it: make_tables(it, address.schema))
    except LogUnavailable as outage:
        lane.close()
        await _raise_if_refused(address, outage)
        raise
    except BaseException:
        lane.close()
        raise
    finally:
        second.close()
    lane.is_patient = True
    return PostgresLog(address, history, lane)


async def _see_own_sessions(address: Address, first: Lane, second: Lane) -> None:
    """Check that the connections of two lanes are not shared: see own_sessions.py."""
    other: list[Connection] = []
    await second.call("connect", other.append)
    await first.call("check its sessions", lambda it: see_own_sessions(it, other[0], address))


async def _raise_if_refused(address: Address, outage: LogUnavailable) -> None:
    look = partial(state_of_refusal, address, CALL_SECONDS)
    state = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
    if advice := advice_on_refusal(state):
        raise LogMisconfigured(f"{outage}; {advice}") from None


class PostgresLog:
    """An open log; `opening.open_log` makes one."""

    def __init__(self, address: Address, history: History, reads: Lane) -> None:
        self._channel = f"tidegate_{address.schema}"
        self._reads = reads
        self._history = history
        self._appends, self._upkeep, listening = (
            Lane(address, history.check, is_patient=True) for _ in range(3)
        )
        self._listening = listening
        self._listener = Listener(listening, self._channel)
        self._last_seen = FIRST_POSITION - 1
        self._grown = trio.lowlevel.ParkingLot()
        # One task listens for all waiting callers.
        self._is_listening = False

    @property
    def capabilities(self) -> LogCapabilities:
        return CAPABILITIES

    async def append(self, position: int, payload: bytes) -> AppendResult:
        CAPABILITIES.check_append(position, payload)
        values = tables.append_values(self._channel, position, payload)
        rows = await self._appends.ask("append", tables.APPEND, values)
        result = tables.append_result(rows, position)
        if result is None:
            raise tables.too_far(position, await self._appends.call("look", tables.last_position))
        if result is AppendResult.APPENDED:
            self._history.note(LogEntry(position, payload))
            self._note(position)
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        told = self._last_seen
        values = tables.read_values(from_position, max_bytes)
        rows = await self._reads.ask("read", tables.READ, values)
        found = tables.read_result(rows, from_position)
        if found == [] and self._last_seen == told >= from_position:
            # If the read does not find a position that was notified before it began, the
            # notification was false.
            self._last_seen = from_position - 1
        if isinstance(found, list) and found:
            self._history.note(found[-1])
        return found

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        with trio.move_on_after(timeout_seconds):
            while self._last_seen <= after_position:
                if self._is_listening:
                    await self._grown.park()
                else:
                    await self._listen_once()

    async def _listen_once(self) -> None:
        self._is_listening = True
        try:
            self._note(await self._listener.next_position())
        finally:
            self._is_listening = False
            self._grown.unpark_all()  # one of them listens on

    def _note(self, position: int) -> None:
        """Wake the waiters if the log reaches further than was known."""
        if position > self._last_seen:
            self._last_seen = position
            self._grown.unpark_all()

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        call = self._upkeep.call
        framed = await trio.to_thread.run_sync(frame_chunks, position, chunks)
        snapshot = await call("begin a snapshot", lambda it: saved.begin_snapshot(it, position))
        for ordinal, framed_chunk in enumerate(framed):
            put = partial(saved.put_chunk, snapshot=snapshot, ordinal=ordinal, framed=framed_chunk)
            await call("save a snapshot", put)
        await call("complete a snapshot", lambda it: saved.complete_snapshot(it, snapshot))
        await call("drop old snapshots", saved.drop_old_snapshots)

    async def load_snapshot(self) -> Snapshot | None:
        call = self._upkeep.call
        return await load_newest(
            lambda: call("list snapshots", saved.complete_snapshots), self._load
        )

    async def _load(self, snapshot: int, position: int) -> Snapshot:
        """Read a snapshot, some chunks a call: each call has its own deadline."""
        frames: list[bytes] = []
        while True:
            read = partial(
                saved.read_chunks,
                snapshot=snapshot,
                from_ordinal=len(frames),
                max_bytes=_LOAD_BYTES,
            )
            if not (more := await self._upkeep.call("load a snapshot", read)):
                break
            frames += more
        return await trio.to_thread.run_sync(unframe_at, position, frames)

    async def trim(self, before_position: int) -> None:
        call = self._upkeep.call
        await call("trim", lambda it: tables.raise_boundary(it, before_position))
        while await call("delete trimmed entries", tables.delete_trimmed):
            pass  # a batch at a time, each with its deadline

    async def aclose(self) -> None:
        self._listener.stop()
        for lane in (self._appends, self._reads, self._upkeep, self._listening):
            lane.close()
        await trio.lowlevel.checkpoint()
