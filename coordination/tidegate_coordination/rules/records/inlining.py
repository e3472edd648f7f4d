"""Small writes: an object's bytes go into the entry that commits it, and later to the store.

See decision 49.  The state of all gateways holds the bytes until they are moved, so their number is
bounded; and a log that is being moved or restored takes none, since entries are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...events.cluster import Run, WalCommitted
from ...events.inlined import BatchesInlined, InlineMoved, MovedStretch
from ...events.metadata_versions import INLINED
from ...state.cluster import ClusterState
from ...state.records.objects import WalName, WalStatus
from ...state.records.runs import RunRow
from ..proposal import GATEWAYS, HEADS, OBJECTS, TOPICS, Decided, View
from .batch_outcomes import BatchFacts, BatchOutcome
from .segments import SEGMENTS
from .wal import CommitWal

MAX_UNMOVED_BYTES: Final = 64 << 20
"""The memory of each gateway for all objects of the cluster that are only in its log."""


def may_inline(state: ClusterState, size_bytes: int) -> bool:
    """Return whether the log takes an object of that size now."""
    return (
        state.metadata_version >= INLINED
        and state.log_moves.present is None
        and not state.timelines.is_restoring
        and state.objects.inlined.held_bytes + size_bytes <= MAX_UNMOVED_BYTES
    )


@dataclass(frozen=True, slots=True, eq=False)
class CommitInlined:
    """Commit an object whose body travels in the entry.

    body: the whole object.  The other fields are those of CommitWal.
    Answer: one BatchOutcome per batch; None if the log takes no bytes now, so that the object must
    be stored, and committed by `commit`.
    """

    name: WalName
    batches: Sequence[BatchFacts]
    append_time_topics: frozenset[bytes]
    is_walked: bool
    body: bytes
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    @classmethod
    def of(cls, commit: CommitWal, body: bytes) -> CommitInlined:
        """Return the proposal for the body of an object without mirrored batches."""
        facts = (commit.name, commit.batches, commit.append_time_topics, commit.is_walked)
        return cls(*facts, body)

    @property
    def commit(self) -> CommitWal:
        """Return the proposal for the object once it is stored."""
        return CommitWal(
            self.name,
            len(self.body),
            self.batches,
            self.append_time_topics,
            is_walked=self.is_walked,
        )

    def decide(self, view: View) -> Decided[list[BatchOutcome] | None]:
        """See the class."""
        if not may_inline(view.state, len(self.body)):
            return Decided((), None)
        decided = self.commit.decide(view)
        if not decided.events:
            return Decided((), decided.answer)
        committed, *later = decided.events
        assert isinstance(committed, WalCommitted), "the rule of an object commits it first"
        # Also without a run, the event says that the store does not have the object.
        body = self.body if committed.runs else b""
        inlined = BatchesInlined(self.name.incarnation, self.name.counter, body)
        return Decided((committed, inlined, *later), decided.answer)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs of inlined objects, one at least, that follow one another in a partition.

    runs: those of the stored object that replace them.
    """

    partition: int
    parents: tuple[RunRow, ...]
    runs: tuple[Run, ...]

    def event(self) -> MovedStretch:
        """Return this part of the event."""
        first, last = self.parents[0].base_offset, self.parents[-1].next_offset
        return MovedStretch(self.partition, first, last, self.runs)


@dataclass(frozen=True, slots=True)
class MoveInlined:
    """Make a stored object the place of batches that were inlined.

    name: of the object; its writer is the author.  stretches: they do not overlap.  One whose runs
    changed since is left out: deleted, merged, skipped.
    Answer: how many stretches were moved.  If it is 0, the object is dead, and will be collected.
    """

    name: WalName
    size_bytes: int
    stretches: tuple[Stretch, ...]
    reads: frozenset[str] = field(
        default=frozenset({TOPICS, HEADS, GATEWAYS, OBJECTS, SEGMENTS}), init=False
    )
    writes: frozenset[str] = field(default=frozenset({OBJECTS, SEGMENTS}), init=False)

    def decide(self, view: View) -> Decided[int]:
        """See the class."""
        state, name = view.state, self.name
        if not state.gateways.is_live(name.incarnation):
            return Decided((), 0)
        if state.objects.wal_status(name) is not WalStatus.UNKNOWN:
            return Decided((), 0)
        left = tuple(each.event() for each in self.stretches if _is_unchanged(state, each))
        if not left:
            # An abandoned id would say that this gateway does not reach the store.
            return Decided((WalCommitted(*name, self.size_bytes, (), ()),), 0)
        return Decided((InlineMoved(*name, self.size_bytes, left),), len(left))


def _is_unchanged(state: ClusterState, stretch: Stretch) -> bool:
    partition = state.partitions.get(stretch.partition)
    if partition is None:
        return False
    start = partition.runs.index_of(stretch.parents[0].base_offset)
    return start is not None and partition.runs.has_at(start, stretch.parents)
