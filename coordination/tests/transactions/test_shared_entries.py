"""Transactions that share an entry of the log; deleted topics, and a restored log."""

from __future__ import annotations

from tests.worlds.transaction_world import NEW, OLD, TOPIC, TransactionWorld, batch
from tidegate_coordination.events.cluster import GatewayRegistered, TopicDeleted
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.records.batch_outcomes import Refusal
from tidegate_coordination.rules.transactions.ending import EndAnswer
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal as R

# -- what shares an entry, and what is deleted -----------------------------------------------------


def test_ends_and_commits_share_an_entry() -> None:
    world = TransactionWorld()
    one, other = world.init(), world.init("y")
    world.write(batch(one, 0), batch(other, 0))
    position = world.position
    plain = EndAnswer(None, -1, -1)
    answers = world.propose(
        world.end_proposal(one),
        world.commit_wal(batch(plain, 0, flags=0)),
        world.end_proposal(other, "y", committed=False),
    )
    assert world.position == position + 1
    assert answers[1][0].base_offset == 3
    partition = world.partition()
    markers = [partition.runs[at].is_marker for at in range(len(partition.runs))]
    assert markers == [False, False, True, False, True]
    assert (partition.next_offset, partition.last_stable_offset) == (5, 5)
    assert partition.aborted is not None
    assert partition.aborted[0] == (other.producer_id, 1, 4, 5)


def test_the_last_stable_offset_is_that_of_the_oldest() -> None:
    world = TransactionWorld()
    one, other = world.init(), world.init("y")
    world.write(batch(one, 0))
    world.write(batch(other, 0))
    assert world.partition().last_stable_offset == 0
    one = world.end(one)
    assert world.partition().last_stable_offset == 1
    world.write(batch(one, 0))
    world.end(other, "y")
    assert world.partition().last_stable_offset == 3
    world.end(one)
    assert world.partition().last_stable_offset == 6


def test_a_deleted_topic_leaves_open_transactions() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    world.stage(who, 5)
    world.apply(TopicDeleted(TOPIC))
    transaction = world.state.transactions.open_of("x")
    assert transaction is not None
    assert transaction.partitions == {}
    assert world.end(who).refusal is None
    assert world.offset is None


def test_a_transaction_has_a_bounded_number_of_groups() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.grow(who, groups=tuple(f"g{each}" for each in range(1_000))) is None
    assert world.grow(who, groups=("one more",)) is R.TOO_LARGE
    assert world.grow(who, 3) is R.UNKNOWN_TOPIC
    assert world.grow(who, 1) is None


def test_a_restored_log_has_nothing_open_and_fences_all_clients() -> None:
    world = TransactionWorld()
    idle, who = world.init("idle"), world.init()
    world.write(batch(who, 0))
    world.stage(who, 5)
    world.apply(TimelineOpened(2, 100, 10**6, "r"), writer=0)
    partition = world.partition()
    assert (partition.next_offset, partition.last_stable_offset) == (2, 2)
    assert partition.aborted is not None
    assert partition.epoch_at(1) == partition.leader_epoch  # the marker is of the new timeline
    assert world.offset is None
    world.apply(GatewayRegistered(100, 1, "key", "az1", (), "0", 0), writer=0)
    world.writer = 100
    following = world.init()
    assert following.epoch == 0
    assert following.producer_id not in (who.producer_id, idle.producer_id)
    for name, old in (("x", who), ("idle", idle)):
        assert world.end(old, name).refusal in (R.UNKNOWN_ID, R.FENCED)


def test_the_epoch_of_a_fenced_id_is_no_clients() -> None:
    world = TransactionWorld()
    who = world.init()
    world.apply(TimelineOpened(2, 100, 10**6, "r"), writer=0)
    world.apply(GatewayRegistered(100, 1, "key", "az1", (), "0", 0), writer=0)
    world.writer = 100
    forged = EndAnswer(None, who.producer_id, 32_767)
    assert world.id().epoch == forged.epoch
    assert world.grow(forged, 0) is R.FENCED
    for bumps in (True, False):
        for committed in (True, False):
            assert world.end(forged, committed=committed, bumps=bumps).refusal is R.FENCED
    assert world.init(expected=forged[1:]).refusal is R.FENCED
    for flags in (NEW, OLD):
        [outcome] = world.write(batch(forged, 0, flags=flags))
        assert outcome.refusal is Refusal.STALE_PRODUCER_EPOCH


def test_a_restored_log_orders_its_markers_alike_on_all_replicas() -> None:
    world = TransactionWorld()
    older, other = world.init(), world.init("a")
    world.write(batch(other, 0))
    world.write(batch(older, 0))
    world.apply(TimelineOpened(2, 100, 10**6, "r"), writer=0)
    runs = world.partition().runs
    assert [runs[at].marker().producer_id for at in (2, 3)] == [
        other.producer_id,
        older.producer_id,
    ]
