"""Planted bugs of transactions in segments: their markers, and the index of aborted ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch import aborted_list, prepared_runs
from tidegate_pipeline.tasks.compaction import AbortedSet, Cleaner, LatestOffsets
from tidegate_protocol.batches import BatchHeader
from tidegate_protocol.control_batches import control_batch
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_storage.objects.segment_format import AbortedTransaction
from tidegate_storage.objects.segments import SegmentBuilder

_TYPE_AT = 61 + 8  # of a control batch: in the key of its record
_READS = {"aborted read", "torn transaction", "lost transaction", "skipped"}


def serves_no_aborts(patch: pytest.MonkeyPatch) -> None:
    """An abort marker has another producer's id, so readers hide the producer's later records."""

    def batch(**fields: Any) -> bytes:
        other = {} if fields["committed"] else {"producer_id": fields["producer_id"] + 1}
        return bytes(control_batch(**(fields | other)))

    patch.setattr(prepared_runs, "control_batch", batch)


def cuts_the_list_at_a_segment(patch: pytest.MonkeyPatch) -> None:
    """A fetch over several segments reads the index of the first one only."""
    real = aborted_list.aborted_between

    def between(partition: Partition, start: int, end: int, index_of: Callable[..., Any]) -> Any:
        first = partition.runs.find(start)

        def of_first(row: RunRow) -> Any:
            return index_of(row) if row == partition.runs[first] else SimpleNamespace(aborted=())

        return real(partition, start, end, of_first)

    patch.setattr("tidegate_gateway.requests.records.fetch_answer.aborted_between", between)


def names_it_where_it_begins(patch: pytest.MonkeyPatch) -> None:
    """Only the first segment that an aborted transaction spans names the transaction."""
    real = SegmentBuilder.add_aborted

    def add(self: SegmentBuilder, transaction: AbortedTransaction) -> None:
        if transaction.first_offset >= self._base_offset:
            real(self, transaction)

    patch.setattr(SegmentBuilder, "add_aborted", add)


def compacts_aborts_first(patch: pytest.MonkeyPatch) -> None:
    """Compaction removes the marker of an abort, and keeps its entry in the index."""
    real = Cleaner._clean_marker

    def clean(
        self: Cleaner, batch: memoryview, header: BatchHeader, *, is_last: bool
    ) -> memoryview | None:
        is_abort = batch[_TYPE_AT] == 0
        if is_abort and not is_last:
            self.removed.markers += header.record_count
            return None
        return real(self, batch, header, is_last=is_last)

    patch.setattr(Cleaner, "_clean_marker", clean)


def learns_aborted_keys(patch: pytest.MonkeyPatch) -> None:
    """An aborted record supersedes the committed one of its key."""
    real = LatestOffsets.add
    patch.setattr(
        LatestOffsets, "add", lambda self, batch, aborted: real(self, batch, AbortedSet())
    )


def keeps_aborted_records(patch: pytest.MonkeyPatch) -> None:
    """Compaction takes aborted records for committed ones, and later removes the markers."""
    patch.setattr(AbortedSet, "holds", lambda self, header: False)


def has_pipelines(plan: FaultPlan) -> bool:
    return plan.pipelines.drivers > 0


def compacts(plan: FaultPlan) -> bool:
    return plan.pipelines.compacts


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned"),
    [
        (serves_no_aborts, _READS, 5, lambda _: True),
        (cuts_the_list_at_a_segment, _READS, 5, has_pipelines),
        (names_it_where_it_begins, {"invariant 12"}, 5, has_pipelines),
        (compacts_aborts_first, {"segment", "invariant 12"}, 1, compacts),
        (learns_aborted_keys, {"segment", "compaction"}, 16, compacts),
        (keeps_aborted_records, {"segment", "compaction"}, 1, compacts),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_transactions_in_segments_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned: Callable[[FaultPlan], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, transactions=True)
