"""The zones of a partition's replicas do not change while a gateway does not answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.events.cluster import Endpoint, GatewayDraining, GatewayRegistered
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps

ZONES = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
TOPIC = Topic(bytes(16), "orders", list(range(24)), 3, {})


def replica_zones(zone: str, absent: frozenset[int]) -> list[set[str]]:
    state = ClusterState()
    for number, home in ZONES.items():
        endpoints = (Endpoint("A", "host", number),)
        event = GatewayRegistered(number, number, f"k{number}", home, endpoints, "0", 0)
        state.gateways.fold_registered(event, 0)
    view = ClusterView(state, ZoneFinder(zone_maps(BrokerSettings()), state.gateways))
    before = view.of("A", zone).placements(TOPIC)
    view = ClusterView(
        state, ZoneFinder(zone_maps(BrokerSettings()), state.gateways), lambda: absent
    )
    after = view.of("A", zone).placements(TOPIC)
    assert not {each.leader for each in after} & absent
    assert all({ZONES[each] for each in placed.replicas} == {"a", "b", "c"} for placed in before)
    return [{ZONES[each] for each in placed.replicas} for placed in after]


@pytest.mark.parametrize("zone", ["", "a", "b", "c"])
@pytest.mark.parametrize("absent", [{5}, {1}, {3, 4}, {3, 4, 5}])
def test_a_zone_whose_gateways_do_not_answer_stays_one_of_the_replicas(
    zone: str, absent: set[int]
) -> None:
    assert replica_zones(zone, frozenset(absent)) == [{"a", "b", "c"}] * 24


async def test_metadata_names_every_leader_as_a_broker(autojump_clock: MockClock) -> None:
    """All gateways of a listener drain, but a gateway with another listener does not."""
    state = ClusterState()
    for number, listener in ((1, "A"), (2, "A"), (3, "B")):
        endpoint = (Endpoint(listener, "host", number),)
        event = GatewayRegistered(number, number, f"k{number}", "a", endpoint, "0", 0)
        state.gateways.fold_registered(event, 0)
    zones = ZoneFinder(zone_maps(BrokerSettings()), state.gateways)
    view = ClusterView(state, zones, farewell_seconds=4.0)
    for number in (1, 2):
        state.gateways.fold_draining(GatewayDraining(number))
        view.look(set())
        await trio.sleep(5)
        shown = view.of("A")
        assert set(shown.leaders) <= {each.node_id for each in shown.brokers}
