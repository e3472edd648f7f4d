"""The records of `__consumer_offsets`, on a state folded from entries."""

from __future__ import annotations

import pytest

from tests.groups.test_group_state import World, topic_id
from tidegate_coordination.events.cluster import (
    Event,
    MetadataVersionSet,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from tidegate_coordination.events.groups import (
    CommittedOffset,
    GroupChanged,
    GroupDeleted,
    MemberRecord,
    OffsetsCommitted,
    OffsetsDeleted,
)
from tidegate_coordination.events.metadata_versions import NEWEST, OFFSETS_TOPIC_FILLED
from tidegate_coordination.state import offsets_topic
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.offsets_topic import (
    OFFSETS_TOPIC,
    CommitRecord,
    GroupRecord,
    OffsetsRecord,
    Tombstone,
    offsets_partition,
)

PARTITIONS = 3
MEMBER = MemberRecord("m", None, "c", "h", 1, 2, (("range", b"s"),), b"a")


def offsets_world(version: int = NEWEST, *, with_topic: bool = True) -> World:
    """Return a world at a level, with the topic."""
    world = World()
    world.fold(MetadataVersionSet(version))
    if with_topic:
        world.fold(made())
    return world


def made() -> Event:
    return TopicCreated(topic_id("offsets"), OFFSETS_TOPIC, PARTITIONS, 1, {})


def commit(group: str, offset: int, partition: int = 0, topic: str = "orders") -> Event:
    each = CommittedOffset(topic_id(topic), partition, offset, -1, "note", 7)
    return OffsetsCommitted(group, 0, (each,))


def group_of(group: str, generation: int = 1, kind: str = "consumer") -> Event:
    return GroupChanged(group, 0, kind, generation, "range", "m", (MEMBER,))


def records(state: ClusterState, group: str = "g", start: int = 0) -> list[OffsetsRecord]:
    """Return the records of a group's partition."""
    topic = state.topics.by_name[OFFSETS_TOPIC]
    number = topic.partition_numbers[offsets_partition(group, len(topic.partition_numbers))]
    end = state.partitions[number].next_offset
    return list(state.offsets_topic.by_number[number].between(start, end))


def told(state: ClusterState, group: str = "g", start: int = 0) -> list[tuple[object, ...]]:
    """Return the records as (place, what)."""
    return [
        (each.place, each.topic.name, each.committed.partition, each.committed.offset)
        if isinstance(each, CommitRecord)
        else (each.place, each.group.generation)
        if isinstance(each, GroupRecord)
        else (each.place, each.topic, each.partition, None)
        for each in records(state, group, start)
    ]


def again(state: ClusterState) -> ClusterState:
    """Return the state of a gateway that starts from a snapshot of this state."""
    encoded = state.encode()
    decoded = ClusterState.decode(encoded)
    assert decoded.encode() == encoded
    return decoded


def test_each_commit_takes_the_next_offset_of_its_groups_partition() -> None:
    world = offsets_world()
    world.fold(commit("g", 5), commit("g", 6), commit("other", 1))
    world.fold(group_of("g"))
    assert told(world.state) == [(0, "orders", 0, 5), (1, "orders", 0, 6), (2, 1)]
    assert told(world.state, start=2) == [(2, 1)]
    topic = world.state.topics.by_name[OFFSETS_TOPIC]
    ends = [world.state.partitions[each].next_offset for each in topic.partition_numbers]
    assert sum(ends) == 4
    assert world.state.touched >= {
        number for number, end in zip(topic.partition_numbers, ends, strict=True) if end
    }


def test_a_snapshot_keeps_the_last_record_of_each_key_at_its_offset() -> None:
    world = offsets_world()
    world.fold(group_of("g"), commit("g", 5), commit("g", 6), commit("g", 1, 1), group_of("g", 2))
    state = again(world.state)
    assert told(state) == [(2, "orders", 0, 6), (3, "orders", 1, 1), (4, 2)]
    assert told(state, start=4) == told(world.state, start=4)


def test_deletions_are_tombstones_also_in_a_snapshot() -> None:
    world = offsets_world()
    world.fold(group_of("g"), commit("g", 5), commit("g", 6, 1), commit("g", 7, 0, "other"))
    world.fold(OffsetsDeleted("g", ((topic_id("orders"), 1),)))
    world.fold(TopicDeleted(topic_id("other")))
    world.fold(GroupChanged("g", 0, "consumer", 2, None, None, ()), GroupDeleted("g"))
    expected = [
        (4, "orders", 1, None),
        (5, "other", 0, None),
        (7, "orders", 0, None),
        (8, "", -1, None),
    ]
    assert told(world.state)[4:6] == expected[:2]
    assert told(again(world.state)) == expected


def test_a_group_that_only_commits_has_no_record_of_its_own() -> None:
    world = offsets_world()
    world.fold(commit("g", 5), GroupDeleted("g"))
    assert told(world.state) == [(0, "orders", 0, 5), (1, "orders", 0, None), (2, "", -1, None)]


@pytest.mark.parametrize("how", ["level", "topic", "partitions"])
def test_what_is_there_already_is_recorded_when_the_topic_begins(how: str) -> None:
    world = offsets_world(
        OFFSETS_TOPIC_FILLED - 1 if how == "level" else NEWEST, with_topic=how != "topic"
    )
    world.fold(group_of("g"), commit("g", 6, 1), commit("g", 5))
    world.fold(commit("g", 8, 0, "other"), commit("f", 1, 0, "other"), commit("f", 1))
    restarted = again(world.state)
    if how != "partitions":
        assert not world.state.offsets_topic.by_number
        assert "place=-1" in repr(world.state.groups.get("g"))
    beginnings = {
        "level": MetadataVersionSet(NEWEST),
        "topic": made(),
        "partitions": PartitionsAdded(topic_id("offsets"), PARTITIONS + 40),
    }
    world.fold(beginnings[how])
    first = records(world.state)[0].place
    values = [("orders", 0, 5), ("orders", 1, 6), ("other", 0, 8)]
    expected = [(first, 1), *((first + at, *each) for at, each in enumerate(values, start=1))]
    assert [each for each in told(world.state) if each in expected] == expected
    assert told(again(world.state)) == told(world.state)
    live = world.state.encode()
    # The rows of a snapshot have another order than those of a gateway that runs for long.
    world.state = restarted
    world.fold(beginnings[how])
    assert world.state.encode() == live


def test_a_deleted_topic_has_no_records() -> None:
    world = offsets_world()
    world.fold(commit("g", 5), TopicDeleted(topic_id("offsets")))
    world.fold(commit("g", 6))
    assert not again(world.state).offsets_topic.by_number
    world.fold(TopicCreated(topic_id("again"), OFFSETS_TOPIC, 1, 1, {}))
    assert told(world.state) == [(0, "orders", 0, 6)]


def test_replaced_records_do_not_stay_for_ever() -> None:
    world = offsets_world()
    world.fold(commit("g", 1, 1))
    for offset in range(5_000):
        world.fold(commit("g", offset))
    kept = told(world.state)
    assert len(kept) < 3_000
    assert kept[0] == (0, "orders", 1, 1)
    assert kept[-300:] == [(at + 1, "orders", 0, at) for at in range(4_700, 5_000)]


def test_long_names_count_as_bytes() -> None:
    """A client chooses names of groups, up to 32 KiB."""
    group = "g" * 32_000
    world = offsets_world()
    for offset in range(100):
        world.fold(commit(group, offset))
    assert len(records(world.state, group)) < 20


def test_tombstones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_topic, "MAX_TOMBSTONES", 2)
    world = offsets_world()
    orders = topic_id("orders")
    for partition in (0, 1):
        world.fold(commit("g", 1, partition))
        world.fold(OffsetsDeleted("g", ((orders, partition),)))
    world.fold(commit("g", 1), OffsetsDeleted("g", ((orders, 0),)))
    assert [each.place for each in records(again(world.state))] == [3, 5]
    world.wait(offsets_topic.TOMBSTONE_MS + 1)
    world.fold(commit("g", 1), OffsetsDeleted("g", ((orders, 0),)))
    (last,) = records(again(world.state))
    assert isinstance(last, Tombstone)
    assert last.place == 7


def test_more_partitions_end_all_tombstones() -> None:
    """A deleted group may return in another partition."""
    world = offsets_world()
    world.fold(commit("g", 1), GroupDeleted("g"))
    world.fold(PartitionsAdded(topic_id("offsets"), PARTITIONS + 40))
    assert not any(map(len, world.state.offsets_topic.by_number.values()))
    world.fold(commit("g", 2))
    assert told(again(world.state)) == [(0, "orders", 0, 2)]


def test_a_snapshot_under_way_has_the_records_of_its_moment() -> None:
    world = offsets_world()
    world.fold(commit("g", 1), commit("g", 2, 1), OffsetsDeleted("g", ((topic_id("orders"), 1),)))
    before = world.state.encode()
    with world.state.frozen() as frozen:
        world.fold(commit("g", 3), GroupDeleted("g"))
        assert b"".join(frozen.pieces()) == before
