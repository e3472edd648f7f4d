"""Planted bugs of groups that gateways forward to a source, and that move here."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tidegate_coordination.rules.consumer_groups import groups as group_rules
from tidegate_gateway.migration.forward.groups import GroupForwards
from tidegate_gateway.migration.units import group_move, group_plan
from tidegate_simulation.plans.faults import FaultPlan


def leaves_offsets_behind(patch: pytest.MonkeyPatch) -> None:
    """The group moves without its offsets."""
    patch.setattr(group_move, "_to_commit", lambda *_: [])


def forgets_the_generation(patch: pytest.MonkeyPatch) -> None:
    """The group starts again, with its members."""
    real = group_plan._record

    def record(*arguments: Any) -> Any:
        return msgspec.structs.replace(real(*arguments), generation=0)

    patch.setattr(group_plan, "_record", record)


def overlooks_members_of_the_source(patch: pytest.MonkeyPatch) -> None:
    """Only some members move."""
    real = group_plan._record

    def record(*arguments: Any) -> Any:
        found = real(*arguments)
        return msgspec.structs.replace(found, members=found.members[:1])

    patch.setattr(group_plan, "_record", record)


def serves_the_sources_groups(patch: pytest.MonkeyPatch) -> None:
    """A gateway coordinates a group whose requests other gateways forward to the source."""
    real = GroupForwards.takes

    def takes(self: Any, group_id: str) -> bool:
        return self._coordinator.incarnation % 2 == 0 and real(self, group_id)

    def holds(view: Any, group_id: str, epoch: int) -> bool:
        claim = view.state.claims.get(group_rules.group_claim(group_id))
        return claim is not None and claim == (view.writer, epoch)

    patch.setattr(GroupForwards, "takes", takes)
    for module in ("groups", "offsets"):
        name = f"tidegate_coordination.rules.consumer_groups.{module}.holds_claim"
        patch.setattr(name, holds)


def has_groups(plan: FaultPlan) -> bool:
    return plan.links.groups


_LOST = {"stale commit", "vanished commit"}


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (leaves_offsets_behind, _LOST, 13),
        (forgets_the_generation, {"generation fell", "zombie commit"}, 31),
        (overlooks_members_of_the_source, {"expired early"}, 41),
        (serves_the_sources_groups, {"invariant 7", "two owners", *_LOST}, 1),
    ],
)
def test_the_simulator_finds_it(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(
        untried(plant), expected, first_seed, monkeypatch, has_groups, links=True, groups=True
    )
