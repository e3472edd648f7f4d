"""A transaction that is open for too long ends soon, even if gateways were restarted."""

from __future__ import annotations

from random import Random

import trio
from trio.testing import MockClock

from tests.worlds.transaction_client import T, end_offset, write
from tests.worlds.wire_client import NOW_MS, WireClient, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, TakeClaim
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.upkeep.housekeeper import CLAIM
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import init_producer_id as ip

TIME_OUT_SECONDS = 5
# The timeout, then the time until a renewal moves log time past it, then one check interval.
SOON_SECONDS = TIME_OUT_SECONDS + 6 + 10 + 1
COMMITTED = 1


async def open_transaction(client: WireClient, topic_id: bytes) -> None:
    request = ip.InitProducerIdRequest("x", TIME_OUT_SECONDS * 1000)
    answer = await client.call("InitProducerId", 5, request)
    producer = (answer.producer_id, answer.producer_epoch)
    assert await write(client, topic_id, producer, 0) == E.NONE


async def test_a_gateway_that_was_just_started_aborts_what_is_overdue(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        topic_id = await world.create_topic(T, 1)
        client = world.connect()
        await open_transaction(client, topic_id)
        assert await end_offset(client, COMMITTED) == 0
        await trio.sleep(SOON_SECONDS)
        assert await end_offset(client, COMMITTED) == 2


async def test_another_live_housekeeper_does_it_alone(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    async with wire_world(log=log) as world, trio.open_nursery() as nursery:
        other = Coordinator(
            log,
            ClusterState(),
            rng=Random(9),
            wall_clock=lambda: NOW_MS / 1000 + trio.current_time(),
        )
        nursery.start_soon(other.run)
        registration = Register(2, "other key", "az1", (), "0", "c", highest_version=NEWEST)
        answer = await other.propose(registration)
        assert isinstance(answer, int)
        other.incarnation = answer
        assert await other.propose(TakeClaim(CLAIM)) is not None
        await world.gateway.coordinator.catch_up()
        assert not world.gateway.keepers.housekeeper.may_expire_here()
        await other.leave()
        await world.gateway.coordinator.catch_up()
        assert world.gateway.keepers.housekeeper.may_expire_here()
        nursery.cancel_scope.cancel()
