"""Planted bugs of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.events.groups import OffsetsCommitted
from tidegate_coordination.state.folds.transactions import TransactionFolds
from tidegate_coordination.state.offsets_topic import OffsetsTopic, PartitionRecords
from tidegate_coordination.state.transactions.open import StagedOffset
from tidegate_gateway.fetch.offsets_records import Made, OffsetsRecords
from tidegate_protocol import records


def skips_what_does_not_fit(patch: pytest.MonkeyPatch) -> None:
    """A reader that admits few bytes continues after the records that it was not given."""
    real = OffsetsRecords.make

    def make(self: OffsetsRecords, *args: Any, **more: Any) -> Made | None:
        made = real(self, *args, **more)
        return made and made._replace(batch=_longer(made.batch, args[2]))

    patch.setattr(OffsetsRecords, "make", make)


def _longer(batch: bytes, end: int) -> bytes:
    """Return a batch that says that it covers all offsets below end."""
    if not batch:
        return batch
    header = records.read_header(batch)
    longer = header._replace(last_offset_delta=end - 1 - header.base_offset)
    kept = records.decode_records(batch, max_decompressed_bytes=1 << 20)
    return records.rebuild_batch(longer, kept, codec=0)


def begins_empty(patch: pytest.MonkeyPatch) -> None:
    """A gateway that begins with a snapshot has no records from before it."""
    patch.setattr(PartitionRecords, "fill", lambda *_: None)


def forgets_offsets_of_transactions(patch: pytest.MonkeyPatch) -> None:
    """Offsets that a transaction commits are no records."""

    def publish(self: TransactionFolds, group_id: str, staged: Iterable[StagedOffset]) -> None:
        offsets = tuple(each.offset for each in staged)
        state = self._state
        event = OffsetsCommitted(group_id, 0, offsets)
        state.groups.fold_offsets_committed(event, state.log_time_ms)
        for each in staged:
            self._table.overtake(group_id, (each.offset,), each.order)

    patch.setattr(TransactionFolds, "_publish", publish)


def buries_no_group(patch: pytest.MonkeyPatch) -> None:
    """A deleted group stays in the topic."""
    patch.setattr(OffsetsTopic, "group_deleted", lambda *_: None)


@pytest.mark.parametrize(
    ("plant", "kinds", "transactions", "first_seed"),
    [
        (skips_what_does_not_fit, {"lost record"}, False, 1),
        (begins_empty, {in_rules("wrong last record"), "lost record"}, False, 12),
        (
            forgets_offsets_of_transactions,
            {in_rules("wrong last record"), "wrong last record"},
            True,
            1,
        ),
        (buries_no_group, {in_rules("wrong last record"), "wrong last record"}, False, 9),
    ],
)
def test_bugs_are_found(
    plant: Plant,
    kinds: set[str],
    transactions: bool,
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, kinds, first_seed, monkeypatch, transactions=transactions)
