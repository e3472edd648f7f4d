"""Objects that simulated runs lose for ever, their repair, and bugs planted in the repair."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.events.cluster import RunsSkipped, SkippedStretch
from tidegate_coordination.rules.proposal import Decided
from tidegate_coordination.rules.records import skips as skip_rules
from tidegate_coordination.rules.records.skips import Skip, SkipRuns
from tidegate_coordination.state.folds.runs import RunFolds
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import Runs
from tidegate_gateway.tools.readability import ReadabilityCheck
from tidegate_gateway.tools.repair import Repair
from tidegate_simulation.checks.checker import check
from tidegate_simulation.checks.history import History
from tidegate_simulation.invariants.tiling_checks import TilingWatch
from tidegate_simulation.plans.losses import LOSS_KINDS, Holes, draw_losses
from tidegate_simulation.run import plan_of, simulate

# -- draws and whole runs -------------------------------------------------------------------------


def test_some_seeds_lose_objects_and_have_operators() -> None:
    plans = [draw_losses(Random(seed), is_calm=False) for seed in range(300)]
    lossy = [plan for plan in plans if plan.kinds]
    assert 20 < len(lossy) < 100
    assert {kind for plan in lossy for kind in plan.kinds} == set(LOSS_KINDS)
    assert {plan.operators for plan in lossy} == {1, 2}
    assert {plan.returns for plan in lossy} == {True, False}
    assert not any(plan.operators for plan in plans if not plan.kinds)
    assert not draw_losses(Random(9), is_calm=True).kinds


def lossy_seeds(count: int) -> list[int]:
    seeds = [seed for seed in range(1, 200) if plan_of(seed).losses.kinds]
    return seeds[:count]


def test_runs_that_lose_objects_are_repaired_and_find_nothing() -> None:
    skipped = back = 0
    for seed in sorted({*lossy_seeds(8), 66}):
        report = simulate(seed, 150)
        assert not report.violations, report.replay
        skipped += report.landed.counts.get("operator.skipped", 0)
        back += report.landed.counts.get("operator.brought back", 0)
    assert skipped > 6
    assert back > 2


# -- the checker ----------------------------------------------------------------------------------


def history_of(*, start: int = 0, lost: tuple[int, int] = (1, 3)) -> History:
    """Four records are acknowledged; a repair declares some lost; then a client reads the rest."""
    history = History(lambda: 0.0)
    sent = {"key": 0, "values": [10, 11, 12, 13], "producer": None}
    history.ok(history.invoke("p", "send", sent), offset=0)
    note = {"key": 0, "base": lost[0], "next": lost[1], "start": start}
    history.note("operator", "ok", "lost", note)
    history.note("r", "ok", "assign", {"keys": [0]})
    poll = history.invoke("r", "poll", {"key": 0, "position": 0})
    history.ok(poll, records=[(0, 10), (3, 13)], next=4, hw=4)
    history.note("r", "ok", "drained", {"key": 0, "offset": 4})
    return history


def test_records_declared_lost_are_not_missed() -> None:
    assert check(history_of().events) == []


@pytest.mark.parametrize("lost", [(1, 2), (2, 3), (3, 4)])
def test_records_not_declared_lost_are_missed(lost: tuple[int, int]) -> None:
    assert "lost" in {each.kind for each in check(history_of(lost=lost).events)}


def test_a_reader_that_passes_records_before_their_loss_is_a_violation() -> None:
    history = History(lambda: 0.0)
    sent = {"key": 0, "values": [10, 11], "producer": None}
    history.ok(history.invoke("p", "send", sent), offset=0)
    for process, records in (("r", [(0, 10), (1, 11)]), ("s", [(1, 11)])):
        history.note(process, "ok", "assign", {"keys": [0]})
        poll = history.invoke(process, "poll", {"key": 0, "position": 0})
        history.ok(poll, records=records, next=2, hw=2)
    history.note("operator", "ok", "lost", {"key": 0, "base": 0, "next": 1, "start": 1})
    poll = history.invoke("s", "low", {"key": 0})
    history.ok(poll, offset=1)
    # Below the log start, whatever raised it, the checker demands no record.
    assert check(history.events) == []
    history.events[:] = [each for each in history.events if each.f != "lost"]
    assert {each.kind for each in check(history.events)} == {"skipped", "log start too high"}


@pytest.mark.parametrize(
    ("read", "expected"), [((0, 1, 2, 3), set()), ((0, 3), {"not brought back"})]
)
def test_a_final_reader_reads_what_came_back(read: tuple[int, ...], expected: set[str]) -> None:
    """The first reader need not, because its gateway may not have read to the log's end."""
    history = history_of()
    history.note("operator", "ok", "back", {"key": 0, "base": 1, "next": 3, "start": 0})
    poll = history.invoke("f", "poll", {"key": 0, "position": 0})
    history.ok(poll, records=[(each, 10 + each) for each in read], next=4, hw=4)
    history.events[:] = [each for each in history.events if each.f != "drained"]
    history.note("f", "ok", "drained", {"key": 0, "offset": 4})
    assert {each.kind for each in check(history.events)} == expected


