"""A gateway far from the log makes progress beside busy gateways near to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from trio.testing import MockClock

from tests.coordinator.test_contention import RacedLog, raced
from tests.worlds.forwarding_world import World, forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.forwarding.contention import ENOUGH, Contention
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, Trimmed
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds

FAR_SECONDS = 0.3
BUSY_SECONDS = 0.03
PATIENCE_SECONDS = 5.0


@dataclass
class FarLog(RacedLog):
    """A slow log.  lag_seconds: the round-trip time of each call."""

    lag_seconds: float = 0.0

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await trio.sleep(self.lag_seconds / 2)
        result = await super().append(position, payload)
        await trio.sleep(self.lag_seconds / 2)
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await trio.sleep(self.lag_seconds / 2)
        entries = await super().read(from_position, max_bytes)
        await trio.sleep(self.lag_seconds / 2)
        return entries


def _unexpected(failure: Failure) -> None:
    raise AssertionError(failure)


async def _is_busy(gateway: Coordinator) -> None:
    while True:
        await gateway.propose(Renew())
        await trio.sleep(BUSY_SECONDS)


@asynccontextmanager
async def beside_busy_ones(*, leads: bool) -> AsyncIterator[Coordinator]:
    """Start three gateways; yield the gateway that is far from the log.

    leads: whether the far gateway is the leader.
    """
    async with forwarding_world() as world:
        logs = {each: FarLog(world.log) for each in (1, 2, 3)}
        for node_id, log in logs.items():
            await world.start(node_id, log=log, contention=Contention())
        await world.settle()
        chosen = leader(world.gateways[1].state)
        assert chosen is not None
        far = next(each for each in logs if (each == chosen.node_id) is leads)
        logs[far].lag_seconds = FAR_SECONDS
        _make_busy(world, (each for each in logs if each != far))
        yield world.gateways[far]


def _make_busy(world: World, node_ids: Iterable[int]) -> None:
    for each in node_ids:
        world.nursery.start_soon(_is_busy, world.gateways[each])


@pytest.mark.slow
@pytest.mark.parametrize("leads", [False, True])
async def test_a_slow_gateway_answers_in_order_and_soon(
    leads: bool, autojump_clock: MockClock
) -> None:
    told: list[tuple[int, float]] = []

    async with beside_busy_ones(leads=leads) as far:

        def submit(number: int, at: float) -> None:
            far.submit(
                ReserveProducerIds(1),
                lambda _: told.append((number, trio.current_time() - at)),
                _unexpected,
            )

        for number in range(1000):
            submit(number, trio.current_time())
            await trio.sleep(0.1)
        await trio.sleep(PATIENCE_SECONDS)
    assert [number for number, _ in told] == list(range(1000))
    assert max(seconds for _, seconds in told) < PATIENCE_SECONDS


@pytest.mark.parametrize("leads", [False, True])
async def test_a_slow_gateway_proves_that_it_has_reached_the_logs_end(
    leads: bool, autojump_clock: MockClock
) -> None:
    """The proof succeeds although each read finds new entries."""
    async with beside_busy_ones(leads=leads) as far:
        for _ in range(5):
            with trio.fail_after(2 * PATIENCE_SECONDS):
                await far.catch_up()


async def test_a_slow_gateway_can_register(autojump_clock: MockClock) -> None:
    async with forwarding_world() as world:
        for node_id in (1, 2):
            await world.start(node_id, contention=Contention())
        await world.settle()
        _make_busy(world, (1, 2))
        with trio.fail_after(PATIENCE_SECONDS):
            await world.start(
                3, log=FarLog(world.log, lag_seconds=FAR_SECONDS), contention=Contention()
            )


async def test_a_proposal_that_has_a_number_keeps_its_place_in_a_handover(
    autojump_clock: MockClock,
) -> None:
    """The proposal has a number because its gateway appended for another gateway meanwhile."""
    async with forwarding_world() as world:
        race = await raced(world)
        told: list[str] = []
        race.log.races = ENOUGH
        race.slow.submit(ReserveProducerIds(1), lambda _: told.append("first"), _unexpected)
        race.slow.submit_here(Renew(), lambda _: None, _unexpected)
        race.slow.submit(ReserveProducerIds(1), lambda _: told.append("second"), _unexpected)
        await trio.sleep(PATIENCE_SECONDS)
        assert forwarder(race.slow).counters.asked
        assert told == ["first", "second"]


@pytest.mark.parametrize("leads", [False, True])
async def test_a_starting_gateway_without_a_peers_answer_registers_by_itself(
    leads: bool, autojump_clock: MockClock
) -> None:
    """The gateway does so even after a handover. leads: whether there is a gateway to ask."""
    async with forwarding_world() as world:
        await world.start(1, leads=leads)
        await world.settle()
        world.links.down.add(1)
        contention = Contention()
        contention.leave_it()
        assert (await world.start(2, contention=contention)).incarnation == 2
