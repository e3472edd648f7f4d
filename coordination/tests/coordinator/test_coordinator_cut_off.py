"""When the coordinator reports that the gateway is cut off from the log."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.liveness import CUT_OFF_SHARE
from tidegate_coordination.events.cluster import Endpoint, Event, GatewayExpired, GatewayRenewed
from tidegate_coordination.events.entries import encode_entry, encode_events
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, LogUnavailable, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, Renew
from tidegate_coordination.state.cluster import ClusterState

LEASE_SECONDS = 30.0


class HeldLog(MemoryLog):
    """A log that answers no read while it is held, and no append until `appends` is set.

    pages: how many reads it still answers, with one entry each; None: it answers all, whole.

    loses_answer: the next append takes effect, but its answer is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.pages: int | None = None
        self.loses_answer = False
        self.appends = trio.Event()
        self.appends.set()

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        if self.is_held or self.pages == 0:
            await trio.sleep_forever()
        entries = await super().read(from_position, max_bytes)
        if self.pages is None or isinstance(entries, Trimmed):
            return entries
        self.pages -= 1
        return entries[:1]

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if self.loses_answer:
            self.loses_answer = False
            self.appends = trio.Event()
            await super().append(position, payload)
            raise LogUnavailable("the answer was lost")
        await self.appends.wait()
        return await super().append(position, payload)

    async def append_of_another(self, writer: int, event: Event | None = None) -> None:
        events = encode_events([event or GatewayRenewed(0)])
        await super().append(self._end, encode_entry(b"n" * 12, writer, 0, events))


async def two_gateways(coordinator: Coordinator) -> None:
    """Register the coordinator's gateway, and another one, whose incarnation is 2."""
    first = await coordinator.propose(registration(1))
    assert isinstance(first, int)
    await coordinator.propose(registration(2))
    coordinator.incarnation = first
    await wait_all_tasks_blocked()


def registration(node_id: int) -> Register:
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    return Register(node_id, f"key-{node_id}", "", endpoints, "0", "c", int(LEASE_SECONDS * 1000))


async def test_a_gateway_that_stood_still_is_not_cut_off_before_the_log_can_answer(
    mock_clock: MockClock,
) -> None:
    """A gateway reads the log each second, so only a stopped process has no answer for so long."""
    log = HeldLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await two_gateways(coordinator)
        log.is_held = True
        mock_clock.jump(10 * LEASE_SECONDS)
        await wait_all_tasks_blocked()
        assert not coordinator.is_cut_off
        mock_clock.jump(CUT_OFF_SHARE * LEASE_SECONDS - 0.1)
        assert not coordinator.is_cut_off
        mock_clock.jump(0.2)
        assert coordinator.is_cut_off
        nursery.cancel_scope.cancel()


async def test_after_a_conflict_a_gateway_is_cut_off_until_it_has_read_the_entries(
    mock_clock: MockClock,
) -> None:
    """CONFLICT does not show the entry at the position, which may have ended the lease."""
    log = HeldLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await two_gateways(coordinator)
        log.appends = trio.Event()
        coordinator.submit(Renew(), lambda _: None, lambda _: None)
        await wait_all_tasks_blocked()
        mock_clock.jump(2 * LEASE_SECONDS)
        assert coordinator.is_cut_off
        await log.append_of_another(2)
        log.is_held = True
        log.appends.set()
        await wait_all_tasks_blocked()
        assert coordinator.is_cut_off
        nursery.cancel_scope.cancel()


async def test_a_gateway_that_has_read_the_whole_log_is_no_longer_cut_off(
    mock_clock: MockClock,
) -> None:
    log = HeldLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await two_gateways(coordinator)
        log.appends = trio.Event()
        coordinator.submit(Renew(), lambda _: None, lambda _: None)
        await wait_all_tasks_blocked()
        mock_clock.jump(2 * LEASE_SECONDS)
        await log.append_of_another(2)
        log.appends.set()
        await wait_all_tasks_blocked()
        assert not coordinator.is_cut_off
        nursery.cancel_scope.cancel()


async def test_a_gateway_that_has_read_a_part_of_the_log_is_still_cut_off(
    mock_clock: MockClock,
) -> None:
    log = HeldLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await two_gateways(coordinator)
        log.appends = trio.Event()
        coordinator.submit(Renew(), lambda _: None, lambda _: None)
        await wait_all_tasks_blocked()
        mock_clock.jump(2 * LEASE_SECONDS)
        for _ in range(3):
            await log.append_of_another(2)
        log.pages = 1
        log.appends.set()
        await wait_all_tasks_blocked()
        assert not log.pages
        assert coordinator.is_cut_off
        nursery.cancel_scope.cancel()


async def test_a_gateway_reads_the_entry_that_fenced_it_before_it_answers(
    mock_clock: MockClock,
) -> None:
    log = HeldLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=trio.current_time)
    answers: list[None] = []
    with pytest.RaisesGroup(GatewayFenced, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(coordinator.run)
            await two_gateways(coordinator)
            log.loses_answer = True
            coordinator.submit(Renew(), answers.append, lambda _: None)
            await wait_all_tasks_blocked()
            await log.append_of_another(2, GatewayExpired(coordinator.incarnation))
            log.appends.set()
            mock_clock.jump(1.0)
            await trio.sleep_forever()
    assert not answers
