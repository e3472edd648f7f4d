"""Loading the cluster state from a log: the newest snapshot, and the entries after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
import trio

from tidegate_runtime.said_again import SaidAgain
from tidegate_runtime.url_secrets import without_secrets

from ..events.entries import decode_entry
from ..events.metadata_versions import NEWEST
from ..log.inlined_bodies import fill_absent
from ..log.metadata_log import LogEntry, LogMisconfigured, LogUnavailable, MetadataLog, Trimmed
from ..logs.movable import MovableLog
from ..state.cluster import ClusterState

_log = structlog.get_logger("tidegate.startup")

READ_BYTES = 8 << 20
RETRY_SECONDS = 1.0

Answer = TypeVar("Answer")


async def load_state(
    log: MetadataLog, *, deadline_seconds: float, highest_version: int = NEWEST
) -> ClusterState:
    """Return the state at the log's present end: the newest snapshot, and the entries after it.

    Raises:
      TooSlowError: not in time, perhaps because the log does not answer.
      LogMisconfigured: entries are missing, or bodies of inlined objects.
      ReleaseTooOld: the cluster's metadata.version is above highest_version.
    """
    with trio.fail_after(deadline_seconds):
        return await _read_on(log, _followed(log, await _from_snapshot(log, highest_version)))


async def read_on(
    log: MetadataLog, state: ClusterState, *, deadline_seconds: float
) -> ClusterState:
    """Return a loaded state, or a newer one, brought to the log's present end.

    Raises:
      Exception: as load_state().
    """
    with trio.fail_after(deadline_seconds):
        return await _read_on(log, state)


async def _read_on(log: MetadataLog, state: ClusterState) -> ClusterState:
    looked_at = -1
    while True:
        entries = await patiently(reading(log, state.position + 1), LogUnavailable)
        if isinstance(entries, Trimmed):
            state = await _from_newer_snapshot(log, state, entries.first_position)
            continue
        if not entries:
            _check_end(log, state)
            if state.objects.inlined and (absent := await _fill(log, state)):
                if looked_at == state.position:
                    raise _without_body(absent[0])
                # Another gateway may have moved the batches and trimmed the log: read on for that.
                looked_at = state.position
                continue
            state.touched.clear()
            state.changed = 0
            return state
        for each in entries:
            entry = decode_entry(each.payload, each.position, state.entry_formats)
            state.apply(each.position, entry)
        await trio.lowlevel.checkpoint()


async def _fill(log: MetadataLog, state: ClusterState) -> list[int]:
    """Read absent bodies of inlined objects; return the positions of those that are not there."""
    return await fill_absent(state, lambda at: patiently(reading(log, at), LogUnavailable))


def _without_body(position: int) -> LogMisconfigured:
    return LogMisconfigured(
        f"the bytes of records were in its entry {position}, which is gone or does not hold them,"
        " and no later entry says that they were moved to the object store; restore the log from a"
        " backup"
    )


async def _from_newer_snapshot(
    log: MetadataLog, state: ClusterState, log_begins_at: int
) -> ClusterState:
    """Return the state of a newer snapshot: another gateway may have saved one and trimmed."""
    newer = _followed(log, await _from_snapshot(log, state.highest_version))
    if state.cluster_id and newer.cluster_id != state.cluster_id:
        raise LogMisconfigured(
            f"the log of cluster {state.cluster_id} was moved away, and its place now holds"
            f" the log of cluster {newer.cluster_id!r}"
        )
    if newer.position <= state.position:
        raise LogMisconfigured(
            f"the metadata log begins at {log_begins_at} and no snapshot"
            f" reaches up to it (newest: {state.position}); restore it from a backup"
        )
    return newer


async def _from_snapshot(log: MetadataLog, highest_version: int) -> ClusterState:
    snapshot = await patiently(log.load_snapshot, LogUnavailable)
    if snapshot is None:
        return ClusterState(highest_version)
    return ClusterState.decode(b"".join(snapshot.chunks), highest_version)


def _check_end(log: MetadataLog, state: ClusterState) -> None:
    ends_here = 0 < state.position == state.log_moves.sealed_at
    if ends_here and not isinstance(log, MovableLog):
        new = without_secrets(state.log_moves.last.url)
        raise LogMisconfigured(f"it was moved to another one: use that, {new}")


def _followed(log: MetadataLog, state: ClusterState) -> ClusterState:
    if isinstance(log, MovableLog):
        log.follow(state)
    return state


def reading(log: MetadataLog, position: int) -> Callable[[], Awaitable[list[LogEntry] | Trimmed]]:
    """Return an attempt for patiently(): a read from a position on."""
    return lambda: log.read(position, READ_BYTES)


async def patiently(attempt: Callable[[], Awaitable[Answer]], *away: type[Exception]) -> Answer:
    """Repeat an attempt while it raises one of `away`; the caller sets a deadline."""
    said = SaidAgain()
    while True:
        try:
            return await attempt()
        except away as error:
            if said.is_due(str(error), trio.current_time()):
                _log.warning("the metadata log does not answer; trying again", error=str(error))
            await trio.sleep(RETRY_SECONDS)


def check_cluster(state: ClusterState, wanted_id: str) -> None:
    """Check that the log is whole and of the wanted cluster; "" for any cluster.  Writes nothing.

    Raises:
      LogMisconfigured: it is another cluster's, or a restore or a move has not filled it yet.
    """
    if state.timelines.is_restoring:
        raise LogMisconfigured(
            "a restore to it is under way, or was cut short: wait for its end, or run the same"
            " `tidegate log restore` again"
        )
    if state.log_moves.is_copy:
        raise LogMisconfigured(
            "`tidegate log move` is copying to it, or was cut short: use the log that it copies"
            " from, or run the same command again"
        )
    if wanted_id and state.cluster_id and wanted_id != state.cluster_id:
        raise LogMisconfigured(
            f"cluster.id={wanted_id}, but the metadata log is that of cluster {state.cluster_id}"
        )
