"""Kafka's RangeAssignor: which member of a group reads which partitions."""

from __future__ import annotations

from typing import Any, cast

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from hypothesis import given
from hypothesis import strategies as st

from tidegate_coordination.client.groups.range_assignor import Wish, assigned, wishes_of
from tidegate_protocol.consumer_protocol import decode_assignment
from tidegate_protocol.messages.join_group import JoinGroupResponseMember


def places_of(assignments: dict[str, bytes]) -> dict[str, dict[str, list[int]]]:
    return {
        member: {
            each.topic: each.partitions for each in decode_assignment(data).assigned_partitions
        }
        for member, data in assignments.items()
    }


MEMBERS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=3, alphabet="abcz"),
        st.frozensets(st.sampled_from("tuv"), min_size=1),
    ),
    unique_by=lambda each: each[0],
    min_size=1,
    max_size=6,
)
COUNTS = st.dictionaries(st.sampled_from("tuv"), st.integers(0, 12))


class Known:
    """The metadata for aiokafka's assignor."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if self.counts.get(topic) else None


@given(MEMBERS, COUNTS)
def test_partitions_are_shared_as_other_clients_share_them(
    members: list[tuple[str, frozenset[str]]], counts: dict[str, int]
) -> None:
    found = places_of(assigned([Wish(name, "", topics) for name, topics in members], counts))
    theirs = RangePartitionAssignor.assign(
        cast("Any", Known(counts)),
        {name: RangePartitionAssignor.metadata(topics) for name, topics in members},
    )
    wanted = {
        name: {topic: places for topic, places in each.assignment if places}
        for name, each in theirs.items()
    }
    assert found == wanted


def test_static_members_come_first_by_their_own_names() -> None:
    topics = frozenset("t")
    wishes = [Wish("a", "", topics), Wish("z", "one", topics), Wish("b", "two", topics)]
    found = places_of(assigned(wishes, {"t": 4}))
    assert found == {"z": {"t": [0, 1]}, "b": {"t": [2]}, "a": {"t": [3]}}


def test_a_member_that_cannot_be_read_gets_nothing() -> None:
    members = [JoinGroupResponseMember("a", None, b"\x00"), JoinGroupResponseMember("b")]
    assert places_of(assigned(wishes_of(members), {"t": 3})) == {"a": {}, "b": {}}
