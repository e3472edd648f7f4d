"""The simulator must find gateways that still serve while they are cut off from the log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_gateway.requests.records.fetch_answer import Look
from tidegate_simulation.plans.faults import FaultPlan


def is_never_cut_off(patch: pytest.MonkeyPatch) -> None:
    for name in ("is_cut_off", "is_stale"):
        patch.setattr(Coordinator, name, property(lambda self: False))


def waits_at_the_end_it_knows(patch: pytest.MonkeyPatch) -> None:
    def disown(self: Any) -> None:
        pass

    patch.setattr(Look, "disown_ends", disown)


def isolates(plan: FaultPlan) -> bool:
    return "isolate" in plan.kinds


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "first_seed"), [(is_never_cut_off, 21), (waits_at_the_end_it_knows, 74)]
)
def test_planted_bugs_of_isolated_gateways_are_found(
    plant: Plant, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, {"served though cut off"}, first_seed, monkeypatch, isolates)
