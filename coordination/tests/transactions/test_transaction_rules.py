"""The steps of transactions: their answers, epochs and markers (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

import pytest

from tests.worlds.transaction_world import FIRST_ID, NEW, OLD, TransactionWorld, batch
from tidegate_coordination.events.fields import LAST_EPOCH
from tidegate_coordination.rules.records.batch_outcomes import Refusal
from tidegate_coordination.rules.transactions.ending import (
    AbortTimedOut,
    AbortTransaction,
    EndAnswer,
    EndTransaction,
)
from tidegate_coordination.rules.transactions.expiring import ExpireTransactionalIds
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal as R
from tidegate_coordination.state.transactions.rows import TransactionState as S


def is_ok(answer: EndAnswer, producer_id: int, epoch: int) -> bool:
    return answer == (None, producer_id, epoch)


# -- InitProducerId --------------------------------------------------------------------------------


def test_each_initialisation_bumps_the_epoch() -> None:
    world = TransactionWorld()
    first, second = world.init(), world.init()
    assert is_ok(first, FIRST_ID + 1, 0)
    assert is_ok(second, FIRST_ID + 1, 1)
    assert world.id().state is S.EMPTY


def test_below_its_level_the_cluster_has_no_transactions() -> None:
    world = TransactionWorld(version=3)
    assert world.init().refusal is R.NOT_YET


def test_a_client_goes_on_with_its_own_epoch() -> None:
    world = TransactionWorld()
    first = world.init()
    second = world.init(expected=first[1:])
    assert second.epoch == 1
    assert world.init(expected=first[1:]) == second  # a repeated request gets the same answer
    assert world.init(expected=second[1:]).epoch == 2
    assert world.init(expected=first[1:]).refusal is R.FENCED
    assert world.init(expected=(77, 0)).refusal is R.FENCED


def test_after_another_client_an_expected_epoch_is_fenced() -> None:
    world = TransactionWorld()
    first = world.init()
    world.init()
    assert world.init(expected=first[1:]).refusal is R.FENCED


def test_the_last_epoch_brings_another_producer_id() -> None:
    world = TransactionWorld()
    world.init()
    last = world.set_epoch(LAST_EPOCH)
    following = world.init(expected=last[1:])
    assert following.epoch == 0
    assert following.producer_id != last.producer_id
    assert world.init(expected=last[1:]) == following
    assert world.state.transactions.name_of(last.producer_id) is None


def test_an_initialisation_aborts_what_is_open_with_one_bump() -> None:
    world = TransactionWorld()
    first = world.init()
    world.write(batch(first, 0), batch(first, 0, 1))
    second = world.init()
    assert is_ok(second, first.producer_id, 1)
    assert world.id().state is S.EMPTY
    for index in (0, 1):
        partition = world.partition(index)
        assert (partition.next_offset, partition.last_stable_offset) == (2, 2)
        marker = partition.runs[1].marker()
        assert (marker.producer_id, marker.epoch, marker.committed) == (first.producer_id, 1, False)
    assert world.write(batch(first, 1))[0].refusal is Refusal.STALE_PRODUCER_EPOCH
    assert world.write(batch(second, 0))[0].base_offset == 2


# -- Produce ---------------------------------------------------------------------------------------


def test_the_first_batch_of_a_new_client_begins_its_transaction() -> None:
    world = TransactionWorld()
    who = world.init()
    outcomes = world.write(batch(who, 0, count=3), batch(who, 3))
    assert [each.base_offset for each in outcomes] == [0, 3]
    assert world.id().is_open
    assert world.partition().last_stable_offset == 0
    assert world.write(batch(who, 3))[0].base_offset == 3  # a repeat
    world.end(who)
    assert world.partition().last_stable_offset == world.partition().next_offset == 5


@pytest.mark.parametrize("flags", [NEW, OLD])
def test_a_batch_of_an_unknown_id_is_refused(flags: int) -> None:
    world = TransactionWorld()
    nobody = EndAnswer(None, 5, 0)
    [outcome] = world.write(batch(nobody, 0, flags=flags))
    assert outcome.refusal is Refusal.UNKNOWN_TRANSACTIONAL_ID


def test_an_older_client_adds_partitions_before_it_writes() -> None:
    world = TransactionWorld()
    who = world.init()
    [outcome] = world.write(batch(who, 0, flags=OLD))
    assert outcome.refusal is Refusal.NOT_IN_TRANSACTION
    assert world.grow(who, 0) is None
    assert world.write(batch(who, 0, flags=OLD))[0].refusal is None
    assert world.write(batch(who, 0, 1, flags=OLD))[0].refusal is Refusal.NOT_IN_TRANSACTION
    world.end(who, bumps=False)
    for sequence in range(2):  # a repeat of a written batch is refused, too, as in Kafka
        [outcome] = world.write(batch(who, sequence, flags=OLD))
        assert outcome.refusal is Refusal.NOT_IN_TRANSACTION
    world.grow(who, 0)
    assert world.write(batch(who, 0, flags=OLD))[0].base_offset == 0


def test_a_batch_that_commits_after_the_end_is_refused() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    _, outcomes = world.propose(world.end_proposal(who), world.commit_wal(batch(who, 1)))
    assert outcomes[0].refusal is Refusal.STALE_PRODUCER_EPOCH


def test_a_refused_batch_of_version_2_has_added_its_partition() -> None:
    world = TransactionWorld()
    who = world.init()
    [gap] = world.write(batch(who, 1))
    assert gap.refusal is Refusal.OUT_OF_ORDER_SEQUENCE
    assert world.id().is_open
    outcomes = world.write(batch(who, 0, 1), batch(who, 7, 1), batch(who, 5, 2))
    assert [each.refusal is None for each in outcomes] == [True, False, False]
    world.end(who)
    # Each added partition gets a marker; the second has a record before it.
    assert [world.partition(each).next_offset for each in range(3)] == [1, 2, 1]
    [stale] = world.write(batch(who, 0))
    assert stale.refusal is Refusal.STALE_PRODUCER_EPOCH
    assert not world.id().is_open


def test_a_new_epoch_begins_at_sequence_zero_everywhere() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.write(batch(who, 1))[0].refusal is Refusal.OUT_OF_ORDER_SEQUENCE
    world.write(batch(who, 0))
    following = world.end(who)
    assert world.write(batch(following, 1))[0].refusal is Refusal.OUT_OF_ORDER_SEQUENCE
    assert world.write(batch(following, 0))[0].refusal is None


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.write(batch(who, 0, flags=0))[0].refusal is None
    assert world.write(batch(who, 1))[0].refusal is None
    assert world.write(batch(who, 2, flags=0))[0].refusal is Refusal.OPEN_TRANSACTION
    # Repeats and gaps are checked before that.
    assert world.write(batch(who, 1, flags=0))[0].base_offset == 1
    assert world.write(batch(who, 3, flags=0))[0].refusal is Refusal.OUT_OF_ORDER_SEQUENCE
    assert world.write(batch(who, 0, 1, flags=0))[0].refusal is None  # another partition


# -- EndTxn of version 2 ---------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_bumps_the_epoch_and_its_repeat_does_not(committed: bool) -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    following = world.end(who, committed=committed)
    assert is_ok(following, who.producer_id, 1)
    assert world.end(who, committed=committed) == following
    assert world.end(who, committed=not committed).refusal is R.INVALID_STATE
    assert world.partition().next_offset == 2
    marker = world.partition().runs[1].marker()
    assert (marker.epoch, marker.committed) == (1, committed)


def test_ends_without_a_transaction() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.end(who).refusal is R.INVALID_STATE
    second = world.end(who, committed=False)
    assert is_ok(second, who.producer_id, 1)
    assert world.id().state is S.COMPLETE_ABORT
    assert world.end(second).refusal is R.INVALID_STATE
    assert world.end(second, committed=False).epoch == 2


def test_a_repeat_while_the_next_transaction_is_open_is_fenced() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    following = world.end(who)
    world.write(batch(following, 0))
    assert world.end(who).refusal is R.FENCED
    assert world.id().is_open


def test_a_fenced_client_does_not_get_the_epoch_of_an_older_client() -> None:
    world = TransactionWorld()
    who = world.init()
    fencing = world.init()
    world.grow(fencing, 0)
    world.end(fencing, committed=False, bumps=False)
    # The request looks like a repeat of the end, but that end did not bump the epoch.
    assert world.end(who, committed=False).refusal is R.FENCED
    assert world.id().epoch == fencing.epoch


@pytest.mark.parametrize("bumps", [True, False])
def test_ends_of_others_are_refused(bumps: bool) -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    assert world.end(who, "y", bumps=bumps).refusal is R.UNKNOWN_ID
    stranger = EndAnswer(None, 77, who.epoch)
    assert world.end(stranger, bumps=bumps).refusal is R.UNKNOWN_ID
    later = EndAnswer(None, who.producer_id, who.epoch + 1)
    assert world.end(later, bumps=bumps).refusal is R.FENCED
    assert world.id().is_open


def test_an_end_at_the_last_epoch_gives_another_producer_id() -> None:
    world = TransactionWorld()
    world.init()
    last = world.set_epoch(LAST_EPOCH)
    world.write(batch(last, 0))
    following = world.end(last)
    assert following.epoch == 0
    assert following.producer_id != last.producer_id
    assert world.partition().runs[1].marker() == (last.producer_id, 32_767, True, 1_000_000)
    assert world.end(last) == following
    assert world.write(batch(last, 1))[0].refusal is Refusal.UNKNOWN_TRANSACTIONAL_ID
    assert world.write(batch(following, 0))[0].refusal is None


def test_without_a_spare_id_the_last_epoch_cannot_be_bumped() -> None:
    world = TransactionWorld()
    world.init()
    last = world.set_epoch(LAST_EPOCH)
    world.write(batch(last, 0))
    [answer] = world.propose(EndTransaction("x", last.producer_id, LAST_EPOCH, True, bumps=True))
    assert answer.refusal is R.NEEDS_PRODUCER_ID
    assert world.id().is_open


# -- EndTxn before version 2 -----------------------------------------------------------------------


def test_an_older_end_keeps_the_epoch() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0, 1)
    world.write(batch(who, 0, flags=OLD))
    assert is_ok(world.end(who, bumps=False), who.producer_id, who.epoch)
    assert is_ok(world.end(who, bumps=False), who.producer_id, who.epoch)
    assert world.end(who, committed=False, bumps=False).refusal is R.INVALID_STATE
    # Each added partition gets a marker, with data or without.
    assert [world.partition(each).next_offset for each in range(3)] == [2, 1, 0]
    world.grow(who, 0)
    assert world.write(batch(who, 1, flags=OLD))[0].base_offset == 2  # sequences continue


def test_an_older_end_that_waited_does_not_end_the_next_transaction() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    delayed = world.end_proposal(who, committed=False, bumps=False)
    world.end(who, bumps=False)
    world.grow(who, 0)
    [answer] = world.propose(delayed)
    assert answer.refusal is R.CONCURRENT
    assert world.id().is_open


# -- time-outs, operators, expiry ------------------------------------------------------------------


def test_a_time_out_aborts_and_fences() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    [early] = world.propose(AbortTimedOut("x"))
    assert early.refusal is R.INVALID_STATE
    world.clock_ms += 60_001
    [answer] = world.propose(AbortTimedOut("x"))
    assert is_ok(answer, who.producer_id, 1)
    assert world.write(batch(who, 1))[0].refusal is Refusal.STALE_PRODUCER_EPOCH
    # The client's abort counts as a repeat of this one, and the client continues. Its commit is
    # refused.
    assert world.end(who).refusal is R.INVALID_STATE
    assert world.end(who, committed=False) == answer


def test_a_time_out_at_the_last_epoch_gives_another_producer_id() -> None:
    world = TransactionWorld()
    world.init()
    last = world.set_epoch(LAST_EPOCH)
    world.write(batch(last, 0))
    world.clock_ms += 60_001
    [answer] = world.propose(AbortTimedOut("x"))
    assert answer.refusal is R.NEEDS_PRODUCER_ID
    [answer] = world.propose(AbortTimedOut("x", 9_999))
    assert is_ok(answer, 9_999, 0)


def test_an_operator_aborts_the_whole_transaction() -> None:
    world = TransactionWorld()
    world.init()
    who = world.init()
    world.write(batch(who, 0), batch(who, 0, 1))
    [stale] = world.propose(AbortTransaction(who.producer_id, 0))
    assert stale.refusal is R.FENCED
    [answer] = world.propose(AbortTransaction(who.producer_id, 1))
    assert answer.epoch == 2
    assert not world.partition(1).open
    [again] = world.propose(AbortTransaction(who.producer_id, 2))
    assert again.refusal is R.INVALID_STATE
    [unknown] = world.propose(AbortTransaction(5, 0))
    assert unknown.refusal is R.UNKNOWN_ID


def test_an_operator_aborts_only_the_transaction_that_was_seen() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    seen = world.id().began
    world.end(who, bumps=False)
    world.grow(who, 1)
    [late] = world.propose(AbortTransaction(who.producer_id, 0, began=seen))
    assert late.refusal is R.CONCURRENT
    assert world.id().is_open
    [answer] = world.propose(AbortTransaction(who.producer_id, 0, began=world.id().began))
    assert (answer.refusal, answer.epoch) == (None, 1)


def test_unused_ids_expire_and_open_ones_do_not() -> None:
    world = TransactionWorld()
    world.init("idle")
    who = world.init()
    world.write(batch(who, 0))
    world.clock_ms += 1_000
    world.init("young")
    world.clock_ms += 500
    assert world.propose(ExpireTransactionalIds(999)) == [False]
    assert list(world.state.transactions.names()) == ["x", "young"]
    assert world.propose(ExpireTransactionalIds(999)) == [False]
    assert world.init("idle").epoch == 0


def test_an_id_may_expire_and_begin_again_in_one_entry() -> None:
    world = TransactionWorld()
    old = world.init()
    world.clock_ms += 1_000
    _, answer = world.propose(
        ExpireTransactionalIds(999), InitialiseTransactionalId("x", 60_000, spare_id=77)
    )
    assert is_ok(answer, 77, 0)
    assert world.state.transactions.name_of(old.producer_id) is None
