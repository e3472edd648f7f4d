"""Repair of a log with a damaged or missing entry or snapshot: the damage, and what is recoverable.

Repair reads the entries one after the other; if one cannot be read, a copy in the object store may
have it.  Repair does not change the damaged log.  It first saves all readable entries, and then
restores the recoverable state to a new log (restore.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tidegate_storage.stores.object_store import ObjectStore

from ..log.metadata_log import FIRST_POSITION, LogCorrupt, LogEntry, MetadataLog, Snapshot, Trimmed
from ..log.whole_entries import whole_ones
from ..state.cluster import ClusterState
from .copies import DamagedCopy
from .recovery import (
    Base,
    CopiedEntries,
    LogEntries,
    NothingToRestore,
    Recovered,
    Say,
    Source,
    bases_of,
    from_the_start,
    recover,
)
from .shelf import Copies, Shelf

READ_BYTES: Final = 4 << 20
MAX_GAP: Final = 1000
"""Damaged entries in a row after which repair abandons the rest of a log."""


@dataclass(slots=True)
class Damage:
    """The damage of a log.

    first, last: positions of the readable entries; last 0: none.  bad: unreadable positions, with
    the log's own messages, up to MAX_GAP of them.
    """

    snapshot_position: int = 0
    snapshot_error: str = ""
    first: int = FIRST_POSITION
    last: int = 0
    bad: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is damaged."""
        return not self.bad and not self.snapshot_error


async def look_for_damage(log: MetadataLog, say: Say) -> Damage:
    """Read all of a log.

    Raises:
      LogUnavailable: try again later.
    """
    damage = Damage()
    snapshot = await _snapshot(log, damage)
    damage.snapshot_position = snapshot.position if snapshot is not None else 0
    async with aclosing(readable(log, damage)) as pages:
        async for entries in pages:
            damage.last = entries[-1].position
            say(f"read up to {damage.last}")
    if damage.first > damage.snapshot_position + 1:
        damage.snapshot_error = damage.snapshot_error or (
            f"the log begins at {damage.first}, and its snapshot does not reach up to there"
        )
    return damage


async def _snapshot(log: MetadataLog, damage: Damage) -> Snapshot | None:
    try:
        return await log.load_snapshot()
    except LogCorrupt as error:
        damage.snapshot_error = str(error)
        return None


async def readable(log: MetadataLog, damage: Damage) -> AsyncGenerator[list[LogEntry], None]:
    """Yield all readable entries, and note in `damage` where they begin and which are unreadable.

    A gap at the very end is noted only if the log itself reports it: entries that are lost there
    without a trace are unknown.
    """
    position, last_good, gap = FIRST_POSITION, 0, dict[int, str]()
    while len(gap) < MAX_GAP:
        entries, complaint = await _read(log, position)
        if isinstance(entries, Trimmed):
            position = damage.first = entries.first_position
        elif entries:
            damage.bad |= gap
            gap.clear()
            yield entries
            last_good = entries[-1].position
            position = last_good + 1
        elif complaint:
            gap[position] = complaint
            position += 1
        else:
            break
    if gap:
        _note_end(damage, gap, last_good, reached_end=len(gap) < MAX_GAP)


async def _read(log: MetadataLog, position: int) -> tuple[list[LogEntry] | Trimmed, str]:
    """Read entries from `position` on, up to the first damaged one; return them and a text.

    If the entry at `position` itself cannot be read, the text says why.
    """
    try:
        found = await log.read(position, READ_BYTES)
    except LogCorrupt:
        return await _read_singly(log, position)
    return (found, "") if isinstance(found, Trimmed) else whole_ones(found)


async def _read_singly(log: MetadataLog, position: int) -> tuple[list[LogEntry], str]:
    entries: list[LogEntry] = []
    size_bytes = 0
    while size_bytes < READ_BYTES:
        try:
            found = await log.read(position + len(entries), 1)
        except LogCorrupt as error:
            return entries, str(error)
        if isinstance(found, Trimmed) or not found:
            break
        whole, complaint = whole_ones(found)
        entries += whole
        if complaint:
            return entries, complaint
        size_bytes += len(found[-1].payload)
    return entries, ""


def _note_end(damage: Damage, gap: dict[int, str], last_good: int, *, reached_end: bool) -> None:
    """Note the damaged entries of a gap at the log's end; beyond the end every read fails."""
    if reached_end:
        damage.bad |= gap
    else:
        damage.bad[last_good + 1] = gap[last_good + 1]


async def recover_from_log(
    log: MetadataLog, damage: Damage, copies: tuple[Shelf, Copies] | None, say: Say
) -> Recovered:
    """Return the newest state of a damaged log; copies supply the entries that it lacks.

    copies: the copies of the log's own timeline.

    Raises:
      NothingToRestore: no base can be used.
    """
    complaints: list[str] = []
    bases: list[Base] = []
    sources: list[Source] = []
    if not damage.snapshot_error:
        load = partial(log.load_snapshot)
        what = f"the log's snapshot at {damage.snapshot_position}"
        if damage.snapshot_position:
            bases.append(Base(damage.snapshot_position, what, load))
    if damage.first == FIRST_POSITION and damage.last:
        bases.append(from_the_start())
    copied_at = 0.0
    # A log without a readable beginning does not name its cluster.
    if bases or (copies is not None and await is_same_log(log, *copies)):
        sources.append(LogEntries(log))
    if copies is not None:
        shelf, found = copies
        bases += bases_of(shelf, found)
        sources.append(CopiedEntries(shelf, found.entries, complaints))
        copied_at = found.copied_at
    state = await recover(bases, sources, complaints, say)
    if state is None:
        raise NothingToRestore(
            "neither the log nor a copy of it has a snapshot or a beginning to start from: "
            + ("; ".join(complaints) or damage.snapshot_error or "there are no entries")
        )
    return Recovered(state, complaints, copied_at)


async def is_same_log(log: MetadataLog, shelf: Shelf, copies: Copies) -> bool:
    """Return whether the log holds an entry as it was copied; False without a copy of it."""
    for name in reversed(copies.entries):
        try:
            copied = await shelf.read_entries(name)
        except DamagedCopy:
            continue
        for each in copied:
            if found := await LogEntries(log).read(each.position):
                return found[0] == each
    return False


async def identity_of(log: MetadataLog, damage: Damage, say: Say) -> ClusterState | None:
    """Return the state that the log alone gives, which has the cluster id and the timeline."""
    try:
        return (await recover_from_log(log, damage, None, say)).state
    except NothingToRestore:
        return None


async def save_entries(log: MetadataLog, store: ObjectStore, cluster_id: str) -> int:
    """Store every entry that can be read, as backups do; return how many there were."""
    shelf = Shelf(store, cluster_id or "unknown", 0)
    saved = 0
    async with aclosing(readable(log, Damage())) as pages:
        async for entries in pages:
            await shelf.put_entries(entries)
            saved += len(entries)
    return saved
