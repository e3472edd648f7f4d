"""Committing WAL objects: offsets, idempotence, refusals; the fold agrees with the rules."""

from collections.abc import Sequence

import pytest

from tidegate_coordination.events.cluster import (
    Endpoint,
    Event,
    GatewayExpired,
    GatewayRegistered,
    LogStartsMoved,
    MetadataVersionSet,
    ObjectsCollected,
    ProducerIdsReserved,
    ProducersExpired,
    TopicCreated,
    TopicDeleted,
    WalCommitted,
)
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import FIRST, NEWEST
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.rules.records.wal_judge import ROOM_FOR_MADE_UP_IDS
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName, WalStatus

TOPIC = b"t" * 16
STAMPED = b"s" * 16
MAX = 2**31 - 1


class World:
    """A state, and entries put through it the way the coordinator does."""

    def __init__(self, version: int = NEWEST) -> None:
        self.state = ClusterState()
        self.clock_ms = 1_000_000
        self.entries: list[bytes] = []
        self.counter = 0
        self.apply(
            GatewayRegistered(1, 1, "key", "az1", (Endpoint("PLAINTEXT", "h", 1),), "0", 0),
            *([MetadataVersionSet(version)] if version > FIRST else []),
            writer=0,
        )
        self.apply(TopicCreated(TOPIC, "t", 2, 1, {}))
        self.apply(TopicCreated(STAMPED, "s", 1, 1, {}))
        self.apply(ProducerIdsReserved(0, 100))

    def apply(self, *events: Event, writer: int = 1) -> None:
        payload = encode_entry(b"n", writer, self.clock_ms, encode_events(events))
        self.entries.append(payload)
        self.state.apply(len(self.entries), decode_entry(payload, len(self.entries)))

    def view(self) -> View:
        return View(self.state, 1, self.clock_ms, self.state.log_time_after(1, self.clock_ms))

    def commit(self, *batches: BatchFacts) -> list[BatchOutcome]:
        return self.commit_together([batches])[0]

    def commit_together(self, objects: Sequence[Sequence[BatchFacts]]) -> list[list[BatchOutcome]]:
        """Several objects in one entry."""
        view = self.view()
        events: list[Event] = []
        answers: list[list[BatchOutcome]] = []
        for batches in objects:
            decided = commit_of(WalName(1, self.counter), batches).decide(view)
            self.counter += 1
            events += decided.events
            answers.append(decided.answer)
        self.apply(*events)
        return answers

    def check_replay(self) -> None:
        state = ClusterState()
        for position, payload in enumerate(self.entries, 1):
            state.apply(position, decode_entry(payload, position))
            assert ClusterState.decode(state.encode()).encode() == state.encode()
        assert state.encode() == self.state.encode()


def commit_of(name: WalName, batches: Sequence[BatchFacts]) -> CommitWal:
    return CommitWal(name, 100, batches, frozenset({STAMPED}))


def batch(
    first: int = -1,
    count: int = 1,
    *,
    producer: int = -1,
    epoch: int = 0,
    partition: int = 0,
    topic: bytes = TOPIC,
    at: int = 0,
) -> BatchFacts:
    last = (first + count - 1) % 2**31 if first >= 0 else -1
    return BatchFacts(topic, partition, at, 10, count, 5, 7, producer, epoch, first, last)


def offsets(outcomes: Sequence[BatchOutcome]) -> list[int | Refusal]:
    return [each.base_offset if each.refusal is None else each.refusal for each in outcomes]


def test_offsets_follow_each_other_within_and_across_objects_of_an_entry() -> None:
    world = World()
    answers = world.commit_together(
        [[batch(count=2, at=0), batch(count=3, at=10)], [batch(count=1), batch(partition=1)]]
    )
    assert [offsets(each) for each in answers] == [[0, 2], [5, 0]]
    runs = world.state.partitions[0].runs
    assert [(row.base_offset, row.next_offset) for row in (runs[0], runs[1])] == [(0, 5), (5, 6)]
    world.check_replay()


def test_a_refused_batch_splits_the_run_and_fails_alone() -> None:
    world = World()
    outcomes = world.commit(
        batch(count=2, at=0),
        batch(first=5, producer=1, at=10),
        batch(count=2, at=20),
        batch(topic=b"x" * 16, at=30),
        batch(partition=9, at=40),
    )
    refused, unknown = Refusal.OUT_OF_ORDER_SEQUENCE, Refusal.UNKNOWN_TOPIC
    assert offsets(outcomes) == [0, refused, 2, unknown, unknown]
    assert len(world.state.partitions[0].runs) == 2
    world.check_replay()


