"""The groups of each topic: after any events the index agrees with the groups' offsets."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups.test_group_state import World, topic_id
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import PartitionOffsets
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_coordination.state.topic_groups import TopicGroups

TOPICS = ("orders", "other", OFFSETS_TOPIC)
GROUPS = tuple(f"g-{number}" for number in range(12))  # more than the index keeps in a tuple
PRODUCER, EPOCH = 7, 0

Steps = list[tuple[str, str, str, int]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["commit"] * 6
            + ["delete_offset", "change", "delete_group", "delete_topic", "stage", "end", "restore"]
        ),
        st.sampled_from(GROUPS),
        st.sampled_from(TOPICS),
        st.integers(0, 1),
    ),
    max_size=60,
)


class Groups:
    """A state that is folded from random events of groups."""

    def __init__(self) -> None:
        self.world = World()
        self.epoch = EPOCH
        self.world.fold(tev.TransactionalIdInitialised("t", PRODUCER, EPOCH, -1, -1, 60_000))
        self.world.fold(ev.TopicCreated(topic_id(OFFSETS_TOPIC), OFFSETS_TOPIC, 2, 1, {}))

    @property
    def state(self) -> ClusterState:
        return self.world.state

    def commit(self, group: str, topic: str, partition: int) -> None:
        """Commit an offset, perhaps of a deleted topic. A rule refuses that, not the fold."""
        self.world.fold(gev.OffsetsCommitted(group, 0, (offset(topic, partition),)))

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        found = self.state.groups.get(group)
        if found is not None and found.offset(topic_id(topic), partition) is not None:
            self.world.fold(gev.OffsetsDeleted(group, ((topic_id(topic), partition),)))

    def change(self, group: str, _: str, generation: int) -> None:
        if self.state.groups.get(group) is None:
            self.world.fold(gev.GroupChanged(group, 0, "consumer", generation, None, None, ()))

    def delete_group(self, group: str, _topic: str, _: int) -> None:
        self.world.fold(gev.GroupDeleted(group))

    def delete_topic(self, _: str, topic: str, partition: int) -> None:
        """Delete a topic, or create it again; a mirrored topic returns with its former id."""
        if topic_id(topic) in self.state.topics.by_id:
            self.world.fold(ev.TopicDeleted(topic_id(topic)))
        else:
            self.world.fold(ev.TopicCreated(topic_id(topic), topic, 2, 1, {}))

    def stage(self, group: str, topic: str, partition: int) -> None:
        self.world.fold(tev.OffsetsStaged(PRODUCER, group, 0, (offset(topic, partition),)))

    def end(self, _group: str, _topic: str, committed: int) -> None:
        if self.state.transactions.open_of("t") is None:
            return
        self.epoch += 1
        marks = (self.epoch, PRODUCER, self.epoch, (), self.world.clock_ms, tev.CAUSE_CLIENT)
        self.world.fold(tev.TransactionEnded(PRODUCER, bool(committed), *marks))

    def restore(self, _group: str, _topic: str, _: int) -> None:
        encoded = self.state.encode()
        self.world.state = ClusterState.decode(encoded)
        assert self.state.encode() == encoded

    def check(self) -> None:
        groups = self.state.groups
        for topic in map(topic_id, TOPICS):
            wanted = sorted(each.group_id for each in groups if topic in each.offsets)
            assert sorted(groups.with_offsets_of(topic)) == wanted


def offset(topic: str, partition: int) -> gev.CommittedOffset:
    return gev.CommittedOffset(topic_id(topic), partition, 5, -1, "", 7)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_the_index_by_topic_says_what_the_groups_say(steps: Steps) -> None:
    groups = Groups()
    for kind, group, topic, number in steps:
        getattr(groups, kind)(group, topic, number)
        groups.check()
    for topic in TOPICS:
        for _ in range(2):
            groups.delete_topic("", topic, 0)
            groups.check()
        if topic_id(topic) in groups.state.topics.by_id:
            groups.delete_topic("", topic, 0)
    assert not any(each.offsets for each in groups.state.groups)


class Unseen(dict[bytes, PartitionOffsets]):
    """Offsets of a group that the fold must not look at."""

    def _refuse(self, *_: Any) -> Any:
        raise AssertionError("a group without offsets of the topic was looked at")

    __contains__ = __getitem__ = __delitem__ = __iter__ = get = pop = items = keys = _refuse


def test_the_end_of_a_topic_looks_only_at_its_groups() -> None:
    groups = Groups()
    for number in range(2):
        groups.commit(GROUPS[number], TOPICS[number], 0)
    stranger = groups.state.groups.get(GROUPS[1])
    assert stranger is not None
    stranger.offsets = Unseen(stranger.offsets)
    groups.delete_topic("", TOPICS[0], 0)
    known = groups.state.groups.get(GROUPS[0])
    assert known is not None
    assert not known.offsets


def test_a_topic_without_groups_takes_no_memory() -> None:
    groups = TopicGroups()
    for count in (1, 20):
        names = [f"g-{number}" for number in range(count)]
        for name in names:
            groups.add(b"t", name)
        assert list(groups.of(b"t")) == names
        for name in names:
            groups.remove(b"t", name)
        assert vars(groups) == vars(TopicGroups())
