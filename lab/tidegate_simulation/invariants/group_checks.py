"""Judges each removal of a group or its offsets: a client must have asked, or KIP-211 allow it.

The watch judges by the state and the log time before the entry, and notes the removal in the
history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate_coordination.events import groups as gev
from tidegate_coordination.events.entries import AnyEvent
from tidegate_coordination.rules.consumer_groups.offset_expiry import EMPTY_GROUP_GRACE_MS
from tidegate_coordination.rules.consumer_groups.offsets import group_subscription
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import Group

from ..checks.history import History
from ..plans.expiry_plan import OFFSETS_EXPIRED

_KIND: Final = "gone too early"


class GroupWatch:
    """See the module's head.

    complain: called with the kind and the text of a violation.  count: called with the kind of each
    removal.  number_of: returns a partition's number in histories.
    """

    def __init__(
        self,
        history: History,
        complain: Callable[[str, str], None],
        count: Callable[[str], None],
        number_of: Callable[[bytes, int], int | None],
        *,
        retention_ms: int,
    ) -> None:
        self._history = history
        self._complain = complain
        self._count = count
        self._number_of = number_of
        self._retention_ms = retention_ms
        self._asked: set[str] = set()

    def asks(self, group_id: str) -> None:
        """Allow the deletion of a group from now on: a client asks for it."""
        self._asked.add(group_id)

    def changes(self, event: gev.GroupChanged) -> None:
        """Note a group that is moved here without members: its generations begin anew."""
        if not (event.generation or event.members):
            self._note("begun", {"group": event.group_id})

    def before(self, state: ClusterState, event: AnyEvent, now_ms: int) -> None:
        """Judge an event before the fold."""
        if not isinstance(event, gev.OffsetsDeleted | gev.GroupDeleted):
            return
        group = state.groups.get(event.group_id)
        if group is None:
            return  # the group has a claim and nothing else
        if isinstance(event, gev.GroupDeleted):
            is_asked = event.group_id in self._asked
            if not is_asked and not self._is_spent(state, group, now_ms):
                self._complain(_KIND, f"group {event.group_id}, {group}")
            if group.offsets and not is_asked:
                self._count(OFFSETS_EXPIRED)
            self._note("gone", {"group": event.group_id})
            return
        early = [each for each in event.partitions if not self._may_go(state, group, *each, now_ms)]
        if early:
            self._complain(_KIND, f"offsets of group {event.group_id}: {early}, at {now_ms}")
        keys = [self._number_of(*each) for each in event.partitions]
        self._note("expired", {"group": event.group_id, "keys": keys})
        self._count(OFFSETS_EXPIRED)

    def _note(self, f: str, value: dict[str, object]) -> None:
        self._history.note("watch", "ok", f, value)

    def _is_spent(self, state: ClusterState, group: Group, now_ms: int) -> bool:
        if group.members:
            return False
        committed = [
            (topic_id, each) for topic_id in group.offsets for each in group.offsets[topic_id]
        ]
        if not committed:
            return now_ms - group.empty_since_ms >= EMPTY_GROUP_GRACE_MS
        return all(self._may_go(state, group, *each, now_ms) for each in committed)

    def _may_go(
        self, state: ClusterState, group: Group, topic_id: bytes, partition: int, now_ms: int
    ) -> bool:
        committed = group.offset(topic_id, partition)
        if committed is None:
            return False
        if group.protocol_type and not group.members:
            return now_ms - group.empty_since_ms >= self._retention_ms
        subscribed, topic = group_subscription(group), state.topics.by_id.get(topic_id)
        if subscribed is None or (topic is not None and topic.name in subscribed):
            return False
        return now_ms - committed.commit_timestamp_ms >= self._retention_ms
