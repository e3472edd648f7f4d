"""Commits offsets of a group as part of a transaction (TxnOffsetCommit)."""

from __future__ import annotations

from dataclasses import dataclass

from ...events.groups import CommittedOffset
from ...events.transactions import OffsetsStaged, TransactionGrew
from ..consumer_groups.groups import group_scope, holds_claim
from ..consumer_groups.offsets import OffsetToCommit, partition_exists
from ..proposal import STAGED, TOPICS, Decided, View
from .growing import is_too_large, owned
from .refusals import TransactionRefusal


@dataclass(frozen=True, slots=True)
class StageOffsets:
    """Stage offsets for a member that the group's machine has accepted, or for no member.

    may_add: whether the request may add the group itself (v5).  Then the group is added in any
    case, as in Kafka.  began: without may_add, the position at which the transaction began that was
    open when the request arrived; 0 if that is not known.  Other fields: see CommitOffsets. Answer:
    a refusal, or per offset whether its partition still exists.
    """

    group_id: str
    claim_epoch: int
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    transactional_id: str
    producer_id: int
    epoch: int
    may_add: bool
    began: int = 0

    @property
    def reads(self) -> frozenset[str]:
        """The group and the topics."""
        return frozenset({group_scope(self.group_id), TOPICS})

    @property
    def writes(self) -> frozenset[str]:
        """The staged offsets of open transactions."""
        return frozenset({STAGED})

    def decide(self, view: View) -> Decided[list[bool] | TransactionRefusal]:
        """See the class."""
        if not holds_claim(view, self.group_id, self.claim_epoch):
            return Decided((), TransactionRefusal.NOT_HOLDER)
        group = view.state.groups.get(self.group_id)
        if group is not None and 0 <= self.generation < group.generation:
            return Decided((), TransactionRefusal.ILLEGAL_GENERATION)
        found = owned(view, self.transactional_id, self.producer_id, self.epoch)
        if isinstance(found, TransactionRefusal):
            return Decided((), found)
        is_in = found.row.is_open and self.group_id in found.groups
        if not is_in and not self.may_add:
            return Decided((), TransactionRefusal.NOT_ADDED)
        if is_in and self.began not in (0, found.row.began):
            return Decided((), TransactionRefusal.CONCURRENT)
        if not is_in and is_too_large(found, 0, 1):
            return Decided((), TransactionRefusal.TOO_LARGE)
        exist = [partition_exists(view.state, each) for each in self.offsets]
        taken = [each for each, is_there in zip(self.offsets, exist, strict=True) if is_there]
        if not taken and is_in:
            return Decided((), exist)
        found.begin(view.log_time_ms, view.transactions.position)
        found.groups.add(self.group_id)
        grown = TransactionGrew(self.producer_id, (), (self.group_id,))
        return Decided((self._event(view, taken) if taken else grown,), exist)

    def _event(self, view: View, taken: list[OffsetToCommit]) -> OffsetsStaged:
        rows = tuple(
            CommittedOffset(
                each.topic_id,
                each.partition,
                each.offset,
                each.leader_epoch,
                each.metadata,
                view.log_time_ms,
            )
            for each in taken
        )
        return OffsetsStaged(self.producer_id, self.group_id, self.claim_epoch, rows)
