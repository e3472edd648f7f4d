"""The simulator must find bugs of zones, and nothing without a bug."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.state.writers.gateways import GatewayTable
from tidegate_gateway.zones.client_racks import ClientRacks
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.read_steering import Elsewhere, ReadSteering
from tidegate_simulation.plans.gateways.zone_plan import has_zones
from tidegate_simulation.run import simulate


def leads_from_another_zone(patch: pytest.MonkeyPatch) -> None:
    real = ClusterView.of
    next_zone = {"zone-1": "zone-2", "zone-2": "zone-3", "zone-3": "zone-1"}

    def of(self: Any, listener: str, zone: str = "") -> Any:
        return real(self, listener, next_zone.get(zone, zone))

    patch.setattr(ClusterView, "of", of)


def recommends_who_drains(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GatewayTable, "serving", lambda self: self.brokers())


def remembers_a_zone_though_connections_disagree(patch: pytest.MonkeyPatch) -> None:
    real = ClientRacks.of

    def of(self: Any, peer: Any, client_id: str) -> str:
        racks = self._said.get((client_id, peer.host))
        return real(self, peer, client_id) or (max(racks) if racks else "")

    patch.setattr(ClientRacks, "of", of)


def sends_consumers_away_from_home(patch: pytest.MonkeyPatch) -> None:
    real = ReadSteering.of

    def of(self: Any, call: Any, rack: str) -> Any:
        self._own_zone = ""
        return real(self, call, rack)

    patch.setattr(ReadSteering, "of", of)


def sends_consumers_to_the_leader(patch: pytest.MonkeyPatch) -> None:
    def preferred(self: Any, topic: Any, index: int) -> int:
        leader: int = self._shown.placements(topic)[index].leader
        return leader

    patch.setattr(Elsewhere, "preferred", preferred)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (leads_from_another_zone, {"wrong zone"}, 11),
        (recommends_who_drains, {in_rules("take new work"), "wrong zone"}, 354),
        (remembers_a_zone_though_connections_disagree, {"zone remembered"}, 11),
        (sends_consumers_away_from_home, {"wrong zone"}, 67),
        (sends_consumers_to_the_leader, {"wrong zone"}, 11),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_zones_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch)


def test_seeds_that_ask_for_zones_find_nothing() -> None:
    seeds = [seed for seed in range(1, 60) if has_zones(seed)][:7]
    moved = asked = 0
    for seed in seeds:
        report = simulate(seed, 60)
        assert not report.violations, report.replay
        moved += report.landed.counts.get("zone.moved", 0)
        asked += report.landed.counts.get("zone.asked", 0)
    assert moved
    assert asked
