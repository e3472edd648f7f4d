"""The simulator must find bugs of moving the log, and nothing without a bug."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator import loading
from tidegate_coordination.log.copying import in_use
from tidegate_coordination.log_move.mover import LogMover, MoveReport
from tidegate_coordination.logs import movable as movable_log
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules import log_moves as rules
from tidegate_gateway import builder
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.move_plan import MOVED
from tidegate_simulation.run import plan_of, simulate


def goes_on_in_the_old_log(patch: pytest.MonkeyPatch) -> None:
    """A gateway that runs when the old log is sealed does not notice the seal."""
    patch.setattr(MovableLog, "_is_here", lambda self, state: True)


def stays_at_the_old_log_when_restarted(patch: pytest.MonkeyPatch) -> None:
    real: Any = loading.load_state

    async def load_state(log: Any, **more: Any) -> Any:
        state = await real(log, **more)
        if isinstance(log, MovableLog) and log.moves and log._state is not None:
            old = await log._open_next("log 1")
            log._present = movable_log._Opened(old)
        return state

    patch.setattr(builder, "load_state", load_state)


def last_entries_are_not_copied(patch: pytest.MonkeyPatch) -> None:
    async def complete_copy(*_: Any) -> None:
        """Mark the copy as complete without a check."""

    patch.setattr(movable_log, "complete_copy", complete_copy)


def copies_too_late(patch: pytest.MonkeyPatch) -> None:
    """Entries between the snapshot and the first copied entry are missing."""
    real = LogMover._begin

    async def begin(self: Any) -> None:
        await real(self)
        self._next += 2

    patch.setattr(LogMover, "_begin", begin)


def begins_at_an_unfinished_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(builder, "check_cluster", lambda state, wanted: None)


def ends_the_move_of_another(patch: pytest.MonkeyPatch) -> None:
    """Two movers that run at once do not check whose move is in progress."""
    patch.setattr(rules, "present_move", lambda view, move_id: view.state.log_moves.present)


def moves(plan: FaultPlan) -> bool:
    return plan.moves.is_on


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (goes_on_in_the_old_log, {"history split"}, 22),
        (stays_at_the_old_log_when_restarted, {"history split", "gateway died"}, 22),
        (last_entries_are_not_copied, {"gateway died"}, 29),
        (copies_too_late, {"gateway died"}, 22),
        (begins_at_an_unfinished_copy, {"history split", "gateway died"}, 29),
        (
            untried(ends_the_move_of_another),
            {in_rules("is over, and goes on"), "state broken", "gateway died"},
            637,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_moves_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, moves)


def test_seeds_that_move_the_log_find_nothing() -> None:
    landed = Counter[str]()
    for seed in (22, 29, 74, 77):
        report = simulate(seed, 60)
        assert moves(plan_of(seed))
        assert not report.violations, report.replay
        landed.update(report.landed.counts)
    assert landed[MOVED] >= 4
    assert landed["move.outage"]


def test_a_mover_with_a_refused_target_names_another_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the target of an earlier move, which is too old to continue, would fail every move."""
    given: list[str] = []
    real = LogMover.run

    async def run(self: Any) -> MoveReport:
        given.append(self._plan.url)
        if len(given) > 6:
            return await real(self)
        raise in_use("it is too old to go on with")

    monkeypatch.setattr(LogMover, "run", run)
    assert not simulate(22, 20).violations
    assert len(set(given)) == len(given) > 6
