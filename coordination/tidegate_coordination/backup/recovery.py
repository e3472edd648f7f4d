"""Recovers the newest possible state from copies, and from the readable part of a log.

A base is a snapshot, or the empty state.  Recovery folds entries onto it from any source that has
them, until no source has the next one.  The newest readable base is used: it includes every state
that an older base would reach through the same entries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec
import trio

from tidegate_storage.objects.keys import backup_prefix
from tidegate_storage.objects.ownership import Owner, newest_timeline
from tidegate_storage.stores.object_store import ObjectStore

from ..events.entries import UnreadableEntry, decode_entry
from ..log.inlined_bodies import fill_absent
from ..log.metadata_log import FIRST_POSITION, LogCorrupt, LogEntry, MetadataLog, Snapshot, Trimmed
from ..log.whole_entries import whole_ones
from ..state.broken import StateBroken
from ..state.cluster import ClusterState
from .copies import DamagedCopy, EntriesName, chain
from .shelf import Copies, Shelf

READ_BYTES: Final = 4 << 20

Say = Callable[[str], None]


class NothingToRestore(Exception):
    """No copy can be used.  The text says why and what to do."""


class Source(Protocol):
    """A place from which entries can be read."""

    async def read(self, position: int) -> Sequence[LogEntry]:
        """Return entries from a position on; none if this source lacks that position."""
        ...


class Base(NamedTuple):
    """A state at which folding may begin.  load: raises DamagedCopy, LogCorrupt."""

    position: int
    what: str
    load: Callable[[], Awaitable[Snapshot | None]]


@dataclass(slots=True)
class Recovered:
    """A state, and how far it goes.

    timeline: the timeline of the log that the state is from.  copied_at: when the newest copy was
    stored, in seconds since 1970 by the store's clock; 0 without copies.  complaints: the copies
    that could not be used.
    """

    state: ClusterState
    complaints: list[str]
    copied_at: float = 0.0

    @property
    def position(self) -> int:
        """Return the last position of the lost log that the state holds."""
        return self.state.position


class CopiedEntries:
    """The entries of a shelf."""

    def __init__(self, shelf: Shelf, names: Iterable[EntriesName], complaints: list[str]) -> None:
        self._shelf = shelf
        self._names = sorted(names)
        self._complaints = complaints

    async def read(self, position: int) -> Sequence[LogEntry]:
        """See Source."""
        while True:
            names = [each for each in self._names if each.first <= position <= each.last]
            if not names:
                return ()
            name = max(names, key=lambda each: each.last)
            try:
                entries = await self._shelf.read_entries(name)
            except DamagedCopy as damage:
                self._complaints.append(str(damage))
                self._names.remove(name)
            else:
                return entries[position - name.first :]


class LogEntries:
    """The entries of a log that may be damaged."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log

    async def read(self, position: int) -> Sequence[LogEntry]:
        """See Source; the result ends before a damaged entry."""
        for max_bytes in (READ_BYTES, 1):
            try:
                entries = await self._log.read(position, max_bytes)
            except LogCorrupt:
                continue
            return () if isinstance(entries, Trimmed) else whole_ones(entries)[0]
        return ()


async def recover(
    bases: Iterable[Base], sources: Sequence[Source], complaints: list[str], say: Say
) -> ClusterState | None:
    """Return the newest state; None if there is none at all."""
    for base in sorted(bases, key=lambda each: -each.position):
        try:
            say(f"reading {base.what}")
            state = await _folded(base, sources, complaints, say)
        except (DamagedCopy, LogCorrupt, StateBroken, msgspec.MsgspecError) as error:
            complaints.append(f"{base.what} cannot be used: {error}")
            continue
        if state.cluster_id:
            await _fill_absent(state, sources, complaints)
            return state
    return None


async def _fill_absent(
    state: ClusterState, sources: Sequence[Source], complaints: list[str]
) -> None:
    """Read the bodies of inlined objects whose entries the base covers."""
    for source in sources:
        try:
            await fill_absent(state, source.read)
        except UnreadableEntry as error:
            complaints.append(str(error))
    absent = set(state.objects.inlined.absent().values())
    if absent:
        complaints.append(
            f"the bytes of records were in entries of which there is no copy, {len(absent)} from"
            f" {min(absent)} on: those records are lost"
        )


async def _folded(
    base: Base, sources: Sequence[Source], complaints: list[str], say: Say
) -> ClusterState:
    snapshot = await base.load()
    begin = partial(_begun, base, snapshot)
    state = begin()
    try:
        await _fold_on(state, sources, complaints, say)
    except StateBroken as error:
        # The failing entry may be folded in part. Start from the base again, and end before that
        # entry.
        good = state.position
        complaints.append(f"the entry after {good} cannot be folded: {error}")
        state = begin()
        await _fold_on(state, sources, [], say, up_to=good)
    return state


