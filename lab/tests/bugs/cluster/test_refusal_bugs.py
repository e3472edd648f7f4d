"""The simulator must find gateways that the store refuses, and that do not notice, or never end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.store_way.store_proof import StoreProof
from tidegate_gateway.store_way.store_watch import StoreWatch
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.refused_plan import PREFIX, is_judged


def is_never_cut_off(patch: pytest.MonkeyPatch) -> None:
    def note(self: Any, now: float, *, is_broken: bool) -> None:
        pass

    patch.setattr(StoreWatch, "_note_cut", note)


def never_proves_its_way(patch: pytest.MonkeyPatch) -> None:
    prove = StoreProof.prove

    async def prove_others(self: Any, puts: Any) -> None:
        if puts.failing_since is None:
            await prove(self, puts)

    patch.setattr(StoreProof, "prove", prove_others)


def refuses(plan: FaultPlan) -> bool:
    return is_judged(plan.kinds) and any(each.startswith(PREFIX) for each in plan.kinds)


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (is_never_cut_off, {"served though the store refuses it"}),
        (never_proves_its_way, {"refuses though the store is back", "absent though it lives"}),
    ],
)
def test_planted_bugs_of_refused_gateways_are_found(
    plant: Plant, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, kinds, 1, monkeypatch, refuses)
