"""A proposal that names one topic twice: its entry must be one that replicas can fold."""

from tidegate_coordination.events.cluster import ClusterCreated, TopicCreated
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.rules.topics import CreatePartitions, Growth, Refused, TopicRefusal
from tidegate_coordination.state.cluster import ClusterState


def test_a_topic_named_twice_does_not_grow() -> None:
    state = ClusterState()
    created = (ClusterCreated("cluster", 1), TopicCreated(b"t" * 16, "t", 1, 1, {}))
    state.apply(1, Entry(1, b"n", 0, 1000, created))
    decided = CreatePartitions([Growth("t", 3), Growth("t", 3)]).decide(View(state, 0, 1000, 1000))
    state.apply(2, Entry(1, b"n", 0, 1000, tuple(decided.events)))
    refused = Refused(TopicRefusal.CONTRADICTION, "Duplicate topic name.")
    assert decided.answer == [refused, refused]
    assert len(state.topics.by_name["t"].partition_numbers) == 1
