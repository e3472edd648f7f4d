"""A gateway that reads through others, while the log is being moved."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
import trio
import trio.testing

from tests.worlds.forwarding_world import CLUSTER, World, forwarding_world
from tests.worlds.move_world import replayed
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.log_move.watch import LogMoveWatch
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.log_moves import BeginLogMove, OfferLog


async def begins(world: World, node_id: int, nursery: trio.Nursery) -> Coordinator:
    """Start a gateway as in production: its watch for moves runs before it registers."""

    async def open_next(_: str) -> MetadataLog:
        await trio.lowlevel.checkpoint()
        pytest.fail("it opens nothing: it reads through others")

    log = MovableLog(world._through_others(), open_next)
    state = await replayed(world.log)
    log.follow(state)
    coordinator = Coordinator(
        log,
        state,
        rng=Random(node_id),
        wall_clock=lambda: 1_000_000.0 + trio.current_time(),
        route=partial(Forwarder, peers=world.links),
    )
    nursery.start_soon(coordinator.run)
    nursery.start_soon(LogMoveWatch(coordinator, log).run)
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    answer = await coordinator.propose(
        Register(node_id, f"key-{node_id}", "az1", endpoints, "0", CLUSTER)
    )
    assert isinstance(answer, int)
    coordinator.incarnation = answer
    return coordinator


async def test_a_gateway_that_starts_while_a_move_is_offered_follows_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world, trio.open_nursery() as nursery:
        first = await world.start(1)
        await first.propose(BeginLogMove("m"))
        await first.propose(OfferLog("m", "b", "m"))
        coordinator = await begins(world, 9, nursery)
        await trio.sleep(10)
        await first.catch_up()
        move = first.state.log_moves.present
        assert move is not None
        assert move.answers == {coordinator.incarnation: ""}
        assert [each.node_id for each in first.state.gateways.brokers()] == [1, 9]
        nursery.cancel_scope.cancel()
