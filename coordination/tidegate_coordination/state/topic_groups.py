"""The groups that have committed offsets of each topic.

So the deletion of a topic need not look at all groups.

Most topics have few groups.  A tuple of one takes 48 bytes and one of eight 104, where the smallest
dict takes 184.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_FEW: Final = 8


class TopicGroups:
    """See the module's head.  The table is derived from the groups, and is in no snapshot."""

    def __init__(self) -> None:
        self._of_topics: dict[bytes, tuple[str, ...] | dict[str, None]] = {}

    def of(self, topic_id: bytes) -> Collection[str]:
        """Return the groups of a topic, in the order in which they came."""
        return self._of_topics.get(topic_id, ())

    def add(self, topic_id: bytes, group_id: str) -> None:
        """Note that a group has its first offset of a topic."""
        groups = self._of_topics.get(topic_id, ())
        if isinstance(groups, dict):
            groups[group_id] = None
        elif len(groups) < _FEW:
            self._of_topics[topic_id] = (*groups, group_id)
        else:
            self._of_topics[topic_id] = dict.fromkeys((*groups, group_id))

    def remove(self, topic_id: bytes, group_id: str) -> None:
        """Note that a group has no offset of a topic any more."""
        groups = self._of_topics[topic_id]
        if isinstance(groups, dict):
            del groups[group_id]
        else:
            groups = tuple(each for each in groups if each != group_id)
            self._of_topics[topic_id] = groups
        if not groups:
            del self._of_topics[topic_id]

    def remove_topic(self, topic_id: bytes) -> None:
        """Forget a topic."""
        self._of_topics.pop(topic_id, None)
