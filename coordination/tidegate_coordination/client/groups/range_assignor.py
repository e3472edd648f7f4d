"""Kafka's RangeAssignor: which member of a group reads which partitions.  Pure.

Each topic's partitions, in order, are split into one range for each member that wants the topic;
the first members get one more if they do not come out even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidegate_protocol.consumer_protocol import decode_subscription, encode_assignment
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from tidegate_protocol.messages.join_group import JoinGroupResponseMember

RANGE: Final = "range"


class Wish(NamedTuple):
    """A member, and the topics that it wants to read.  instance_id: "" for none."""

    member_id: str
    instance_id: str
    topics: frozenset[str]

    @property
    def place(self) -> tuple[bool, str]:
        """Where Kafka sorts it: static members come first, by their own names."""
        return not self.instance_id, self.instance_id or self.member_id


def wishes_of(members: Iterable[JoinGroupResponseMember]) -> list[Wish]:
    """Return the subscriptions of members; none for a member whose metadata cannot be read."""
    return [
        Wish(each.member_id, each.group_instance_id or "", _topics(each.metadata))
        for each in members
    ]


def _topics(metadata: bytes) -> frozenset[str]:
    try:
        return frozenset(decode_subscription(metadata).topics)
    except RemoteProtocolError:
        return frozenset()


def assigned(wishes: Iterable[Wish], counts: Mapping[str, int]) -> dict[str, bytes]:
    """Return the assignment of each member, as SyncGroup takes it.

    counts: partitions by topic; a topic that is missing has none.
    """
    members = sorted(wishes, key=lambda each: each.place)
    topics: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
    for topic in sorted({name for each in members for name in each.topics}):
        readers = [each for each in members if topic in each.topics]
        size, more = divmod(counts.get(topic, 0), len(readers))
        begin = 0
        for at, reader in enumerate(readers):
            end = begin + size + (at < more)
            if end > begin:
                found = TopicPartition(topic, list(range(begin, end)))
                topics[reader.member_id].append(found)
            begin = end
    return {
        member_id: encode_assignment(ConsumerProtocolAssignment(found))
        for member_id, found in topics.items()
    }