def _begun(base: Base, snapshot: Snapshot | None) -> ClusterState:
    state = ClusterState() if snapshot is None else ClusterState.decode(b"".join(snapshot.chunks))
    if state.position != base.position:
        raise DamagedCopy(f"it is at {state.position}")
    return state


async def _fold_on(
    state: ClusterState,
    sources: Sequence[Source],
    complaints: list[str],
    say: Say,
    *,
    up_to: int | None = None,
) -> None:
    while up_to is None or state.position < up_to:
        if not await _fold_next(state, sources, complaints, up_to):
            return
        say(f"folded up to {state.position}")
        await trio.lowlevel.checkpoint()


async def _fold_next(
    state: ClusterState, sources: Sequence[Source], complaints: list[str], up_to: int | None
) -> bool:
    """Fold from the first readable source that has the next entry; return whether there is one."""
    unreadable: list[str] = []
    for source in sources:
        entries = await source.read(state.position + 1)
        try:
            if _fold(state, entries, up_to):
                return True
        except UnreadableEntry as error:
            good = state.position
            unreadable.append(f"the entry after {good} cannot be folded: {error}")
    complaints += unreadable
    return False


def _fold(state: ClusterState, entries: Sequence[LogEntry], up_to: int | None) -> bool:
    """Fold entries up to the first unreadable one; if that is the very first, raise its error."""
    before = state.position
    for each in entries:
        if up_to is not None and each.position > up_to:
            break
        try:
            entry = decode_entry(each.payload, each.position, state.entry_formats)
        except UnreadableEntry:
            if state.position == before:
                raise
            break
        state.apply(each.position, entry)
    return state.position > before


def bases_of(shelf: Shelf, copies: Copies) -> list[Base]:
    """Return the bases among the copies of one timeline."""
    bases = [
        Base(
            each.position,
            f"the copy of the snapshot at {each.position}",
            partial(shelf.read_snapshot, each),
        )
        for each in copies.snapshots
    ]
    if chain(copies.entries, FIRST_POSITION - 1):
        bases.append(from_the_start())
    return bases


def from_the_start() -> Base:
    """Return the base that needs all entries from the first one on."""
    return Base(FIRST_POSITION - 1, "the entries from the first one on", _no_snapshot)


async def _no_snapshot() -> None:
    await trio.lowlevel.checkpoint()


async def recover_from_copies(
    store: ObjectStore, owner: Owner, say: Say, *, newest: int = 0
) -> Recovered:
    """Return the newest state that the copies in a store give.

    An older timeline is used if the newer one has no copies, or if its restore was cut short.
    Unreadable copies of the newer timeline are no reason to use an older one.

    newest: the newest timeline in the store of the records, if the copies are in another store.
    The search begins there, unless the store of the copies has a newer one.

    Raises:
      NothingToRestore: no copy can be used, or no copy of the newest timeline can.
      ReleaseTooOld: a newer release wrote them.
      StoreUnavailable: try again later.
    """
    complaints: list[str] = []
    newest = max(newest, await newest_timeline(store, owner))
    for timeline in range(newest, 0, -1):
        shelf = Shelf(store, owner.cluster_id, timeline)
        copies = await shelf.look()
        source = CopiedEntries(shelf, copies.entries, complaints)
        state = await recover(bases_of(shelf, copies), [source], complaints, say)
        if state is not None and not state.timelines.is_restoring:
            return Recovered(state, complaints, copies.copied_at)
        if not _was_never_used(copies, state):
            raise _unreadable(owner, timeline, complaints)
    what = "; ".join(complaints) or "nothing was copied there"
    raise NothingToRestore(f"cluster {owner.cluster_id} has no usable backup in the store: {what}")


def _was_never_used(copies: Copies, state: ClusterState | None) -> bool:
    """Return whether a timeline has no copies, or only those of a restore that was cut short."""
    if state is None:
        return not copies.snapshots and not copies.entries
    return all(each.last <= state.position for each in copies.entries)


def _unreadable(owner: Owner, timeline: int, complaints: Sequence[str]) -> NothingToRestore:
    what = "; ".join(complaints) or "what they begin with is missing"
    folder = backup_prefix(owner.cluster_id, timeline)
    return NothingToRestore(
        f"the copies of cluster {owner.cluster_id}'s newest timeline, {timeline}, cannot be read:"
        f" {what}. Bring them back, from older versions of the objects if the store keeps some. An"
        " older timeline would be without all that was acknowledged in this one, so it is not"
        f" taken; if that has to be, move what lies below {folder} elsewhere, and restore again"
    )
