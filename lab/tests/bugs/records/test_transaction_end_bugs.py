"""Planted bugs of ends: repeats, late requests, time-outs, and epochs that run out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.events.transactions import TransactionalIdInitialised
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.rules.records.transactional_batches import TransactionJudge
from tidegate_coordination.rules.transaction_overlay import OverlaidId
from tidegate_coordination.rules.transactions import ending
from tidegate_coordination.rules.transactions.ending import EndAnswer, EndTransaction, NextEpoch
from tidegate_coordination.state.folds.transactions import TransactionFolds
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.transactions.rows import TransactionalId, TransactionState
from tidegate_coordination.state.transactions.table import TransactionTable
from tidegate_gateway.upkeep import transaction_upkeep
from tidegate_simulation.nemesis.restore_trial import draws_restore
from tidegate_simulation.plans.expiry_plan import draw_expiries
from tidegate_simulation.plans.faults import FaultPlan

_READS = {"aborted read", "torn transaction", "lost transaction", "skipped"}


def bumps_at_a_repeat(patch: pytest.MonkeyPatch) -> None:
    """The answer to a repeated EndTxn has another epoch than the first answer (KAFKA-18660)."""
    real = EndTransaction._bump

    def bump(self: EndTransaction, view: View, found: OverlaidId) -> Decided[EndAnswer]:
        row = found.row
        is_complete = row.state not in (TransactionState.EMPTY, TransactionState.ONGOING)
        if self.epoch != row.epoch - 1 or not is_complete or row.has_no_epoch_left:
            return real(self, view, found)
        name, producer_id, epoch = self.transactional_id, row.producer_id, row.epoch + 1
        view.transactions.put(name, row._replace(epoch=epoch))
        event = TransactionalIdInitialised(name, producer_id, epoch, -1, -1, row.timeout_ms)
        return Decided((event,), EndAnswer(None, producer_id, epoch))

    patch.setattr(EndTransaction, "_bump", bump)


def takes_a_late_batch(patch: pytest.MonkeyPatch) -> None:
    """A batch of the former transaction that commits late joins the next transaction."""
    real = TransactionJudge.fit

    def fit(self: TransactionJudge, flags: int, producer_id: int, epoch: int, number: int) -> Any:
        found = self._view.transactions.of_producer(producer_id)
        is_late = found is not None and found.row.is_open and epoch == found.row.epoch - 1
        return real(self, flags, producer_id, epoch + is_late, number)

    patch.setattr(TransactionJudge, "fit", fit)


def times_out_without_a_bump(patch: pytest.MonkeyPatch) -> None:
    """After a time-out the client continues, as if its transaction were still open."""

    def abort(view: View, found: OverlaidId, spare_id: int, cause: int) -> Decided[EndAnswer]:
        following = ending.kept(found.row)
        event = ending.end(view, found, following, committed=False, cause=cause)
        return Decided((event,), EndAnswer(None, following.producer_id, following.epoch))

    patch.setattr(ending, "abort_fenced", abort)


def times_out_early(patch: pytest.MonkeyPatch) -> None:
    """Every open transaction is overdue."""
    for module in (ending, transaction_upkeep):
        patch.setattr(module, "is_overdue", lambda row, _: row.is_open)


def never_rotates(patch: pytest.MonkeyPatch) -> None:
    """At epoch 32767 a transactional id gets no new producer id (KAFKA-20090)."""

    def bumped(row: TransactionalId, spare_id: int) -> NextEpoch:
        epoch = min(row.epoch + 1, 32_767)
        return NextEpoch(epoch, row.producer_id, epoch)

    patch.setattr(ending, "bumped", bumped)
    patch.setattr("tidegate_coordination.rules.transactions.initialising.bumped", bumped)


def forwards_without_the_overlay(patch: pytest.MonkeyPatch) -> None:
    """A forwarded proposal does not see the proposals before it in its entry."""

    def of_author(self: View, author: int) -> View:
        return replace(self, writer=author, appender=self.writer, overlay=None)

    patch.setattr(View, "of_author", of_author)


def expires_open_producers(patch: pytest.MonkeyPatch) -> None:
    """The state of a silent producer expires even while its transaction is open."""

    def expire(self: Partition, before_ms: int) -> None:
        kept = self.producers.items()
        self.producers = {key: each for key, each in kept if each.last_write_ms >= before_ms}

    patch.setattr(Partition, "expire_producers", expire)


def leaves_deleted_partitions_open(patch: pytest.MonkeyPatch) -> None:
    """A transaction keeps the partitions of a deleted topic."""
    patch.setattr(TransactionFolds, "topic_deleted", lambda *_: None)


def keeps_ids_over_a_restore(patch: pytest.MonkeyPatch) -> None:
    """A restore fences no producer: the log continues with the epochs of the backup."""
    patch.setattr(TransactionTable, "fence_all", lambda self: None)


def has_restore(seed: int) -> bool:
    return draws_restore(seed)


def has_expiries(seed: int) -> bool:
    return bool(draw_expiries(seed, may_draw=True))


def every_seed(seed: int) -> bool:
    return True


def has_deserters(plan: FaultPlan) -> bool:
    return plan.transactions.has_deserters


def has_forwarding(plan: FaultPlan) -> bool:
    return plan.forwarding.is_on


def every_plan(plan: FaultPlan) -> bool:
    return True


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned"),
    [
        (
            bumps_at_a_repeat,
            {in_rules("ends with"), "two ends", "epoch given twice"},
            1,
            every_plan,
        ),
        (takes_a_late_batch, {in_rules("ends at"), "invariant 11"}, 10, every_plan),
        (times_out_without_a_bump, {*_READS, in_rules("keeps its epoch")}, 1, has_deserters),
        (times_out_early, {"invariant 10"}, 1, every_plan),
        (
            untried(never_rotates),
            {in_rules("gets epoch"), "invariant 14", "epoch given twice"},
            1,
            every_plan,
        ),
        (
            untried(forwards_without_the_overlay),
            {in_rules("cannot be folded"), "invariant 10", "invariant 14", "state broken"},
            291,
            has_forwarding,
        ),
        (
            leaves_deleted_partitions_open,
            {in_rules("has partitions"), "invariant 9"},
            7,
            every_plan,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_ends_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, transactions=True)


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned_seed"),
    [
        (
            expires_open_producers,
            {in_rules("and is refused"), "refused send", "invariant 6"},
            1,
            has_expiries,
        ),
        (
            keeps_ids_over_a_restore,
            {in_rules("goes on"), "id kept over a restore", "zombie after a restore"},
            1,
            has_restore,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_rare_runs_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned_seed: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(
        plant,
        expected,
        first_seed,
        monkeypatch,
        is_concerned_seed=is_concerned_seed,
        transactions=True,
    )