def test_a_log_start_falls_only_to_what_came_back() -> None:
    for start, expected in ((0, set[str]()), (1, {"log start fell"})):
        history = history_of(lost=(0, 3), start=3)
        history.ok(history.invoke("r", "low", {"key": 0}), offset=3)
        back = {"key": 0, "base": start, "next": 3, "start": start}
        history.note("operator", "ok", "back", back)
        history.ok(history.invoke("r", "low", {"key": 0}), offset=0)
        assert "log start fell" not in {each.kind for each in check(history.events)} - expected
        assert expected <= {each.kind for each in check(history.events)}


def test_holes_cover_ranges_declared_lost() -> None:
    holes = Holes()
    for stretch in ((4, 6), (2, 4), (9, 10)):
        holes.add(1, *stretch)
    assert holes.cover(1, 2, 6)
    assert holes.cover(1, 3, 3)
    assert not holes.cover(1, 1, 6)
    assert not holes.cover(1, 5, 10)
    assert not holes.cover(2, 2, 3)
    holes.remove(1, 2, 4)
    assert not holes.cover(1, 2, 6)
    assert holes.cover(1, 4, 6)


# -- planted bugs ---------------------------------------------------------------------------------


def skips_a_neighbour(patch: pytest.MonkeyPatch) -> None:
    """The repair skips the next run, too."""
    real = SkipRuns.decide

    def decide(self: SkipRuns, view: Any) -> Any:
        decided = real(self, view)
        if not decided.events:
            return decided
        longer = [
            _longer(view.state.partitions[each.partition], each) for each in event_of(decided)
        ]
        return Decided((RunsSkipped(self.incarnation, tuple(longer[:1])),), decided.answer)

    patch.setattr(SkipRuns, "decide", decide)


def event_of(decided: Any) -> tuple[SkippedStretch, ...]:
    [event] = decided.events
    stretches: tuple[SkippedStretch, ...] = event.stretches
    return stretches


def _longer(partition: Any, stretch: SkippedStretch) -> SkippedStretch:
    runs = partition.runs
    at = runs.index_from(stretch.next_offset)
    end = runs[at].next_offset if at < len(runs) else stretch.next_offset
    return SkippedStretch(stretch.partition, stretch.base_offset, end)


def unwatched(plant: Plant) -> Plant:
    """Switch the simulator's own checks of the log off, so that clients must notice the bug."""

    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(TilingWatch, "check", lambda *_, whole: None)
        patch.setattr(TilingWatch, "_give_up", _give_up_hurt)
        plant(patch)

    both.__name__ = f"{plant.__name__}_unwatched"
    return both


def _give_up_hurt(self: Any, partition: Any, row: Any) -> None:
    if self._hurt.is_hurt(partition, row):
        self._given_up.append((partition.number, row.base_offset, row.next_offset))


def skips_whatever_was_seen(patch: pytest.MonkeyPatch) -> None:
    """The rule does not check whether the runs are live."""
    patch.setattr(skip_rules, "_judge", lambda view, stretch, taken: Skip.SKIPPED)


def asks_once(patch: pytest.MonkeyPatch) -> None:
    """The repair reads once, proves nothing, and does not read again before it skips the run."""

    async def believes(self: Any, bad: Any) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    async def looks_once(self: Any, partition: Any, row: Any, found: Any) -> Any:
        return await self.read_patiently(partition, row)

    async def proves_nothing(*_: object) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(ReadabilityCheck, "_look_twice", looks_once)
    patch.setattr(ReadabilityCheck, "is_unreadable", believes)
    patch.setattr(Repair, "prove", proves_nothing)


def forgets_where_runs_end(patch: pytest.MonkeyPatch) -> None:
    """The run before a hole seems to hold the lost offsets."""
    real = Runs._end_at

    def wrong(self: Any, at: int, next_offset: int) -> None:
        if at + 1 == len(self._base):
            real(self, at, next_offset)

    patch.setattr(Runs, "_end_at", wrong)


def keeps_runs_without_their_objects(patch: pytest.MonkeyPatch) -> None:
    """The object of a skipped run is freed, although the run is kept."""
    real = RunFolds.fold_skipped

    def fold(self: Any, event: RunsSkipped) -> None:
        real(self, event)
        for each in event.stretches:
            partition = self._partitions[each.partition]
            if partition.kept is not None:
                self._supersede(partition.kept.between(each.base_offset, each.next_offset))

    patch.setattr(RunFolds, "fold_skipped", fold)


def brings_nothing_back(patch: pytest.MonkeyPatch) -> None:
    """The event that should bring a range back drops the range."""

    def fold(self: Partition, base_offset: int, next_offset: int) -> None:
        self.fold_given_up(base_offset, next_offset)

    patch.setattr(Partition, "fold_brought_back", fold)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (skips_a_neighbour, {in_rules("keeps"), "skipped too much"}, 9),
        (unwatched(skips_a_neighbour), {"lost", "skipped"}, 37),
        (untried(skips_whatever_was_seen), {in_rules("was not kept"), "state broken"}, 9),
        (asks_once, {"skipped too much"}, 217),
        (forgets_where_runs_end, {in_rules("has an overlap"), "false error", "stuck"}, 134),
        (keeps_runs_without_their_objects, {in_rules("are needed"), "invariant 4"}, 9),
        (unwatched(brings_nothing_back), {"not brought back"}, 65),
    ],
)
def test_planted_bug_of_the_repair_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, lambda plan: plan.losses.operators > 0)
