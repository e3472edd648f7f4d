"""Copies a log to another: same positions, same bytes.

Each entry is put by compare-and-set, so any number of gateways may copy at once: each entry is put
once, and later puts find it.  Entries carry random bytes, so if two logs hold the same entry at the
same position, one of them is a copy of the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import msgspec
import trio

from ..events.entries import UnreadableEntry, decode_entry
from ..events.metadata_versions import ReleaseTooOld
from ..state.broken import StateBroken
from ..state.cluster import ClusterState
from ..state.frozen import split
from ..state.log_moves import LogMove, LogMoveTable
from .metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from .snapshots import save_verified
from .whole_entries import expect_whole

Result = TypeVar("Result")

COPY_BYTES: Final = 4 << 20
RETRY_SECONDS: Final = 0.1

# A log that was verified, or that another program uses, may hold any bytes.
_FOREIGN: Final = (
    *(StateBroken, UnreadableEntry, ReleaseTooOld, msgspec.MsgspecError),
    *(AttributeError, LookupError, TypeError, ValueError),
)


async def patiently(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a call until the log answers; the caller has a deadline."""
    while True:
        try:
            return await attempt()
        except LogUnavailable:
            await trio.sleep(RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class UnfinishedCopy:
    """The content of a log that an earlier move left.

    cluster_id, timeline: whose copy it is.  next_position: the first that is not copied.
    copy: see LogMoveOffered.
    """

    cluster_id: str
    timeline: int
    next_position: int
    copy: str


async def look_at_copy(target: MetadataLog) -> UnfinishedCopy | None:
    """Return the content of a log that is to become a copy; None if it is empty.

    Raises:
      LogMisconfigured: the log holds something else.
    """
    snapshot = await target.load_snapshot()
    if snapshot is None:
        if await target.read(FIRST_POSITION, 1):
            raise in_use("it holds entries, or held some")
        return None
    state = _state_of(snapshot)
    if not state.log_moves.is_copy:
        raise in_use(f"it holds cluster {state.cluster_id}")
    if state.log_moves.present is None:
        raise in_use("it holds a copy that says of no move that it wrote it")
    copy = state.log_moves.present.move_id
    await _trim(target, state.position + 1)
    await _fold(target, state)
    if not state.log_moves.is_copy:
        raise in_use("it was copied to, used, and perhaps left again")
    return UnfinishedCopy(state.cluster_id, state.timeline, state.position + 1, copy)


def _state_of(snapshot: Snapshot) -> ClusterState:
    try:
        return ClusterState.decode(b"".join(snapshot.chunks))
    except _FOREIGN as error:
        raise in_use(f"its snapshot is none of a cluster that is known here ({error})") from error


async def _trim(target: MetadataLog, before_position: int) -> None:
    """Begin the copy at a position.

    Raises:
      LogMisconfigured: another copy begins below, and does not reach the position.
    """
    try:
        await target.trim(before_position)
    except LogMisuse as error:
        raise in_use(f"two moves began a copy in it at once ({error})") from error


async def _fold(target: MetadataLog, state: ClusterState) -> None:
    while entries := await target.read(state.position + 1, COPY_BYTES):
        if isinstance(entries, Trimmed):
            raise in_use("it was trimmed")
        for each in entries:
            _apply(state, each)


def _apply(state: ClusterState, entry: LogEntry) -> None:
    try:
        decoded = decode_entry(entry.payload, entry.position, state.entry_formats)
        state.apply(entry.position, decoded)
    except (StateBroken, UnreadableEntry, ReleaseTooOld) as error:
        raise in_use(f"entry {entry.position} does not go with its snapshot ({error})") from error


def in_use(why: str) -> LogMisconfigured:
    """Return the refusal of a target: another log is needed, and an empty one."""
    return LogMisconfigured(f"a new, empty log is needed to move to, and this one is none: {why}")


async def begin_copy(target: MetadataLog, snapshot: Snapshot) -> None:
    """Save a state in an empty log; the caller then copies the entries after it.

    Raises:
      LogUnavailable: do it again, with the same snapshot.
      LogCorrupt: see save_verified().
      LogMisconfigured: another move began a copy there meanwhile.
    """
    await save_verified(target, snapshot.position, snapshot.chunks)
    await _trim(target, snapshot.position + 1)


async def put_copy(target: MetadataLog, entry: LogEntry) -> None:
    """Put an entry into the copy, unless the copy holds it or held it once.

    Raises:
      LogMisconfigured: another program writes to the copy already.
      LogUnavailable: repeat the call.
      LogCorrupt: the entry was damaged in transit, or in the old log.
    """
    expect_whole([entry])
    result = await target.append(entry.position, entry.payload)
    if result is not AppendResult.CONFLICT:
        return
    held = await target.read(entry.position, 1)
    if isinstance(held, Trimmed):
        return
    expect_whole(held)  # a damaged entry does not prove another writer
    if held[0].payload != entry.payload:
        raise _foreign(entry.position)


def _foreign(position: int) -> LogMisconfigured:
    return LogMisconfigured(
        f"at position {position} the new log holds another entry than the old one: it is not its"
        " copy, or something else writes to it"
    )


async def prove_target(target: MetadataLog, move: LogMove, sealed_at: int = 0) -> None:
    """Check that a log is the target of a move, and not the old log, or one before that.

    The earlier logs hold the same entries at the same positions, so only the snapshot identifies
    the target.

    Raises:
      LogMisconfigured: it is another log.
      LogUnavailable: the log does not answer now.
    """
    snapshot = await target.load_snapshot()
    if snapshot is not None and _moves_of(snapshot).is_target_of(move, sealed_at):
        return
    raise LogMisconfigured(
        "the new log is not the one that the metadata log is moved to: see metadata.log.next"
    )


def _moves_of(snapshot: Snapshot) -> LogMoveTable:
    """Return the snapshot's table of moves; empty if it is no snapshot of a cluster."""
    moves = LogMoveTable()
    try:
        for head in split(b"".join(snapshot.chunks)):
            moves.decode(head.get("log_moves", {}))
            break
    except _FOREIGN:
        return LogMoveTable()
    return moves


async def holds_copy(source: MetadataLog, target: MetadataLog, position: int) -> bool:
    """Return whether the copy holds an entry of the source, which must have it.

    Also return true if other gateways have trimmed the entry from the copy, since the copy's
    snapshot proves which log it is (prove_target).

    Raises:
      LogMisconfigured: the target is no copy of the source.
      LogUnavailable: one of the logs does not answer now.
      LogCorrupt: one of the two entries is damaged.
    """
    try:
        theirs = await target.read(position, 1)
    except LogCorrupt:
        return False  # the target ends before, or is another log: a later call shows which
    if isinstance(theirs, Trimmed):
        return True
    ours = await source.read(position, 1)
    if isinstance(ours, Trimmed) or not ours:
        raise LogCorrupt(f"entry {position} of the metadata log is gone")
    expect_whole([*ours, *theirs])
    if theirs and theirs[0].payload != ours[0].payload:
        raise _foreign(position)
    return bool(theirs)


async def complete_copy(source: MetadataLog, target: MetadataLog, offered: int, last: int) -> None:
    """Copy what a copy still lacks, up to the last entry of the source; the caller has a deadline.

    offered: position of an entry that it has.

    Raises:
      LogMisconfigured: the target is no copy of the source.
    """
    position = await _where_to_go_on(source, target, offered, last)
    while position <= last:
        entries = await patiently(partial(source.read, position, COPY_BYTES))
        if isinstance(entries, Trimmed) or not entries:
            raise LogCorrupt(f"entry {position} of the metadata log is gone, and was not copied")
        for each in entries:
            await patiently(partial(put_copy, target, each))
        position = entries[-1].position + 1


async def _where_to_go_on(source: MetadataLog, target: MetadataLog, offered: int, last: int) -> int:
    """Return the position after a late entry of the copy; the copy has all earlier entries, too."""
    position, step = last, 1
    while True:
        if await patiently(partial(holds_copy, source, target, position)):
            return position + 1
        if position == offered:
            raise LogMisconfigured(
                "the log that the metadata log was moved to does not hold its entries: see"
                " metadata.log.next"
            )
        position, step = max(offered, position - step), step * 2
