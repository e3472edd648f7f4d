"""Planted bugs of switches from a source to the gateways."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tidegate_coordination.client.source_bounds import source_ends
from tidegate_coordination.rules.migration import switches as rules
from tidegate_gateway.migration.back.source_watch import SourceWatch
from tidegate_gateway.migration.switch import source_fence, switching
from tidegate_gateway.migration.switch.switching import (
    Switching,
    by_topic,
    known_ends,
    places_of,
    topics_of,
)
from tidegate_simulation.plans.faults import FaultPlan


def reads_ends_once(patch: pytest.MonkeyPatch) -> None:
    """Batches that a leader appends after its answer to the probe stay at the source."""

    async def drained(self: Switching, fence: Any, settled_at: float) -> Any:
        topics = topics_of(self._state, fence)
        ends = known_ends(await source_ends(self._cluster, places_of(topics)))
        return rules.SwitchTopics(fence.number, by_topic(topics, ends))

    patch.setattr(Switching, "_drained", drained)


def believes_the_config(patch: pytest.MonkeyPatch) -> None:
    """Once the source has taken the config, the gateway assumes that all leaders apply it."""

    async def unfenced(*_: Any) -> dict[Any, str]:
        return {}

    patch.setattr(switching, "unfenced", unfenced)


def fences_nothing(patch: pytest.MonkeyPatch) -> None:
    """Nothing is fenced: if the log ends stand still for a moment, no client seems to write."""

    async def nothing(*_: Any) -> None:
        return None

    patch.setattr(Switching, "_fence_source", nothing)
    believes_the_config(patch)


def checks_no_ends(patch: pytest.MonkeyPatch) -> None:
    """Neither the rule nor the gateway checks that the copies reach the source's ends."""
    patch.setattr(rules, "_unequal", lambda *_: "")
    patch.setattr(switching, "reached", lambda *_: True)


def leaves_the_source_fenced(patch: pytest.MonkeyPatch) -> None:
    """A lifted fence is forgotten before the source takes writes again."""
    real = source_fence.set_limits

    async def set_limits(cluster: Any, limits: dict[str, str]) -> None:
        if set(limits.values()) == {source_fence.FENCED_LIMIT}:
            await real(cluster, limits)

    patch.setattr(switching, "set_limits", set_limits)
    patch.setattr(SourceWatch, "_keep_fences", do_nothing)


async def do_nothing(*_: Any) -> None:
    """Do nothing."""


def never_lifts(patch: pytest.MonkeyPatch) -> None:
    """A switch that cannot be done is tried for ever."""
    patch.setattr(Switching, "_lift", do_nothing)


def overlooks_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """A transaction of the source that is open at the switch never ends."""

    async def none_is_open(*_: Any) -> str:
        return ""

    patch.setattr(rules, "_open_transaction", lambda *_: "")
    patch.setattr(switching, "open_at_source", none_is_open)


def has_switches(plan: FaultPlan) -> bool:
    return plan.links.switches > 0


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (reads_ends_once, {"not mirrored"}, 13),
        (believes_the_config, {"not mirrored"}, 52),
        (fences_nothing, {"not mirrored"}, 69),
        (checks_no_ends, {"not mirrored"}, 29),
        (leaves_the_source_fenced, {"not mirrored"}, 8),
        (never_lifts, {"not mirrored"}, 8),
        (overlooks_open_transactions, {"not mirrored", "stuck"}, 32),
    ],
)
def test_the_simulator_finds_it(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(untried(plant), expected, first_seed, monkeypatch, has_switches, links=True)