def test_any_of_the_last_five_batches_repeated_gets_its_first_offset() -> None:
    world = World()
    for number in range(7):
        assert offsets(world.commit(batch(number, producer=1))) == [number]
    assert offsets(world.commit(batch(6, producer=1), batch(2, producer=1))) == [6, 2]
    assert offsets(world.commit(batch(1, producer=1))) == [Refusal.DUPLICATE_SEQUENCE]
    assert world.state.partitions[0].next_offset == 7
    world.check_replay()


def test_a_repeat_from_before_the_last_five_batches_counts_as_written() -> None:
    world = World()
    for number in range(0, 14, 2):
        world.commit(batch(number, 2, producer=1))
    repeated, overlapping = batch(0, 4, producer=1), batch(3, 2, producer=1)
    ahead = batch(15, producer=1)
    assert offsets(world.commit(repeated, overlapping, ahead)) == [
        Refusal.DUPLICATE_SEQUENCE,
        Refusal.OUT_OF_ORDER_SEQUENCE,
        Refusal.OUT_OF_ORDER_SEQUENCE,
    ]
    assert world.state.partitions[0].next_offset == 14
    world.check_replay()


def test_an_old_repeat_is_a_gap_while_older_releases_may_have_asked() -> None:
    world = World(FIRST)
    for number in range(7):
        world.commit(batch(number, producer=1))
    assert offsets(world.commit(batch(1, producer=1))) == [Refusal.OUT_OF_ORDER_SEQUENCE]


def test_a_gap_is_no_duplicate() -> None:
    """If fewer than five batches are kept, or the start is unknown, older ones may be lost."""
    world = World()
    for number in range(4):
        world.commit(batch(number, producer=1))
    assert offsets(world.commit(batch(MAX, producer=1))) == [Refusal.OUT_OF_ORDER_SEQUENCE]
    for number in range(3, 9):
        world.commit(batch(number, producer=5000))
    assert offsets(world.commit(batch(2, producer=5000))) == [Refusal.OUT_OF_ORDER_SEQUENCE]


def test_a_repeat_in_the_same_entry_is_recognised() -> None:
    world = World()
    first, repeated = world.commit_together([[batch(0, producer=1)], [batch(0, producer=1)]])
    assert offsets(first) == offsets(repeated) == [0]
    assert world.state.partitions[0].next_offset == 1
    world.check_replay()


@pytest.mark.parametrize(
    ("first", "count", "following"),
    [(MAX, 1, 0), (MAX - 1, 5, 3), (MAX - 4, 5, 0)],
    ids=["ends at the wrap", "straddles it", "fills up to it"],
)
def test_sequences_wrap(first: int, count: int, following: int) -> None:
    world = World()
    world.state.partitions[0].log_start = 0
    # The producer id is old. Without a known state, its first sequence may be any.
    assert offsets(world.commit(batch(first, count, producer=5000))) == [0]
    assert offsets(world.commit(batch(following + 1, producer=5000))) == [
        Refusal.OUT_OF_ORDER_SEQUENCE
    ]
    assert offsets(world.commit(batch(following, producer=5000))) == [count]


def test_epochs() -> None:
    world = World()
    world.commit(batch(0, producer=1, epoch=3))
    outcomes = world.commit(
        batch(1, producer=1, epoch=2), batch(1, producer=1, epoch=4), batch(0, producer=1, epoch=4)
    )
    assert offsets(outcomes) == [Refusal.STALE_PRODUCER_EPOCH, Refusal.OUT_OF_ORDER_SEQUENCE, 1]
    world.check_replay()


def test_a_young_producer_starts_at_zero_whatever_was_deleted() -> None:
    world = World()
    refused = [Refusal.OUT_OF_ORDER_SEQUENCE]
    assert offsets(world.commit(batch(3, producer=1))) == refused
    world.commit(batch())
    world.apply(LogStartsMoved(((0, 1),)))
    assert offsets(world.commit(batch(3, producer=1))) == refused
    # Once the id is so old that its state may be forgotten, any first sequence is accepted.
    world.clock_ms += 1000
    world.apply(ProducersExpired(world.clock_ms))
    assert offsets(world.commit(batch(3, producer=1))) == [1]


def test_log_append_time_is_one_time_for_the_run_and_its_repeats() -> None:
    world = World()
    (outcome,) = world.commit(batch(0, producer=1, topic=STAMPED))
    assert outcome.append_time_ms == world.clock_ms
    first_time = world.clock_ms
    world.clock_ms += 500
    assert world.commit(batch(0, producer=1, topic=STAMPED))[0].append_time_ms == first_time
    assert world.state.partitions[2].runs[0].max_timestamp == first_time


