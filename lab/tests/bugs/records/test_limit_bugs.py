"""Runs whose numbers begin high, or in which states expire; rules that decide wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import inf
from typing import Any

import pytest

from tests.worlds.planted_bugs import must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.events.groups import OffsetsDeleted
from tidegate_coordination.rules.consumer_groups import offset_expiry
from tidegate_coordination.rules.records.wal_judge import WalJudge
from tidegate_coordination.state import entry_trial as trial
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.columns import MAX_INT64, MAX_UINT32
from tidegate_coordination.state.groups import Group, GroupTable
from tidegate_coordination.state.records.object_rows import ObjectRows
from tidegate_coordination.state.records.objects import WalCounters
from tidegate_coordination.state.records.producer_ids import ProducerIdTable
from tidegate_gateway.network import turns
from tidegate_gateway.requests.transactions import feature
from tidegate_simulation.clients.producers import IdempotentProducer
from tidegate_simulation.plans import beginnings, expiry_plan
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.run import plan_of, simulate

_OPERATIONS = 60


def _begins_high(plan: FaultPlan) -> bool:
    return plan.beginnings.begins_high


def begin_high(patch: pytest.MonkeyPatch) -> None:
    """Begin high in every run that supports it."""
    patch.setattr(beginnings, "HIGH_SHARE", 1.0)


def test_runs_that_begin_high_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_high(monkeypatch)
    numbers, counters = list[int](), list[int]()
    append, settle = ObjectRows.append, WalCounters.settle

    def note(self: ObjectRows, row: Sequence[int]) -> int:
        numbers.append(append(self, row))
        return numbers[-1]

    def note_counter(self: WalCounters, counter: int, *, abandoned: bool) -> None:
        counters.append(counter)
        settle(self, counter, abandoned=abandoned)

    monkeypatch.setattr(ObjectRows, "append", note)
    monkeypatch.setattr(WalCounters, "settle", note_counter)
    seeds = [seed for seed in range(1, 10) if _begins_high(plan_of(seed))][:2]
    assert len(seeds) == 2
    for seed in seeds:
        report = simulate(seed, _OPERATIONS)
        assert not report.violations, report.violations[:3]
        assert report.entries > 40
        sent = [each for each in report.trace if '"f":"send"' in each]
        assert any(f'"offset":{beginnings.FIRST_OFFSET}' in each for each in sent)
    assert min(max(numbers), max(counters)) > MAX_UINT32


def _break_off_while_numbers_begin_high() -> None:
    before = ObjectRows.__init__
    with beginnings.Beginnings(begins_high=True, has_small_parts=True).hold():
        assert ObjectRows.__init__ is not before
        raise KeyboardInterrupt


def test_an_interrupted_run_restores_the_replaced_parts() -> None:
    before = ObjectRows.__init__
    with pytest.raises(KeyboardInterrupt):
        _break_off_while_numbers_begin_high()
    assert ObjectRows.__init__ is before
    assert turns.ROWS_AT_ONCE > 2


def forgets_the_upper_bits(patch: pytest.MonkeyPatch) -> None:
    """The numbers of objects have 32 bits, as in older releases."""
    begin_high(patch)
    real = ObjectRows.append

    def append(self: ObjectRows, row: Sequence[int]) -> int:
        self.next_number &= MAX_UINT32
        return real(self, row)

    patch.setattr(ObjectRows, "append", append)


def test_numbers_that_wrap_around_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"state broken", "gateway died", "invariant 4", "invariant 5"}
    must_be_found(forgets_the_upper_bits, expected, 1, monkeypatch, _begins_high)


def decides_on_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Now and then a commit skips an offset."""
    real, runs = WalJudge.runs, count(1)

    def wrong(self: Any) -> Any:
        return [type(each)(*_moved(each)) if next(runs) % 10 == 0 else each for each in real(self)]

    patch.setattr(WalJudge, "runs", wrong)


