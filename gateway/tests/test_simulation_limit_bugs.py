"""Runs near the ends of numbers, and rules that decide on what cannot be folded."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from tests.planted_bugs import must_be_found
from tidegate_coordination.rules import wal as wal_rules
from tidegate_coordination.state import objects, partitions, trial
from tidegate_coordination.state.columns import MAX_INT64, MAX_UINT32
from tidegate_coordination.state.object_rows import ObjectRows
from tidegate_coordination.state.producer_ids import ProducerIdTable
from tidegate_gateway.wal_writer import WalWriter
from tidegate_simulation import faults, run
from tidegate_simulation.producers import IdempotentProducer
from tidegate_simulation.run import simulate

_SEEDS = 2
_OPERATIONS = 60
_FIRST_OFFSET = 2**62
_OF_THE_BEGINNING = ("false out of range", "log start too high")


def begin_near_the_ends(patch: pytest.MonkeyPatch) -> None:
    """Every replica's numbers begin where 32 bits end, and offsets where few bits are left."""
    near = MAX_UINT32 - 20
    rows, partition = ObjectRows.__init__, partitions.Partition.__init__
    counted = objects.ObjectTable.next_counter
    writer, counters = WalWriter.__init__, objects._Counters.__init__

    def begin_rows(self: ObjectRows, codes: str) -> None:
        rows(self, codes)
        self.next_number = near

    def begin_partition(self: Any, *args: Any, **kwargs: Any) -> None:
        partition(self, *args, **kwargs)
        if len(args) == 3:  # a new one, not one of a snapshot
            self.log_start = self.next_offset = _FIRST_OFFSET

    def begin_writer(self: Any, *args: Any, **kwargs: Any) -> None:
        writer(self, *args, **kwargs)
        self._counter = near

    def next_counter(self: Any, incarnation: int) -> int:
        return counted(self, incarnation) or near

    def begin_counters(self: Any, following: int = near, *args: Any) -> None:
        counters(self, following, *args)

    patch.setattr(ObjectRows, "__init__", begin_rows)
    patch.setattr(partitions.Partition, "__init__", begin_partition)
    patch.setattr(WalWriter, "__init__", begin_writer)
    patch.setattr(objects._Counters, "__init__", begin_counters)
    patch.setattr(objects.ObjectTable, "next_counter", next_counter)


@pytest.mark.parametrize("seed", range(1, 1 + _SEEDS))
def test_runs_that_begin_near_the_ends_find_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_near_the_ends(monkeypatch)
    report = simulate(seed, _OPERATIONS)
    # The checker takes all partitions to begin at 0, as all do but these.
    found = [each for each in report.violations if each.kind not in _OF_THE_BEGINNING]
    assert not found, found[:3]
    assert report.entries > 40


def decides_on_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Now and then a commit leaves an offset out."""
    real, runs = wal_rules._Judge.runs, count(1)

    def wrong(self: Any) -> Any:
        for each in real(self):
            yield type(each)(*_moved(each)) if next(runs) % 10 == 0 else each

    patch.setattr(wal_rules._Judge, "runs", wrong)


def _moved(run: Any) -> tuple[int, ...]:
    return (*(getattr(run, name) for name in run.__struct_fields__[:3]), run.base_offset + 1,
            *(getattr(run, name) for name in run.__struct_fields__[4:]))  # fmt: skip


def is_not_tried(patch: pytest.MonkeyPatch) -> None:
    decides_on_a_gap(patch)
    patch.setattr(trial.Trial, "check", lambda self, events: None)


def test_what_cannot_be_folded_is_found_where_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(is_not_tried, {"state broken", "gateway died"}, 1, monkeypatch)


def test_a_trial_keeps_it_from_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such commit fails by itself, which is told as an error, and no gateway dies."""
    decides_on_a_gap(monkeypatch)
    kinds = {each.kind for each in simulate(1, 40).violations}
    assert "internal error" in kinds
    assert not kinds & {"state broken", "gateway died", "invariant 5", "lost"}


def test_runs_in_which_producers_expire_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways then drop what is left of a block of producer ids every few seconds."""
    real, expired = faults.draw_settings, list[int]()
    fold_expired = ProducerIdTable.fold_expired

    def draw(rng: Random) -> dict[str, str]:
        return {**real(rng), "producer.id.expiration.ms": "60000"}

    def note(self: ProducerIdTable, before_ms: int) -> None:
        expired.append(before_ms)
        fold_expired(self, before_ms)

    monkeypatch.setattr(run, "draw_settings", draw)
    monkeypatch.setattr(ProducerIdTable, "fold_expired", note)
    report = simulate(4, 150)
    assert not report.violations, report.violations
    assert expired


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
