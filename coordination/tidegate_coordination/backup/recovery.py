"""From copies, and from what is left of a log, to the newest state that can be had.

A base is a snapshot, or nothing at all; entries are folded onto it from any source that has them,
until none has the next one.  The newest base that can be read wins: whatever an older one would
reach through the same entries, it has passed already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec
import trio

from tidegate_storage.object_store import ObjectStore
from tidegate_storage.ownership import Owner, newest_timeline

from ..entries import UnreadableEntry, decode_entry
from ..metadata_log import FIRST_POSITION, LogCorrupt, LogEntry, MetadataLog, Snapshot, Trimmed
from ..state.broken import StateBroken
from ..state.cluster import ClusterState
from .copies import DamagedCopy, EntriesName, chain
from .shelf import Copies, Shelf

READ_BYTES: Final = 4 << 20

Say = Callable[[str], None]


class NothingToRestore(Exception):
    """No copy can be used.  The text says why and what to do."""


class Source(Protocol):
    """Somewhere entries can be read from."""

    async def read(self, position: int) -> Sequence[LogEntry]:
        """Return entries from a position on; none when this source cannot give that one."""
        ...


class Base(NamedTuple):
    """Where folding may begin.  load: raises DamagedCopy, LogCorrupt."""

    position: int
    what: str
    load: Callable[[], Awaitable[Snapshot | None]]


@dataclass(slots=True)
class Recovered:
    """A state, and how far it goes.

    timeline: of the log it is from.  copied_at: when the newest copy was stored, in seconds since
    1970 by the store's clock; 0 without copies.  complaints: what could not be used.
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
        """See Source; a damaged entry ends what is returned, and is not returned itself."""
        for max_bytes in (READ_BYTES, 1):
            try:
                entries = await self._log.read(position, max_bytes)
            except LogCorrupt:
                continue
            return () if isinstance(entries, Trimmed) else entries
        return ()


async def recover(
    bases: Iterable[Base], sources: Sequence[Source], complaints: list[str], say: Say
) -> ClusterState | None:
    """Return the newest state; None when there is none at all."""
    for base in sorted(bases, key=lambda each: -each.position):
        try:
            say(f"reading {base.what}")
            state = await _folded(base, sources, complaints, say)
        except (DamagedCopy, LogCorrupt, StateBroken, msgspec.MsgspecError) as error:
            complaints.append(f"{base.what} cannot be used: {error}")
            continue
        if state.cluster_id:
            return state
    return None


async def _folded(
    base: Base, sources: Sequence[Source], complaints: list[str], say: Say
) -> ClusterState:
    snapshot = await base.load()
    begin = partial(_begun, base, snapshot)
    state = begin()
    try:
        await _fold_on(state, sources, say)
    except (StateBroken, UnreadableEntry) as error:
        # The entry may be folded in part: begin anew, and end before it.
        good = state.position
        complaints.append(f"the entry after {good} cannot be folded: {error}")
        state = begin()
        await _fold_on(state, sources, say, up_to=good)
    return state


def _begun(base: Base, snapshot: Snapshot | None) -> ClusterState:
    state = ClusterState() if snapshot is None else ClusterState.decode(b"".join(snapshot.chunks))
    if state.position != base.position:
        raise DamagedCopy(f"it is at {state.position}")
    return state


async def _fold_on(
    state: ClusterState, sources: Sequence[Source], say: Say, up_to: int | None = None
) -> None:
    while up_to is None or state.position < up_to:
        entries = await _next(sources, state.position + 1)
        if not entries:
            return
        for each in entries:
            if up_to is not None and each.position > up_to:
                return
            state.apply(each.position, decode_entry(each.payload, each.position))
        say(f"folded up to {state.position}")
        await trio.lowlevel.checkpoint()


async def _next(sources: Sequence[Source], position: int) -> Sequence[LogEntry]:
    for source in sources:
        entries = await source.read(position)
        if entries:
            return entries
    return ()


def bases_of(shelf: Shelf, copies: Copies) -> list[Base]:
    """Return what folding may begin with, among the copies of one timeline."""
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
    """Return the base that needs all entries there ever were."""
    return Base(FIRST_POSITION - 1, "the entries from the first one on", _no_snapshot)


async def _no_snapshot() -> None:
    await trio.lowlevel.checkpoint()


async def recover_from_copies(
    store: ObjectStore, owner: Owner, say: Say, *, newest: int = 0
) -> Recovered:
    """Return the newest state that the copies in a store give.

    newest: the timeline that the records' store is in, where the copies are in another store.

    Raises:
      NothingToRestore: there is no copy that can be used.
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
    what = "; ".join(complaints) or "nothing was copied there"
    raise NothingToRestore(f"cluster {owner.cluster_id} has no usable backup in the store: {what}")