def test_a_wal_id_is_settled_once() -> None:
    world = World()
    world.commit(batch())
    again = commit_of(WalName(1, 0), [batch()]).decide(world.view())
    assert again.events == ()
    assert again.answer[0].refusal is None
    gone = AbandonWal(WalName(1, 5)).decide(world.view())
    world.apply(*gone.events)
    late = commit_of(WalName(1, 5), [batch()]).decide(world.view())
    assert offsets(late.answer) == [Refusal.ABANDONED]
    assert late.events == ()
    assert AbandonWal(WalName(1, 0)).decide(world.view()).answer is False
    # Only the WAL ids that were skipped over stay open.
    status = world.state.objects.wal_status
    assert status(WalName(1, 3)) is WalStatus.UNKNOWN
    world.counter = 3
    assert offsets(world.commit(batch())) == [1]
    assert status(WalName(1, 3)) is WalStatus.COMMITTED
    world.check_replay()


def test_an_ended_incarnation_commits_nothing() -> None:
    world = World()
    world.apply(GatewayRegistered(2, 2, "other", "az1", (), "0", 0), writer=0)
    world.apply(GatewayExpired(1), writer=2)
    decided = commit_of(WalName(1, 0), [batch()]).decide(world.view())
    assert offsets(decided.answer) == [Refusal.ABANDONED]
    assert decided.events == ()


def test_an_object_dies_with_its_last_run_and_is_forgotten_once_collected() -> None:
    world = World()
    world.commit(batch(count=5), batch(partition=1, count=5, at=10))
    objects = world.state.objects
    world.apply(LogStartsMoved(((0, 5),)))
    assert objects.dead == {}
    assert world.state.partitions[0].size_bytes == 0
    world.apply(TopicDeleted(TOPIC))
    assert list(objects.dead) == [0]
    world.apply(ObjectsCollected((0,)))
    assert len(objects) == 0
    world.check_replay()


def test_many_objects_come_and_go() -> None:
    world = World()
    for number in range(400):
        world.commit(batch())
        if number >= 10:
            world.apply(LogStartsMoved(((0, number - 9),)))
            world.apply(ObjectsCollected(tuple(world.state.objects.dead)))
    assert len(world.state.objects) == 10
    assert len(world.state.partitions[0].runs) == 10
    assert world.state.partitions[0].runs.find(395) == 5
    assert len(world.state.encode()) < 3000
    world.check_replay()


def test_producers_expire() -> None:
    world = World()
    world.commit(batch(0, producer=1))
    world.clock_ms += 1000
    world.commit(batch(0, producer=2))
    world.apply(ProducersExpired(world.clock_ms))
    assert list(world.state.partitions[0].producers) == [2]
    assert offsets(world.commit(batch(9, producer=1))) == [2]
    world.check_replay()


def test_ids_that_were_not_given_leave_a_bounded_number_of_states() -> None:
    world, made_up = World(), 1 << 50
    many = [batch(0, producer=made_up + each, at=10 * each) for each in range(700)]
    others = [batch(0, producer=made_up + 700 + each, at=10 * each) for each in range(700)]
    codes = [offsets(each) for each in world.commit_together([many, others])]
    assert codes == [list(range(700)), list(range(700, 1400))], "all are written"
    producers = world.state.partitions[0].producers
    assert len(producers) == ROOM_FOR_MADE_UP_IDS
    # A batch of an id without a state is written, and its repeat is written again. If the id has a
    # state, the repeat is recognised.
    late, noted = made_up + 5_000, made_up + 1
    assert offsets(world.commit(batch(0, producer=late), batch(0, producer=late, at=10))) == [
        1400,
        1401,
    ]
    assert offsets(world.commit(batch(0, producer=noted))) == [1]
    assert offsets(world.commit(batch(1, producer=noted))) == [1402]
    # Ids that the cluster gave out get a state, however many producers there are.
    assert offsets(world.commit(batch(0, producer=7))) == [1403]
    assert offsets(world.commit(batch(0, producer=7))) == [1403]
    assert len(producers) == ROOM_FOR_MADE_UP_IDS + 1
    # Made-up ids get a state again once the old states have expired.
    world.clock_ms += 1_000
    world.apply(ProducersExpired(world.state.log_time_ms + 1))
    assert offsets(world.commit(batch(0, producer=late))) == [1404]
    assert offsets(world.commit(batch(0, producer=late))) == [1404]
    world.check_replay()


def test_the_fold_refuses_what_does_not_fit() -> None:
    world = World()
    decided = commit_of(WalName(1, 0), [batch()]).decide(world.view())
    world.commit(batch())
    event = decided.events[0]
    assert isinstance(event, WalCommitted)
    with pytest.raises(StateBroken, match=r"entry 6: .*settled"):
        world.apply(event)
