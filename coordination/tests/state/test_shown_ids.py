"""Topics that clients and sources know by another id than objects and events do."""

from __future__ import annotations

import pytest

from tests.worlds.mirror_world import MIRRORED, OWN, World
from tidegate_coordination.events.cluster import TopicCreated, TopicDeleted
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.links import (
    FencedTopic,
    LinkedTopic,
    TopicsFenced,
    TopicsLinked,
    TopicsSwitched,
)
from tidegate_coordination.rules.migration.mirrors import MirrorTopics, SetLink
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.topics import TopicTable

STORED = b"s" * 16


def other(name: str = "m", stored: bytes = STORED, shown: bytes = MIRRORED) -> LinkedTopic:
    """Return a topic that is stored under another id than its source's."""
    return LinkedTopic(stored, name, 2, 3, {}, shown_id=shown)


@pytest.fixture
def world() -> World:
    """Return a link with one topic, which is stored under another id."""
    made = World()
    assert made.propose(SetLink("src", "source", "h:1", (".*",))) is None
    assert made.propose(MirrorTopics("src", (other(),))) == []
    return made


def ids(topics: TopicTable) -> tuple[set[bytes], set[bytes]]:
    return set(topics.by_id), set(topics.by_shown_id)


def test_without_another_id_both_tables_are_one() -> None:
    topics = World().linked().state.topics
    assert topics.by_shown_id is topics.by_id
    assert all(each.shown_id == each.topic_id for each in topics.by_id.values())


def test_each_table_knows_its_ids_only(world: World) -> None:
    topics = world.state.topics
    assert ids(topics) == ({OWN, STORED}, {OWN, MIRRORED})
    assert topics.by_shown_id[MIRRORED] is topics.by_id[STORED] is topics.by_name["m"]
    world.apply(TopicCreated(b"l" * 16, "later", 1, 1, {}))
    assert topics.by_shown_id[b"l" * 16].name == "later"
    world.apply(TopicDeleted(STORED))
    assert ids(topics) == ({OWN, b"l" * 16},) * 2


@pytest.mark.parametrize("is_switched", [False, True])
def test_a_snapshot_keeps_both_ids(world: World, is_switched: bool) -> None:
    if is_switched:
        switch(world)
    loaded = ClusterState.decode(world.state.encode()).topics
    assert ids(loaded) == ids(world.state.topics)
    assert loaded.by_shown_id[MIRRORED] is loaded.by_id[STORED]


def switch(world: World) -> None:
    fenced = TopicsFenced(1, "src", (FencedTopic(STORED, ""),))
    world.apply(fenced)
    world.apply(TopicsSwitched(1, ()))


@pytest.mark.parametrize(
    "again",
    [
        (other("x", stored=b"x" * 16),),
        (other("x", stored=b"x" * 16, shown=OWN),),
        (other("x", b"x" * 16, b"y" * 16), other("y", b"z" * 16, b"y" * 16)),
        (other("x", b"x" * 16, b"y" * 16), LinkedTopic(b"y" * 16, "y", 1, 1, {})),
    ],
)
def test_no_two_topics_have_one_shown_id(world: World, again: tuple[LinkedTopic, ...]) -> None:
    linked = TopicsLinked("src", again)
    with pytest.raises(StateBroken, match="topic id"):
        Trial(world.state).check([linked])
    entry = Entry(2, b"n", 1, world.clock_ms, (linked,))
    with pytest.raises(StateBroken, match="topic id"):
        world.state.apply(world.position + 1, entry)


def test_a_topic_is_found_by_the_id_of_its_source(world: World) -> None:
    position = world.position
    assert world.propose(MirrorTopics("src", (other(),))) == []
    assert world.position == position  # no event: the topic exists, and is as at its source
    grown = LinkedTopic(b"n" * 16, "m", 3, 3, {}, shown_id=MIRRORED)
    assert world.propose(MirrorTopics("src", (grown,))) == []
    assert len(world.state.topics.by_id[STORED].partition_numbers) == 3


@pytest.mark.parametrize(
    "wanted", [LinkedTopic(STORED, "x", 1, 1, {}), other("x", b"x" * 16, STORED)]
)
def test_the_id_of_a_source_may_not_be_a_stored_one(world: World, wanted: LinkedTopic) -> None:
    good = LinkedTopic(b"g" * 16, "good", 1, 1, {})
    [refused] = world.propose(MirrorTopics("src", (wanted, good)))
    assert "topic id" in refused.text
    assert "good" in world.state.topics.by_name


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_switched_topic_is_not_mirrored_again(world: World, is_deleted: bool) -> None:
    switch(world)
    if is_deleted:
        world.apply(TopicDeleted(STORED))
    position = world.position
    again = other(stored=b"n" * 16)
    assert world.propose(MirrorTopics("src", (again,))) == []
    assert world.position == position
