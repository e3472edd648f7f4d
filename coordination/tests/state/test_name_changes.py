"""Whether the thing that a name stands for was changed since the name was looked up."""

from __future__ import annotations

import tracemalloc

from tests.coordinator.test_coordinator import CreateTopic, begin, make, running
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.configs import (
    Change,
    ConfigRefusal,
    ConfigRefused,
    Operation,
    ResourceChange,
    SetConfigs,
)
from tidegate_coordination.rules.topics import (
    Created,
    CreatePartitions,
    CreateTopics,
    Deleted,
    DeleteTopics,
    Growth,
    NewTopic,
    Refused,
    TopicKey,
    TopicRefusal,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.name_changes import NameChanges


def test_a_dropped_name_counts_as_changed() -> None:
    changes = NameChanges(max_names=2)
    for position, name in enumerate(("a", "b", "a", "c"), 1):
        changes.note(2, name, position)
    known = {name: [changes.is_topic_since(name, seen) for seen in (1, 2, 3, 4)] for name in "abc"}
    assert known == {
        "a": [True, True, False, False],
        "b": [True, False, False, False],
        "c": [True, True, True, False],
    }
    assert not changes.is_topic_since("a", 0)
    assert not changes.is_since(4, "a", 2)  # a gateway's configs are not a topic's


def test_long_names_are_distinct_and_kept_as_digests() -> None:
    changes = NameChanges()
    tracemalloc.start()
    for position in range(1, 101):
        changes.note(32, f"{position}".zfill(32_000), position)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 100_000
    since = [changes.is_since(32, f"{each}".zfill(32_000), 50) for each in range(1, 102)]
    assert since == [False] * 50 + [True] * 50 + [False]


def test_all_that_came_before_a_snapshot_counts_as_changed_there() -> None:
    state = ClusterState()
    state.position = 7
    loaded = ClusterState.decode(state.encode())
    assert [loaded.name_changes.is_topic_since("a", seen) for seen in (6, 7)] == [True, False]


async def test_a_name_changed_since_it_was_looked_up_is_refused() -> None:
    coordinator = make(MemoryLog())
    async with running(coordinator):
        coordinator.incarnation = await begin(coordinator, 1)

        async def creates(name: str, seen: int) -> object:
            [answer] = await coordinator.propose(
                CreateTopics([NewTopic(b"z" * 16, name)], seen=seen)
            )
            return answer

        await coordinator.propose(CreateTopic("x"))
        seen = coordinator.state.position
        change = Change("retention.ms", Operation.SET, "7")
        setting = [ResourceChange(2, "x", [change])]
        assert await coordinator.propose(SetConfigs(setting, seen=seen)) == [None]
        [refused] = await coordinator.propose(SetConfigs(setting, seen=seen))
        assert isinstance(refused, ConfigRefused)
        assert refused.reason is ConfigRefusal.CHANGED
        changed = Refused(TopicRefusal.CHANGED, "")
        assert await coordinator.propose(CreatePartitions([Growth("x", 2)], seen=seen)) == [changed]
        assert await coordinator.propose(DeleteTopics([TopicKey("x")], seen)) == [changed]
        assert isinstance(await creates("y", seen), Created)  # other names are not affected
        [deleted] = await coordinator.propose(
            DeleteTopics([TopicKey("x")], coordinator.state.position)
        )
        assert isinstance(deleted, Deleted)
        assert await creates("x", seen) == changed


async def test_a_name_that_stands_for_another_topic_is_unknown() -> None:
    coordinator = make(MemoryLog())
    async with running(coordinator):
        coordinator.incarnation = await begin(coordinator, 1)
        await coordinator.propose(CreateTopic("x"))
        setting = [ResourceChange(2, "x", [])]
        for topic_id, is_known in ((b"x".ljust(16, b"\0"), True), (b"o" * 16, False), (b"", False)):
            ids = {"x": topic_id}
            [answer] = await coordinator.propose(SetConfigs(setting, topic_ids=ids))
            assert (answer is None) is is_known
            growth = CreatePartitions([Growth("x", 5)], True, topic_ids=ids)
            [grown] = await coordinator.propose(growth)
            assert (grown is None) is is_known
