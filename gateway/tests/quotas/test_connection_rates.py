"""How fast connections are opened (KIP-612)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.quotas.quota_world import set_quota
from tests.worlds.wire_client import Closed, WireWorld, wire_world
from tidegate_coordination.state.security.quotas import ClientQuotaTable
from tidegate_gateway.client_door import connection_overrides
from tidegate_gateway.quotas.connection_rates import ConnectionRates
from tidegate_gateway.quotas.rates import Windows
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.doors.slots import ConnectionSlots
from tidegate_runtime.settings_texts import SettingsError


async def is_served(world: WireWorld, host: str) -> bool:
    try:
        await world.connect(host).call("ApiVersions", 2, None)
    except Closed:
        return False
    return True


async def test_an_address_above_its_quota_is_held_and_closed(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        admin = world.connect()
        await set_quota(admin, {"ip": "10.0.0.1"}, connection_creation_rate=1)
        await set_quota(admin, {"ip": None}, connection_creation_rate=2)
        begun = trio.current_time()
        assert [await is_served(world, "10.0.0.1") for _ in range(10)] == [True] * 10
        assert trio.current_time() == begun
        assert not await is_served(world, "::ffff:10.0.0.1")
        assert trio.current_time() - begun == 1.0
        # Other addresses have the default quota, and each address is counted separately.
        assert [await is_served(world, "10.0.0.2") for _ in range(21)] == [True] * 20 + [False]
        assert await is_served(world, "10.0.0.3")
        await trio.sleep(11)
        assert await is_served(world, "10.0.0.1")


async def test_accepting_pauses_while_connections_come_too_fast(
    autojump_clock: MockClock,
) -> None:
    rates = ConnectionRates(ClientQuotaTable(), Windows(), 2)
    begun, count = trio.current_time(), 0
    while trio.current_time() - begun < 60:
        count += 1
        await trio.sleep(0.001 + rates.pause())
    assert 0.95 * 120 < count < 1.2 * 120 + 20
    free = ConnectionRates(ClientQuotaTable(), Windows(), 2**31 - 1)
    assert not any(free.pause() for _ in range(1_000))


def test_bounds_of_some_addresses() -> None:
    settings = BrokerSettings(
        {"max.connections.per.ip.overrides": "10.0.0.1:1, ::1:2,[0:0::2]:3", "node.id": "1"}
    )
    overrides = connection_overrides(settings)
    assert overrides == {"10.0.0.1": 1, "::1": 2, "::2": 3}
    slots = ConnectionSlots(100, 0, overrides)

    def enters(host: str) -> bool:
        return slots.enter(host, lambda: None) is not None

    assert [enters("::ffff:10.0.0.1") for _ in range(2)] == [True, False]
    assert [enters("::1") for _ in range(3)] == [True, True, False]
    assert not enters("10.0.0.9")
    assert not connection_overrides(BrokerSettings({"node.id": "1"}))
    for wrong in ("10.0.0.1", "host:1", "10.0.0.1:x"):
        with pytest.raises(SettingsError):
            connection_overrides(BrokerSettings({"max.connections.per.ip.overrides": wrong}))
