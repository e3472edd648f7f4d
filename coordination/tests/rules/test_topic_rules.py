"""Creating, growing and deleting topics, and deleting records: every refusal and its text."""

from collections.abc import Sequence
from typing import Any

import pytest

from tidegate_coordination.events.cluster import (
    ClusterCreated,
    Endpoint,
    Event,
    GatewayRegistered,
    Run,
    WalCommitted,
)
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.rules.proposal import HEADS, Proposal, View
from tidegate_coordination.rules.records.deletions import (
    HIGH_WATERMARK,
    DeleteRecords,
    Deletion,
    DeletionRefusal,
)
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import (
    MAX_PARTITIONS_PER_REQUEST,
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
    duplicates,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName

NOW_MS = 1_000_000


class World:
    """A state with gateways 1 and 2, and proposals folded as the coordinator does."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self._apply([ClusterCreated("cluster", 1)], writer=0)
        for node_id in (1, 2):
            endpoints = (Endpoint("PLAINTEXT", "h", node_id),)
            registered = GatewayRegistered(node_id, node_id, f"k{node_id}", "", endpoints, "0", 0)
            self._apply([registered], writer=0)

    def propose(self, proposal: Proposal[Any]) -> Any:
        view = View(self.state, 1, NOW_MS, NOW_MS)
        decided = proposal.decide(view)
        if decided.events:
            self._apply(decided.events)
        return decided.answer

    def _apply(self, events: Sequence[Event], writer: int = 1) -> None:
        entry = Entry(1, b"n", writer, NOW_MS, tuple(events))
        self.state.apply(self.state.position + 1, entry)

    def create(self, *topics: NewTopic, **options: Any) -> list[Created | Refused]:
        answer: list[Created | Refused] = self.propose(CreateTopics(topics, **options))
        return answer

    def write(self, name: str, records: int, counter: int) -> None:
        topic = self.state.topics.by_name[name]
        number = topic.partition_numbers[0]
        base_offset = self.state.partitions[number].next_offset
        run = Run(number, 0, 100, base_offset, records, NOW_MS, 0, 0)
        self._apply([WalCommitted(1, counter, 100, (run,), ())])


@pytest.fixture
def world() -> World:
    world = World()
    world.create(
        new("t", 3),
        new("a.b", 1),
        new("co", 1, configs={"cleanup.policy": "compact"}),
        new("both", 1, configs={"cleanup.policy": "compact,delete"}),
    )
    return world


_ids = iter(number.to_bytes(16, "big") for number in range(1, 1_000_000))


def new(name: str, count: int = 1, factor: int = 1, **more: Any) -> NewTopic:
    return NewTopic(next(_ids), name, count, factor, **more)


def assigned(name: str, assignments: dict[int, list[int]], **more: Any) -> NewTopic:
    return NewTopic(next(_ids), name, assignments=assignments, **more)


REFUSED = [
    (new("t"), TopicRefusal.EXISTS, "Topic 't' already exists."),
    (new("a_b"), TopicRefusal.ILLEGAL_NAME, "Topic 'a_b' collides with existing topic: a.b"),
    (new(""), TopicRefusal.ILLEGAL_NAME, "Topic name is invalid: the empty string is not allowed"),
    (new("."), TopicRefusal.ILLEGAL_NAME, "Topic name is invalid: '.' is not allowed"),
    (new(".."), TopicRefusal.ILLEGAL_NAME, "Topic name is invalid: '..' is not allowed"),
    (new("a b"), TopicRefusal.ILLEGAL_NAME,
     "Topic name is invalid: 'a b' contains one or more characters other than ASCII"
     " alphanumerics, '.', '_' and '-'"),
    (new("\u00e9"), TopicRefusal.ILLEGAL_NAME, "other than ASCII"),
    (new("n\n"), TopicRefusal.ILLEGAL_NAME, "other than ASCII"),
    (new("x" * 250), TopicRefusal.ILLEGAL_NAME, "is longer than the max allowed length 249"),
    (new("n", 0), TopicRefusal.PARTITION_COUNT,
     "Number of partitions was set to an invalid non-positive value."),
    (new("n", -2), TopicRefusal.PARTITION_COUNT,
     "Number of partitions was set to an invalid non-positive value."),
    (new("n", 1, 0), TopicRefusal.REPLICATION_FACTOR,
     "Replication factor must be larger than 0, or -1 to use the default value."),
    (new("n", 1, -2), TopicRefusal.REPLICATION_FACTOR,
     "Replication factor must be larger than 0, or -1 to use the default value."),
    (new("n", 10_001), TopicRefusal.TOO_MUCH,
     "Excessively large number of partitions per request."),
    (new("n", configs={"foo": "1"}), TopicRefusal.CONFIG, "Unknown topic config name: foo"),
    (new("n", configs={"retention.ms": None}), TopicRefusal.CONFIG,
     "Null value not supported for topic configs: retention.ms"),
    (assigned("n", {0: [1], 1: [7]}), TopicRefusal.ASSIGNMENT,
     "The manual partition assignment includes broker 7, but no such broker is registered."),
    (assigned("n", {1: [1]}), TopicRefusal.ASSIGNMENT,
     "partitions should be a consecutive 0-based integer sequence"),
    (assigned("n", {0: []}), TopicRefusal.ASSIGNMENT,
     "The manual partition assignment includes an empty replica list."),
    (assigned("n", {0: [1, 1]}), TopicRefusal.ASSIGNMENT,
     "The manual partition assignment includes the broker 1 more than once."),
    (assigned("n", {0: [1], 1: [1, 2]}), TopicRefusal.ASSIGNMENT,
     "The manual partition assignment includes a partition with 2 replica(s), but this is not"
     " consistent with previous partitions, which have 1 replica(s)."),
    (assigned("n", {0: [1]}, partition_count=1), TopicRefusal.CONTRADICTION,
     "A manual partition assignment was specified, but numPartitions was not set to -1."),
    (assigned("n", {0: [1]}, replication_factor=1), TopicRefusal.CONTRADICTION,
     "A manual partition assignment was specified, but replication factor was not set to -1."),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "reason", "text"), REFUSED)
def test_refused_topics_and_their_texts(
    world: World, topic: NewTopic, reason: TopicRefusal, text: str
) -> None:
    before = world.state.encode()
    [answer] = world.create(topic)
    assert isinstance(answer, Refused)
    assert answer.reason is reason
    assert text in answer.text
    assert world.state.encode() == before


def test_a_refused_topic_harms_no_other(world: World) -> None:
    answers = world.create(new("n"), new("n"), new("n", 0), new("m", 2, 3))
    assert [type(each) for each in answers] == [Created, Refused, Refused, Created]
    assert isinstance(answers[1], Refused)
    assert answers[1].reason is TopicRefusal.EXISTS
    topic = world.state.topics.by_name["m"]
    assert (len(topic.partition_numbers), topic.replication_factor) == (2, 3)


def test_names_of_one_request_collide_too(world: World) -> None:
    _, answer = world.create(new("n.m"), new("n_m"))
    assert answer == Refused(
        TopicRefusal.ILLEGAL_NAME, "Topic 'n_m' collides with existing topic: n.m"
    )


def test_defaults_and_assignments_count(world: World) -> None:
    default, listed = world.create(
        new("n", -1, -1, configs={"retention.ms": "5"}),
        assigned("m", {0: [1, 2], 1: [2, 1]}),
        default_partition_count=4,
        default_replication_factor=2,
    )
    assert isinstance(default, Created)
    assert isinstance(listed, Created)
    assert default == Created(default.topic_id, 4, 2, {"retention.ms": "5"})
    assert listed == Created(listed.topic_id, 2, 2, {})
    assert world.state.topics.by_name["n"].topic_id == default.topic_id


def test_validate_only_changes_nothing(world: World) -> None:
    before = world.state.encode()
    answers = world.create(new("n", 2), new("t"), validate_only=True)
    assert [type(each) for each in answers] == [Created, Refused]
    growth = CreatePartitions([Growth("t", 5)], validate_only=True)
    assert world.propose(growth) == [None]
    assert world.state.encode() == before


def test_ten_thousand_partitions_fit(world: World) -> None:
    half = MAX_PARTITIONS_PER_REQUEST // 2
    answers = world.create(new("n", half), new("m", half), new("o", 1))
    assert [type(each) for each in answers] == [Created, Created, Refused]
    assert len(world.state.topics.by_name["n"].partition_numbers) == half


def test_deletion_by_name_and_id(world: World) -> None:
    topic_id = world.state.topics.by_name["a.b"].topic_id
    names = TopicKey("t"), TopicKey(None, topic_id), TopicKey("t"), TopicKey("nope")
    wanted = [*names, TopicKey(None, b"?" * 16)]
    answers = world.propose(DeleteTopics(wanted))
    assert [each.name for each in answers if isinstance(each, Deleted)] == ["t", "a.b"]
    assert [each.reason for each in answers if isinstance(each, Refused)] == [
        TopicRefusal.UNKNOWN_NAME,
        TopicRefusal.UNKNOWN_NAME,
        TopicRefusal.UNKNOWN_ID,
    ]
    assert sorted(world.state.topics.by_name) == ["both", "co"]
    [again] = world.create(new("t"))
    assert isinstance(again, Created)


@pytest.mark.parametrize(
    ("growth", "reason", "text"),
    [
        (Growth("t", 2), TopicRefusal.PARTITION_COUNT,
         "The topic t currently has 3 partition(s); 2 would not be an increase."),
        (Growth("t", -1), TopicRefusal.PARTITION_COUNT,
         "The topic t currently has 3 partition(s); -1 would not be an increase."),
        (Growth("t", 3), TopicRefusal.PARTITION_COUNT, "Topic already has 3 partition(s)."),
        (Growth("nope", 3), TopicRefusal.UNKNOWN_NAME, ""),
        (Growth("t", 20_000), TopicRefusal.TOO_MUCH,
         "Excessively large number of partitions per request."),
        (Growth("t", 5, [[1]]), TopicRefusal.ASSIGNMENT,
         "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (Growth("t", 4, [[7]]), TopicRefusal.ASSIGNMENT,
         "The manual partition assignment includes broker 7, but no such broker is registered."),
        (Growth("t", 4, [[]]), TopicRefusal.ASSIGNMENT,
         "The manual partition assignment includes an empty replica list."),
        (Growth("t", 4, [[1, 1]]), TopicRefusal.ASSIGNMENT,
         "The manual partition assignment includes the broker 1 more than once."),
    ],
)  # fmt: skip
def test_refused_growth(world: World, growth: Growth, reason: TopicRefusal, text: str) -> None:
    before = world.state.encode()
    assert world.propose(CreatePartitions([growth])) == [Refused(reason, text)]
    assert world.state.encode() == before


def test_growth_keeps_the_partitions_there_were(world: World) -> None:
    before = list(world.state.topics.by_name["t"].partition_numbers)
    answers = world.propose(CreatePartitions([Growth("t", 5), Growth("a.b", 2, [[2]])]))
    assert answers == [None, None]
    after = world.state.topics.by_name["t"].partition_numbers
    assert after[:3] == before
    assert len(after) == 5


def test_records_are_deleted_up_to_an_offset(world: World) -> None:
    world.write("t", 10, counter=1)
    delete = [("t", 0, 4), ("t", 0, 2), ("t", 0, 4), ("t", 1, HIGH_WATERMARK), ("t", 1, 0)]
    answers = world.propose(DeleteRecords([Deletion(*each) for each in delete]))
    assert answers == [4, 4, 4, 0, 0]
    assert world.propose(DeleteRecords([Deletion("t", 0, 1)])) == [4]
    assert world.propose(DeleteRecords([Deletion("t", 0, HIGH_WATERMARK)])) == [10]
    number = world.state.topics.by_name["t"].partition_numbers[0]
    assert world.state.partitions[number].log_start == 10


@pytest.mark.parametrize(
    ("deletion", "refusal"),
    [
        (Deletion("t", 0, 11), DeletionRefusal.OUT_OF_RANGE),
        (Deletion("t", 0, -2), DeletionRefusal.OUT_OF_RANGE),
        (Deletion("t", 3, 0), DeletionRefusal.UNKNOWN_PARTITION),
        (Deletion("t", -1, 0), DeletionRefusal.UNKNOWN_PARTITION),
        (Deletion("nope", 0, 0), DeletionRefusal.UNKNOWN_PARTITION),
        (Deletion("co", 0, HIGH_WATERMARK), DeletionRefusal.POLICY),
        (Deletion("co", 0, -2), DeletionRefusal.POLICY),
    ],
)
def test_refused_deletion_of_records(
    world: World, deletion: Deletion, refusal: DeletionRefusal
) -> None:
    world.write("t", 10, counter=1)
    before = world.state.encode()
    assert world.propose(DeleteRecords([deletion])) == [refusal]
    assert world.state.encode() == before


def test_the_policy_is_the_effective_one(world: World) -> None:
    deletions = [Deletion("t", 0, 0), Deletion("both", 0, 0)]
    assert world.propose(DeleteRecords(deletions, "compact")) == [DeletionRefusal.POLICY, 0]


def test_deletion_never_shares_an_entry_with_an_earlier_commit() -> None:
    commit = CommitWal(WalName(1, 1), 1, [])
    assert commit.writes & DeleteRecords([]).reads == {HEADS}


def test_duplicates() -> None:
    assert duplicates(["a", "b", "a", "a"]) == {"a"}
