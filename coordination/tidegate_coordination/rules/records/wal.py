"""Committing and abandoning WAL objects.

Every batch is judged against the state at the position the commit gets: its topic may be deleted,
its producer fenced, its sequence out of order, or it may be a duplicate.  A refused batch leaves
dead bytes in the object and nothing else; it does not make other batches fail.  wal_judge.py holds
the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...events.cluster import WalAbandoned, WalCommitted
from ...state.records.objects import WalName, WalStatus
from ..proposal import GATEWAYS, HEADS, NOTHING, TOPICS, Decided, View
from .batch_outcomes import REFUSED, BatchFacts, BatchOutcome, Refusal
from .mirrored_batches import MirroredBatch
from .wal_judge import WalJudge

_COMMITTED_BEFORE = BatchOutcome(None, -1, -1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class CommitWal:
    """Make the batches of a stored object readable.

    batches: the batches in object order. append_time_topics: ids of the topics that have
    LogAppendTime.
    mirrored: the batches that a mirror brings, by position in the object.
    is_walked: the max_timestamp of each batch was read from its records.
    Answer: one BatchOutcome per batch.
    """

    name: WalName
    size_bytes: int
    batches: Sequence[BatchFacts]
    append_time_topics: frozenset[bytes] = frozenset()
    mirrored: Mapping[int, MirroredBatch] = field(default_factory=dict[int, MirroredBatch])
    is_walked: bool = False
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[BatchOutcome]]:
        """See the module's head."""
        refused = self._refused_as_a_whole(view)
        if refused is not None:
            return Decided((), [refused] * len(self.batches))
        judge = WalJudge(view, self.append_time_topics, self.mirrored, is_walked=self.is_walked)
        judge_one = judge.judge_mixed if self.mirrored else judge.judge
        outcomes = [judge_one(batch) for batch in self.batches]
        event = WalCommitted(
            self.name.incarnation,
            self.name.counter,
            self.size_bytes,
            judge.runs(),
            tuple(judge.producers()),
        )
        judge.leave_in_overlay(self.name)
        return Decided((event, *judge.later_events()), outcomes)

    def _refused_as_a_whole(self, view: View) -> BatchOutcome | None:
        if self.name.incarnation not in view.state.gateways.live:
            return REFUSED[Refusal.ABANDONED]
        status = view.state.objects.wal_status(self.name)
        if status is WalStatus.ABANDONED:
            return REFUSED[Refusal.ABANDONED]
        if status is WalStatus.COMMITTED or self.name in view.wal_ids:
            return _COMMITTED_BEFORE
        return None


@dataclass(frozen=True, slots=True)
class AbandonWal:
    """Abandon a WAL id for ever, so that its object may be collected.

    Answer: False if it was committed before, so it is not abandoned.
    """

    name: WalName
    reads: frozenset[str] = field(default=frozenset({HEADS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        if not view.state.gateways.is_live(self.name.incarnation):
            return Decided((), True)
        status = view.state.objects.wal_status(self.name)
        if status is WalStatus.UNKNOWN:
            event = WalAbandoned(self.name.incarnation, self.name.counter)
            return Decided((event,), True)
        return Decided((), status is WalStatus.ABANDONED)
