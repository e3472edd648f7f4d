"""The simulator must find gateways that do not notice the store's refusals, or their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_gateway import gateway
from tidegate_gateway.cut_off import to_avoid
from tidegate_gateway.store_way.marks import Marks
from tidegate_gateway.store_way.store_proof import StoreProof
from tidegate_gateway.store_way.store_watch import StoreWatch
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.gateways.refused_plan import GETS, PREFIX, PUTS, is_judged


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


def names_itself_leader(patch: pytest.MonkeyPatch) -> None:
    def others_alone(coordinator: Coordinator, *unable: frozenset[int]) -> frozenset[int]:
        return to_avoid(coordinator, *unable) - {coordinator.incarnation}

    patch.setattr(gateway, "to_avoid", others_alone)


def believes_a_mark_alone(patch: pytest.MonkeyPatch) -> None:
    """A marked gateway is avoided although no other gateway stores anything."""
    look = Marks.look

    def trusting(self: Any, signs: Any, now: float) -> None:
        look(self, signs, now)
        self.avoided = frozenset(each.incarnation for each in signs if each.is_marked)

    patch.setattr(Marks, "look", trusting)


def proves_nothing_of_reads(patch: pytest.MonkeyPatch) -> None:
    """A commit counts as a proof that its gateway can read."""
    real = StoreWatch._can_read

    def can_read(self: Any, now: float) -> bool:
        return not self._marks.is_marked(self._coordinator.incarnation) or real(self, now)

    patch.setattr(StoreWatch, "_can_read", can_read)


def refuses_puts_of_all(plan: FaultPlan) -> bool:
    return is_judged(plan.kinds) and PUTS in plan.kinds


def refuses_gets_of_all(plan: FaultPlan) -> bool:
    return is_judged(plan.kinds) and GETS in plan.kinds


def commits_though_it_cannot_read(patch: pytest.MonkeyPatch) -> None:
    def hold(self: Any, now: float, *, is_marked: bool) -> None:
        pass

    patch.setattr(StoreWatch, "_hold", hold)


def refuses(plan: FaultPlan) -> bool:
    return is_judged(plan.kinds) and any(each.startswith(PREFIX) for each in plan.kinds)


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (is_never_cut_off, {"served though the store refuses it"}),
        (names_itself_leader, {"leader though the store refuses it"}),
        (never_proves_its_way, {"refuses though the store is back", "absent though it lives"}),
    ],
)
def test_planted_bugs_of_refused_gateways_are_found(
    plant: Plant, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, kinds, 1, monkeypatch, refuses)


@pytest.mark.parametrize(
    ("plant", "is_concerned"),
    [
        (believes_a_mark_alone, refuses_puts_of_all),
        (proves_nothing_of_reads, refuses_gets_of_all),
    ],
)
def test_gateways_that_send_producers_to_no_better_ones_are_found(
    plant: Plant, is_concerned: Callable[[FaultPlan], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"sends producers away though none is better"}
    must_be_found(plant, kinds, 1, monkeypatch, is_concerned, refused=True)


def test_a_gateway_whose_commits_hide_that_it_cannot_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = {"served though the store refuses it"}
    must_be_found(commits_though_it_cannot_read, kinds, 1430, monkeypatch, refuses)
