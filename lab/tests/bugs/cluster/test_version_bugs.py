"""The simulator must find bugs of rolling upgrades, and nothing without a bug."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator import committer, drafts
from tidegate_coordination.events import entries
from tidegate_coordination.events.metadata_versions import FIRST, LEVELS, NEWEST
from tidegate_coordination.rules import gateways, metadata_versions
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state import cluster, snapshot_head
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.folds import cluster as cluster_folds
from tidegate_coordination.state.tables import StateTables
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.version_plan import DAMAGE_KIND, LATE_KIND, UPGRADE_KIND
from tidegate_simulation.run import plan_of, simulate


def raises_whoever_lives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata_versions, "why_not", lambda state, version: "")


def writes_the_new_format_before_the_raise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(committer, "LEVELS", {**LEVELS, 1: LEVELS[2]})


def takes_new_snapshots_before_the_raise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot_head, "LEVELS", dict.fromkeys(LEVELS, LEVELS[NEWEST]))


def writes_new_fields_before_the_raise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gateways, "OWN_PRODUCER_IDS", 1)
    patch.setattr(drafts, "needed_for", lambda events: 1)


def checks_no_checksum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entries, "_check", lambda payload, position: None)


def lets_older_gateways_in(patch: pytest.MonkeyPatch) -> None:
    def go_to_version(state: StateTables, version: int) -> None:
        state.metadata_version = version

    real = Register.decide

    def decide(self: Register, view: Any) -> Any:
        version, view.state.metadata_version = view.state.metadata_version, 1
        try:
            return real(self, view)
        finally:
            view.state.metadata_version = version

    for each in (cluster, cluster_folds):
        patch.setattr(each, "go_to_version", go_to_version)
    patch.setattr(ClusterState, "entry_formats", range(1, 3))
    patch.setattr(Register, "decide", decide)


def upgrades(plan: FaultPlan) -> bool:
    return UPGRADE_KIND in plan.kinds


def upgrades_from_the_first(plan: FaultPlan) -> bool:
    return upgrades(plan) and plan.versions.older == FIRST


def upgrades_from_the_last_but_one(plan: FaultPlan) -> bool:
    return upgrades(plan) and plan.versions.older == NEWEST - 1


def has_late(plan: FaultPlan) -> bool:
    return LATE_KIND in plan.kinds


def damages(plan: FaultPlan) -> bool:
    return DAMAGE_KIND in plan.kinds


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "concerned"),
    [
        (
            raises_whoever_lives,
            {in_rules("left behind"), "left behind", "gateway died"},
            31,
            upgrades,
        ),
        (writes_the_new_format_before_the_raise, {"wrong format"}, 15, upgrades_from_the_first),
        (
            takes_new_snapshots_before_the_raise,
            {in_rules("wrong format"), "wrong format"},
            15,
            upgrades,
        ),
        (
            writes_new_fields_before_the_raise,
            {in_rules("above its level"), "above its level"},
            131,
            upgrades,
        ),
        (checks_no_checksum, {"invariant 5", "gateway died"}, 81, damages),
        (
            lets_older_gateways_in,
            {in_rules("left behind"), "left behind", "not refused"},
            15,
            has_late,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_rolling_upgrades_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    concerned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, concerned)


@pytest.mark.parametrize(
    "concerned", [upgrades_from_the_first, upgrades_from_the_last_but_one, has_late, damages]
)
def test_seeds_with_upgrades_and_with_damage_find_nothing(concerned: Any) -> None:
    for seed in [seed for seed in range(1, 200) if concerned(plan_of(seed))][:1]:
        report = simulate(seed, 60)
        assert not report.violations, report.replay
