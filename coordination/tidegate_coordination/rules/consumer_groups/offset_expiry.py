"""When committed offsets, and groups, expire (`offsets.retention.minutes`).

Kafka's rules (KIP-211): if a group has had no members for the retention time, its offsets expire.
If a group has members, only offsets of topics that no member subscribes to expire, counted from the
commit.  Offsets of a consumer that never joined a group expire, counted from the commit.  A group
without members and offsets is deleted, too.

A rebalance under way is not in the state.  When an empty group begins one, its gateway writes the
group again, so that `empty_since_ms` is recent (KAFKA-13636).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...events.cluster import Event
from ...events.groups import CommittedOffset, GroupDeleted, OffsetsDeleted
from ...state.cluster import ClusterState
from ...state.groups import Group
from ..proposal import STAGED, TOPICS, Decided, View
from .groups import group_scope, offsets_scope
from .offsets import group_subscription

EMPTY_GROUP_GRACE_MS = 10 * 60 * 1000
"""How long a group without members and offsets stays: Kafka's interval between two checks."""
MAX_EXPIRED = 5_000
"""Offsets in one event: 25 bytes each, so that other events have room in the entry."""


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Delete the expired offsets of a group, MAX_EXPIRED at most, unless the whole group is
    deleted.

    Answer: the number of deleted offsets, and whether the group was deleted.  Propose it again
    after MAX_EXPIRED.
    """

    group_id: str
    retention_ms: int

    @property
    def reads(self) -> frozenset[str]:
        """The group, its offsets, those that open transactions have staged, and the topics."""
        own = {group_scope(self.group_id), offsets_scope(self.group_id)}
        return frozenset({*own, STAGED, TOPICS})

    @property
    def writes(self) -> frozenset[str]:
        """The group and its offsets."""
        return frozenset({group_scope(self.group_id), offsets_scope(self.group_id)})

    def decide(self, view: View) -> Decided[tuple[int, bool]]:
        """See the class."""
        group = view.state.groups.get(self.group_id)
        if group is None:
            return Decided((), (0, False))
        expired = expired_offsets(view.state, group, self.retention_ms, view.log_time_ms)
        if is_spent(view.state, group, len(expired), view.log_time_ms):
            return Decided((GroupDeleted(self.group_id),), (len(expired), True))
        if not expired:
            return Decided((), (0, False))
        keys = tuple((each.topic_id, each.partition) for each in expired[:MAX_EXPIRED])
        events: list[Event] = [OffsetsDeleted(self.group_id, keys)]
        return Decided(events, (len(keys), False))


def propose_expiry(
    state: ClusterState, *, retention_ms: int, log_time_ms: int
) -> Iterator[ExpireOffsets]:
    """Yield a proposal for each group with expired offsets; propose them one by one.

    This iterates over the live state, so collect some or all of the proposals before you wait.
    """
    for group in state.groups:
        expired = expired_offsets(state, group, retention_ms, log_time_ms)
        if expired or is_spent(state, group, 0, log_time_ms):
            yield ExpireOffsets(group.group_id, retention_ms)


def is_spent(state: ClusterState, group: Group, expired: int, log_time_ms: int) -> bool:
    """Return whether the group is empty once this many of its offsets have expired."""
    if group.members or state.transactions.is_staging(group.group_id):
        return False
    if expired < sum(map(len, group.offsets.values())):
        return False
    return expired > 0 or log_time_ms - group.empty_since_ms >= EMPTY_GROUP_GRACE_MS


def expired_offsets(
    state: ClusterState, group: Group, retention_ms: int, log_time_ms: int
) -> list[CommittedOffset]:
    """Return the offsets of a group that have expired, and are in no open transaction."""
    if not group.offsets:
        return []
    if group.protocol_type and not group.members:
        is_old = log_time_ms - group.empty_since_ms >= retention_ms
        return [each for _, each in _idle_offsets(state, group)] if is_old else []
    topics = group_subscription(group)
    if topics is None:
        return []
    return [
        each
        for topic_id, each in _idle_offsets(state, group)
        if log_time_ms - each.commit_timestamp_ms >= retention_ms
        and _topic_name(state, topic_id) not in topics
    ]


def _idle_offsets(state: ClusterState, group: Group) -> Iterator[tuple[bytes, CommittedOffset]]:
    for topic_id, of_topic in group.offsets.items():
        for partition, each in of_topic.items():
            key = (topic_id, partition)
            if not state.transactions.is_pending(group.group_id, key):
                yield topic_id, each


def _topic_name(state: ClusterState, topic_id: bytes) -> str:
    topic = state.topics.by_id.get(topic_id)
    return topic.name if topic is not None else ""
