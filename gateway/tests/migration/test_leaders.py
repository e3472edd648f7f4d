"""Partitions by their leaders: which are fetched, in which order, and which cannot be fetched."""

from __future__ import annotations

from tidegate_coordination.client.metadata import Broker, ClusterMetadata, Partition
from tidegate_coordination.client.metadata import Topic as SourceTopic
from tidegate_coordination.client.properties.client import Address
from tidegate_coordination.state.topics import Topic
from tidegate_gateway.migration.mirror.leaders import Leaders
from tidegate_gateway.migration.mirror.partition import PartitionMirror

ID = b"t" * 16
TOPIC = Topic(ID, "t", [1, 2, 3], 1, {})


def mirrors(*, topic: Topic = TOPIC) -> dict[int, PartitionMirror]:
    return {
        number: PartitionMirror(topic, index, number, is_lost=False)
        for index, number in enumerate(topic.partition_numbers)
    }


def metadata(
    *leaders: int, topic_id: bytes = ID, brokers: tuple[int, ...] = (7, 8)
) -> ClusterMetadata:
    partitions = {
        index: Partition(index, leader, 0, (leader,), (leader,), ())
        for index, leader in enumerate(leaders)
    }
    known = {each: Broker(each, Address("h", each)) for each in brokers}
    return ClusterMetadata(
        "c", -1, known, {"t": SourceTopic("t", topic_id, is_internal=False, partitions=partitions)}
    )


def indexes(leaders: Leaders, node_id: int, most: int = 9) -> list[int]:
    return [each.index for each in leaders.due(node_id, 0.0, most)]


def test_each_broker_is_asked_for_what_it_leads() -> None:
    leaders = Leaders("c")
    leaders.look(metadata(7, 8, 7), mirrors())
    assert indexes(leaders, 7) == [0, 2]
    assert indexes(leaders, 8) == [1]
    assert indexes(leaders, 9) == []
    assert list(leaders.without(0.0)) == []


def test_a_newer_answer_counts_and_the_same_one_costs_nothing() -> None:
    leaders, own, first = Leaders("c"), mirrors(), metadata(7, 7, 7)
    leaders.look(first, own)
    leaders.look(metadata(8, 8, 8), own)
    assert indexes(leaders, 7) == []
    assert indexes(leaders, 8) == [0, 1, 2]
    gone = own.pop(1)
    leaders.forget()
    leaders.look(metadata(8, 8, 8), own)
    assert gone not in leaders.due(8, 0.0, 9)


def test_partitions_without_a_leader_are_named() -> None:
    def why(found: ClusterMetadata) -> set[str]:
        leaders = Leaders("c")
        leaders.look(found, mirrors())
        assert indexes(leaders, 7) == []
        return {text for _, text in leaders.without(0.0)}

    assert why(ClusterMetadata()) == {"the source does not name the topic"}
    other = metadata(7, 7, 7, topic_id=b"u" * 16)
    assert why(other) == {"the source has another topic of this name now"}
    assert why(metadata(9, 9, 9)) == {"the partition has no leader at the source"}
    assert why(metadata()) == {"the partition has no leader at the source"}


def test_those_that_had_a_turn_are_last() -> None:
    leaders, own = Leaders("c"), mirrors()
    leaders.look(metadata(7, 7, 7), own)
    assert indexes(leaders, 7, most=2) == [0, 1]
    leaders.had_turn(7, own[1])
    leaders.had_turn(7, own[2])
    leaders.had_turn(8, own[3])
    assert indexes(leaders, 7, most=2) == [2, 0]
    leaders.look(metadata(7, 7, 7), {**own, 4: PartitionMirror(TOPIC, 0, 4, is_lost=False)})
    assert [each.number for each in leaders.due(7, 0.0, 9)] == [3, 1, 2, 4]


def test_paused_partitions_are_left_out() -> None:
    leaders, own = Leaders("c"), mirrors()
    leaders.look(metadata(7, 7, 9), own)
    own[1].pause(0.0, "why")
    own[3].pause(0.0, "why")
    assert indexes(leaders, 7) == [1]
    assert list(leaders.without(0.0)) == []
    assert [each.index for each, _ in leaders.without(60.0)] == [2]
