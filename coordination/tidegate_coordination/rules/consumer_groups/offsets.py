"""Committing and deleting the offsets of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ...events.groups import CommittedOffset, OffsetsCommitted, OffsetsDeleted
from ...groups.subscription import subscribed_topics
from ...groups.values import CONSUMER_PROTOCOL_TYPE
from ...state.cluster import ClusterState
from ...state.groups import Group
from ..proposal import STAGED, TOPICS, Decided, View
from .groups import group_scope, held_by_another, holds_claim, offsets_scope


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """An offset of a partition to commit.  leader_epoch: -1 for none."""

    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class CommitRefusal(Enum):
    """Why none of the offsets was committed."""

    NOT_HOLDER = "another gateway serves the group"
    ILLEGAL_GENERATION = "a later generation has begun"


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets of a group, for a member that its machine has accepted.

    generation: -1 outside group management.  Answer: a refusal, or per offset whether its partition
    still exists.  Commits of one group may share an entry: a commit reads the group, but not its
    offsets.
    """

    group_id: str
    claim_epoch: int
    generation: int
    offsets: tuple[OffsetToCommit, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The group and the topics."""
        return frozenset({group_scope(self.group_id), TOPICS})

    @property
    def writes(self) -> frozenset[str]:
        """The group's offsets."""
        return frozenset({offsets_scope(self.group_id)})

    def decide(self, view: View) -> Decided[list[bool] | CommitRefusal]:
        """See the class."""
        if not holds_claim(view, self.group_id, self.claim_epoch):
            return Decided((), CommitRefusal.NOT_HOLDER)
        group = view.state.groups.get(self.group_id)
        if group is not None and 0 <= self.generation < group.generation:
            return Decided((), CommitRefusal.ILLEGAL_GENERATION)
        exist = [partition_exists(view.state, each) for each in self.offsets]
        taken = tuple(
            CommittedOffset(
                each.topic_id,
                each.partition,
                each.offset,
                each.leader_epoch,
                each.metadata,
                view.log_time_ms,
            )
            for each, exists in zip(self.offsets, exist, strict=True)
            if exists
        )
        if not taken:
            return Decided((), exist)
        return Decided((OffsetsCommitted(self.group_id, self.claim_epoch, taken),), exist)


def partition_exists(state: ClusterState, offset: OffsetToCommit) -> bool:
    """Return whether the partition exists."""
    topic = state.topics.by_id.get(offset.topic_id)
    return topic is not None and 0 <= offset.partition < len(topic.partition_numbers)


class OffsetDeletionRefusal(Enum):
    """Why no offset was deleted."""

    NOT_HOLDER = "another gateway serves the group"
    UNKNOWN_GROUP = "there is no such group"
    IN_USE = "the group has members of another protocol type"


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Delete committed offsets of topics that no member subscribes to (KIP-496), and offsets that
    transactions have staged.

    partitions: (topic id, partition).  Answer: a refusal, or per partition False when its topic is
    subscribed to.  Offsets that were never committed count as deleted.
    """

    group_id: str
    partitions: tuple[tuple[bytes, int], ...]

    @property
    def reads(self) -> frozenset[str]:
        """The group, its offsets, those that open transactions have staged, and the topics."""
        own = {group_scope(self.group_id), offsets_scope(self.group_id)}
        return frozenset({*own, STAGED, TOPICS})

    @property
    def writes(self) -> frozenset[str]:
        """The group's offsets."""
        return frozenset({offsets_scope(self.group_id)})

    def decide(self, view: View) -> Decided[list[bool] | OffsetDeletionRefusal]:
        """See the class."""
        group = view.state.groups.get(self.group_id)
        if held_by_another(view, self.group_id):
            return Decided((), OffsetDeletionRefusal.NOT_HOLDER)
        if group is None:
            return Decided((), OffsetDeletionRefusal.UNKNOWN_GROUP)
        if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return Decided((), OffsetDeletionRefusal.IN_USE)
        free = [not is_subscribed(view.state, group, topic_id) for topic_id, _ in self.partitions]
        return Decided(_deletion(view.state, group, self.partitions, free), free)


def is_subscribed(state: ClusterState, group: Group, topic_id: bytes) -> bool:
    """Return whether members of a consumer group subscribe to the topic, or might."""
    topic = state.topics.by_id.get(topic_id)
    topics = group_subscription(group)
    return topics is None or (topic is not None and topic.name in topics)


def group_subscription(group: Group) -> frozenset[str] | None:
    """Return the topics that a group's members subscribe to; None if they are unknown."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    metadata = (dict(each.protocols).get(group.protocol or "", b"") for each in group.members)
    return subscribed_topics(metadata)


def _deletion(
    state: ClusterState,
    group: Group,
    partitions: Sequence[tuple[bytes, int]],
    free: Sequence[bool],
) -> list[OffsetsDeleted]:
    is_pending = state.transactions.is_pending
    wanted = dict.fromkeys(
        each
        for each, is_free in zip(partitions, free, strict=True)
        if is_free and (group.offset(*each) is not None or is_pending(group.group_id, each))
    )
    return [OffsetsDeleted(group.group_id, tuple(wanted))] if wanted else []
