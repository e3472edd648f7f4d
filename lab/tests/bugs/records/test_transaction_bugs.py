"""The simulator must find bugs of transactions: each test replaces one part."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.events.transactions import TransactionEnded
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.rules.records.transactional_batches import Misfit, TransactionJudge
from tidegate_coordination.rules.transaction_overlay import OverlaidId, TransactionOverlay
from tidegate_coordination.rules.transactions import ending
from tidegate_coordination.rules.transactions.ending import EndAnswer, EndTransaction
from tidegate_coordination.state.folds.transactions import TransactionFolds
from tidegate_coordination.state.records.aborted import Aborted
from tidegate_coordination.state.records.open_spans import OpenSpans
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.producers import with_marker
from tidegate_coordination.state.transactions.open import NOTHING_WRITTEN, OpenTransaction
from tidegate_coordination.state.transactions.rows import TransactionalId
from tidegate_gateway.fetch import aborted_list, prepared_runs
from tidegate_gateway.tools.readability import ReadabilityCheck
from tidegate_pipeline.planning import plan as pipeline_plan
from tidegate_protocol.control_batches import control_batch
from tidegate_simulation.plans.faults import FaultPlan

# -- fencing --------------------------------------------------------------------------------------


def takes_a_stale_epoch(patch: pytest.MonkeyPatch) -> None:
    """Neither the transactional id nor the partition fences an old client."""
    real = TransactionJudge.fit

    def fit(self: TransactionJudge, flags: int, producer_id: int, epoch: int, number: int) -> Any:
        misfit = real(self, flags, producer_id, epoch, number)
        found = self._found.get(producer_id)
        if misfit is not Misfit.STALE_EPOCH or found is None:
            return misfit
        found.partitions.setdefault(number, NOTHING_WRITTEN)
        return None

    patch.setattr(TransactionJudge, "fit", fit)
    patch.setattr(
        "tidegate_coordination.state.records.partitions.with_marker",
        lambda state, epoch, written_ms: state or with_marker(state, epoch, written_ms),
    )


def keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """InitProducerId gives a second client the epoch of the first one."""
    patch.setattr(
        "tidegate_coordination.rules.transactions.initialising.bumped",
        lambda row, spare_id: ending.kept(row),
    )


def says_done_to_a_retry(patch: pytest.MonkeyPatch) -> None:
    """A repeated commit is acknowledged although the transaction was aborted."""

    def answer(self: EndTransaction, row: TransactionalId) -> EndAnswer:
        return EndAnswer(None, row.producer_id, row.epoch)

    patch.setattr(EndTransaction, "_answer_repeated", answer)


# -- markers and the last stable offset -----------------------------------------------------------


def leaves_a_marker_out(patch: pytest.MonkeyPatch) -> None:
    """The end of a transaction forgets its last partition."""
    real = ending.end

    def end(view: View, found: OverlaidId, *args: Any, **more: Any) -> TransactionEnded:
        if len(found.partitions) > 1:
            found.partitions.popitem()
        return real(view, found, *args, **more)

    patch.setattr(ending, "end", end)


def commits_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """Each control batch says commit."""
    real = control_batch
    patch.setattr(
        prepared_runs, "control_batch", lambda **fields: real(**(fields | {"committed": True}))
    )


def shows_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.next_offset))


def counts_from_the_youngest(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is where the youngest transaction begins."""

    def stable(self: Partition) -> int:
        return max(self.open.as_dict().values()) if self.open else self.next_offset

    patch.setattr(Partition, "last_stable_offset", property(stable))


def keeps_it_open_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    """An abort does not move the last stable offset."""
    real = Partition.fold_marker

    def fold(self: Partition, offset: int, marker: Any, packed: bytes, written: Any) -> None:
        before = OpenSpans(self.open.as_dict().items() if self.open else ())
        real(self, offset, marker, packed, written)
        if not marker.committed and before:
            self.open = before

    patch.setattr(Partition, "fold_marker", fold)


# -- the aborted list -----------------------------------------------------------------------------


def lists_nothing(patch: pytest.MonkeyPatch) -> None:
    """Fetch answers name no aborted transaction."""
    patch.setattr(Aborted, "named", lambda self, start, end: [])


def lists_what_has_ended_before(patch: pytest.MonkeyPatch) -> None:
    """Fetch answers also name transactions that ended below the fetch offset."""

    def named(self: Aborted, start: int, end: int) -> list[tuple[int, int]]:
        rows = [self[at] for at in range(len(self))]
        return [(row.first, row.producer_id) for row in rows if row.first < end]

    patch.setattr(Aborted, "named", named)


def lists_what_begins_in_the_answer(patch: pytest.MonkeyPatch) -> None:
    """Fetch answers omit transactions that began below the fetch offset."""
    real = Aborted.named
    patch.setattr(
        Aborted,
        "named",
        lambda self, start, end: [row for row in real(self, start, end) if row[0] >= start],
    )


def forgets_aborted_rows_early(patch: pytest.MonkeyPatch) -> None:
    """A published segment drops all aborted rows of the state, also those of later runs."""
    real = Partition.fold_segments

    def fold(self: Partition, *args: Any) -> None:
        real(self, *args)
        if self.aborted is not None:
            self.aborted.drop_below(self.next_offset)

    patch.setattr(Partition, "fold_segments", fold)


