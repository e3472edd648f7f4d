"""Plants a bug by replacing a part from outside, and looks for the seed that finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate_coordination.state.trial.events import Trial
from tidegate_simulation.checks.checker import Violation
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.run import plan_of, simulate

SEEDS = 200
OPERATIONS = 150
# So many seeds that only break the code say that a part was replaced by one that does not fit.
MAX_BROKEN = 3
_BROKEN = "internal error"
# A part that does not fit may end gateways, too, which is no sign of what was planted.
_MISFITS = ("TypeError", "AttributeError")

Plant = Callable[[pytest.MonkeyPatch], None]


def untried(plant: Plant) -> Plant:
    """Plant a bug where nothing is tried before it is appended: the trial would keep it away.

    What is left are the rules, which must be right by themselves.
    """

    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Trial, "check", lambda self, events: None)
        plant(patch)

    both.__name__ = getattr(plant, "__name__", "")
    return both


def must_be_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
    is_concerned: Callable[[FaultPlan], bool] = lambda _: True,
    *,
    zones: int = 0,
    is_concerned_seed: Callable[[int], bool] = lambda _: True,
) -> None:
    """Fail unless one of SEEDS seeds shows a violation of an expected kind.

    is_concerned: tells of a seed whether it has what the bug is in; others are passed over.
    is_concerned_seed: the same, of what the plan does not tell.  zones: see simulate().
    """
    plant(monkeypatch)
    broken = 0
    for seed in range(first_seed, first_seed + SEEDS):
        if not is_concerned_seed(seed) or not is_concerned(plan_of(seed, zones)):
            continue
        violations = simulate(seed, OPERATIONS, zones, stop_at=expected).violations
        misfits = [each for each in violations if _is_misfit(each)]
        found = {each.kind for each in violations if each not in misfits}
        if found & expected:
            print(f"found in seed {seed}: {sorted(found)}")
            return
        broken += bool(misfits)
        if broken == MAX_BROKEN:
            pytest.fail(f"the planted part does not fit: {misfits} in seed {seed}")
    pytest.fail(f"not found in {SEEDS} seeds")


def _is_misfit(violation: Violation) -> bool:
    return violation.kind == _BROKEN or any(each in violation.text for each in _MISFITS)
