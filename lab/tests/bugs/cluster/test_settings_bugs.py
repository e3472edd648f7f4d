"""Planted bugs of the cluster-wide settings; see planted_bugs.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found, put_in_place
from tests.worlds.rule_search import in_rules
from tidegate_coordination.configs import effective
from tidegate_coordination.configs.definition import Definition
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.rules.cluster_settings import NO_GATEWAY, ClusterSettings
from tidegate_pipeline import driver
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.settings_plan import LAG, RETENTION

Layers = Iterator[tuple[int, BrokerLayers]]


def pipeline_ignores_static_settings(patch: pytest.MonkeyPatch) -> None:
    class Deaf(ClusterSettings):
        def _layers_now(self) -> Layers:
            yield NO_GATEWAY, self._layers_of(NO_GATEWAY, {})

    put_in_place(patch, driver, "ClusterSettings", Deaf)


def negative_retention_raises(patch: pytest.MonkeyPatch) -> None:
    """A broker's config value is used without a check."""

    def usable(_definition: Definition, _name: str, text: str, _unit_ms: int) -> str | None:
        return text

    patch.setattr(effective, "_usable", usable)


def goes_by_its_own(patch: pytest.MonkeyPatch) -> None:
    """The gateway that runs housekeeping uses only its own settings."""

    def own(self: ClusterSettings) -> Layers:
        if self._own is None:
            yield from real(self)
        else:
            yield self._own.node_id, self._layers_of(self._own.node_id, self._own.static)

    real = ClusterSettings._layers_now
    patch.setattr(ClusterSettings, "_layers_now", own)


def has(plan: FaultPlan, name: str, *, is_careful: bool) -> bool:
    return any(plan.static.is_careful(each, name) == is_careful for each in plan.static.static)


def is_compacted(plan: FaultPlan) -> bool:
    return plan.pipelines.drivers > 0 and has(plan, LAG, is_careful=True)


def is_kept_and_brief(plan: FaultPlan) -> bool:
    return has(plan, RETENTION, is_careful=True) and has(plan, RETENTION, is_careful=False)


def is_on(plan: FaultPlan) -> bool:
    return bool(plan.static.static)


Concerned = Callable[[FaultPlan], bool]


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned"),
    [
        (pipeline_ignores_static_settings, {"removed too early"}, 4, is_compacted),
        (negative_retention_raises, {"gateway died", "stuck"}, 1, is_on),
        (goes_by_its_own, {in_rules("gateways go by"), "removed too early"}, 16, is_kept_and_brief),
        (goes_by_its_own, {"wrong settings shown"}, 1, is_kept_and_brief),
    ],
)
def test_planted_bug_of_settings_is_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned: Concerned,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned)