def reads_no_index(patch: pytest.MonkeyPatch) -> None:
    """Fetches ignore the aborted transactions in the indexes of segments."""
    patch.setattr(aborted_list, "_of_segment", lambda *_: set())


def merges_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """Merges go beyond the last stable offset, so their indexes miss what is aborted later."""

    def rested(state: Any, partition: Partition, settings: Any, from_offset: int) -> Any:
        rows = [partition.runs[at] for at in range(len(partition.runs))]
        return iter([row for row in rows if row.base_offset >= from_offset])

    patch.setattr(pipeline_plan, "_rested", rested)
    forgets_aborted_rows_early(patch)


# -- offsets --------------------------------------------------------------------------------------


def shows_staged_offsets(patch: pytest.MonkeyPatch) -> None:
    """Offsets count as soon as they are staged."""
    real = TransactionFolds.fold_staged

    def fold(self: TransactionFolds, event: Any) -> None:
        real(self, event)
        state = self._state
        state.groups.fold_offsets_committed(event, state.log_time_ms)

    patch.setattr(TransactionFolds, "fold_staged", fold)


def publishes_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    """Aborted offsets count, too."""
    real = TransactionFolds.fold_ended

    def fold(self: TransactionFolds, event: TransactionEnded) -> None:
        table = self._state.transactions
        transaction = table.open_of(table.name_of(event.producer_id) or "")
        staged = list(transaction.to_commit()) if transaction is not None else []
        real(self, event)
        for group_id, offsets in staged:
            self._publish(group_id, offsets)

    patch.setattr(TransactionFolds, "fold_ended", fold)


# -- entries that several proposals share ---------------------------------------------------------


def overlay_misses_ends(patch: pytest.MonkeyPatch) -> None:
    """A proposal does not see that an earlier one of its entry has ended the transaction."""
    patch.setattr(TransactionOverlay, "put", lambda self, name, row: None)


def overlay_misses_markers(patch: pytest.MonkeyPatch) -> None:
    """A commit of the same entry gives its first batch the offset of a marker."""

    def mark(view: View, number: int, row: TransactionalId, epoch: int) -> tuple[int, int]:
        partition = view.state.partitions[number]
        return number, view.next_offsets.get(number, partition.next_offset)

    patch.setattr(ending, "_mark", mark)


# -- upkeep ---------------------------------------------------------------------------------------


def takes_markers_for_lost_runs(patch: pytest.MonkeyPatch) -> None:
    """A repair skips markers, as no object holds them."""

    async def look(self: Any, partition: Partition, row: Any, found: Any) -> Any:
        return await self.read_patiently(partition, row)

    patch.setattr(ReadabilityCheck, "_look_twice", look)


def forgets_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """A snapshot lacks open transactions."""
    patch.setattr(OpenTransaction, "encode", lambda self: [[], []])


_BROKEN = {"state broken", "gateway died", "internal error", "invariant 5"}
_READS = {"aborted read", "torn transaction", "lost transaction", "skipped"}


def has_pipelines(plan: FaultPlan) -> bool:
    return plan.pipelines.drivers > 0


def has_losses(plan: FaultPlan) -> bool:
    return plan.losses.operators > 0


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (
            takes_a_stale_epoch,
            {in_rules("goes on"), "zombie write", *_READS, "reordered send", "duplicate"},
            35,
        ),
        (untried(keeps_the_epoch), {in_rules("gets epoch"), "epoch given twice", *_READS}, 1),
        (says_done_to_a_retry, {*_READS, in_rules("learns that")}, 135),
        (
            untried(leaves_a_marker_out),
            {in_rules("cannot be folded"), *_BROKEN, "stuck", *_READS},
            1,
        ),
        (commits_what_is_aborted, _READS, 5),
        (shows_what_is_open, {*_READS, in_rules("is stable up to")}, 1),
        (counts_from_the_youngest, {*_READS, in_rules("is stable up to")}, 1),
        (keeps_it_open_after_an_abort, {in_rules("has ended, and is open"), *_BROKEN, "stuck"}, 1),
        (lists_nothing, {*_READS, in_rules("hears of")}, 1),
        (lists_what_has_ended_before, {*_READS, in_rules("hears of")}, 5),
        (lists_what_begins_in_the_answer, {*_READS, in_rules("hears of")}, 5),
        (shows_staged_offsets, {in_rules("without a commit"), "wrong staged offset"}, 1),
        (publishes_after_an_abort, {in_rules("without a commit"), "wrong staged offset"}, 1),
        (
            untried(overlay_misses_ends),
            {in_rules("goes on"), *_BROKEN, *_READS, "zombie write", "epoch given twice"},
            119,
        ),
        (untried(overlay_misses_markers), {*_BROKEN, in_rules("cannot be folded")}, 89),
        (forgets_what_is_open, {*_BROKEN, in_rules("cannot be folded")}, 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_transactions_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, transactions=True)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (forgets_aborted_rows_early, {*_READS, in_rules("as aborted")}),
        (reads_no_index, _READS),
        (merges_what_is_open, _READS),
    ],
)
def test_planted_bugs_of_merged_transactions_are_found(
    plant: Plant, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, 1, monkeypatch, has_pipelines, transactions=True)


def test_a_repair_that_skips_markers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"skipped too much"}
    must_be_found(
        takes_markers_for_lost_runs, expected, 1, monkeypatch, has_losses, transactions=True
    )