def _moved(run: Any) -> tuple[int, ...]:
    return (*(getattr(run, name) for name in run.__struct_fields__[:3]), run.base_offset + 1,
            *(getattr(run, name) for name in run.__struct_fields__[4:]))  # fmt: skip


def is_not_tried(patch: pytest.MonkeyPatch) -> None:
    decides_on_a_gap(patch)
    patch.setattr(trial.Trial, "check", lambda self, events: None)


def test_an_event_that_cannot_be_folded_is_found_without_a_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = {in_rules("cannot be folded"), "state broken", "gateway died"}
    must_be_found(is_not_tried, expected, 1, monkeypatch)


def test_a_trial_rejects_an_event_that_cannot_be_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only such commits fail, their clients get errors, and no gateway dies."""
    decides_on_a_gap(monkeypatch)
    kinds = {each.kind for each in simulate(1, 40).violations}
    assert "internal error" in kinds
    assert not kinds & {"state broken", "gateway died", "invariant 5", "lost"}


def always_expires(patch: pytest.MonkeyPatch) -> None:
    """Draw expiries in every run with clocks that can be trusted."""
    patch.setattr(expiry_plan, "SHARE", 1.0)


def test_runs_in_which_states_expire_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways drop the rest of a block of producer ids every few seconds."""
    always_expires(monkeypatch)
    expired, offsets = list[int](), list[str]()
    fold_expired, fold_deleted = ProducerIdTable.fold_expired, GroupTable.fold_offsets_deleted

    def note(self: ProducerIdTable, before_ms: int) -> None:
        expired.append(before_ms)
        fold_expired(self, before_ms)

    def note_deleted(self: GroupTable, event: OffsetsDeleted, *more: Any) -> None:
        offsets.append(event.group_id)
        fold_deleted(self, event, *more)

    monkeypatch.setattr(ProducerIdTable, "fold_expired", note)
    monkeypatch.setattr(GroupTable, "fold_offsets_deleted", note_deleted)
    report = simulate(15, 150)
    assert not report.violations, report.violations
    assert expired
    assert offsets


def gives_out_old_ids(patch: pytest.MonkeyPatch) -> None:
    """A gateway uses a block of producer ids at any age, so that a new id counts as an old one."""
    always_expires(patch)
    patch.setattr(feature, "hold_seconds", lambda _: inf)


def test_new_producer_ids_of_old_blocks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(gives_out_old_ids, {"invariant 6"}, 11, monkeypatch)


def expires_offsets_too_early(patch: pytest.MonkeyPatch) -> None:
    always_expires(patch)
    real = offset_expiry.expired_offsets

    def expired(state: ClusterState, group: Group, retention_ms: int, log_time_ms: int) -> Any:
        return real(state, group, retention_ms // 2, log_time_ms)

    patch.setattr(offset_expiry, "expired_offsets", expired)


def test_offsets_that_expire_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {in_rules("expires too early"), "gone too early"}
    must_be_found(expires_offsets_too_early, expected, 15, monkeypatch)


def test_made_up_producer_ids_are_served_and_move_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made_up = IdempotentProducer.introduce, iter(range(MAX_INT64, 0, -1))

    async def introduce(self: IdempotentProducer) -> tuple[int, int]:
        given = await real(self)
        return (next(made_up), 0) if self.client.name == "producer 2" else given

    monkeypatch.setattr(IdempotentProducer, "introduce", introduce)
    ids = set[int]()
    reserve = ProducerIdTable.fold_reserved

    def note(self: ProducerIdTable, event: Any, log_time_ms: int) -> None:
        reserve(self, event, log_time_ms)
        ids.add(self.own.start)

    monkeypatch.setattr(ProducerIdTable, "fold_reserved", note)
    report = simulate(3, _OPERATIONS)
    assert not report.violations, report.violations
    assert next(made_up) < MAX_INT64
    assert len(ids) == 1
