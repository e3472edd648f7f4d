"""A gateway with too many lost appends hands its proposals over in order, and returns later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.forwarding_world import World, forwarder, forwarding_world
from tidegate_coordination.coordinator import loop
from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.events.cluster import ClaimTaken
from tidegate_coordination.events.entries import authored, decode_entry
from tidegate_coordination.forwarding import codec, contention
from tidegate_coordination.forwarding.asking import ASK_SECONDS
from tidegate_coordination.forwarding.contention import (
    ENOUGH,
    FIRST_SECONDS,
    MOST_DOUBLINGS,
    Contention,
)
from tidegate_coordination.forwarding.forwarder import SERVING_SECONDS
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.log import access as log_access
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Renew, TakeClaim
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds


@dataclass
class RacedLog:
    """The world's log for a gateway that appends too late.

    races: how many more appends it loses.
    """

    log: MemoryLog
    rival: Coordinator | None = None
    races: int = 0
    is_deaf: bool = False
    told: trio.Event | None = None
    when_told: Callable[[], None] | None = None

    @property
    def capabilities(self) -> LogCapabilities:
        return self.log.capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if self.rival is not None and self.races:
            self.races -= 1
            await self.rival.propose(Renew())
        return await self.log.append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self.log.read(from_position, max_bytes)

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        if self.is_deaf:
            await trio.sleep(timeout_seconds * 1000)
        if self.told is not None and self.when_told is not None:
            await self.told.wait()
            self.told = None
            self.when_told()
            return
        await self.log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self.log.save_snapshot(position, chunks)

    async def load_snapshot(self) -> Snapshot | None:
        return await self.log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        await self.log.trim(before_position)

    async def aclose(self) -> None:
        await self.log.aclose()


@dataclass
class Race:
    slow: Coordinator
    leads: Coordinator
    log: RacedLog


async def raced(world: World) -> Race:
    """Three gateways that append by themselves; `slow` loses appends and is not the leader."""
    log = RacedLog(world.log)
    first = await world.start(1, contention=Contention())
    second = await world.start(2, contention=Contention())
    slow = await world.start(3, leads=False, log=log, contention=Contention())
    await world.settle()
    found = leader(slow.state)
    assert found is not None
    leads = world.gateways[found.node_id]
    log.rival = second if leads is first else first
    return Race(slow, leads, log)


def _unexpected(failure: Failure) -> None:
    raise AssertionError(failure)


async def test_a_gateway_that_wins_some_races_appends_by_itself(autojump_clock: MockClock) -> None:
    async with forwarding_world() as world:
        race = await raced(world)
        for _ in range(5):
            race.log.races = ENOUGH - 1
            await race.slow.propose(ReserveProducerIds(1))
        assert forwarder(race.slow).counters.asked == 0
        assert race.slow.lost_conflicts == 5 * (ENOUGH - 1)
        assert not any(events for _, events in await world.entries())


async def test_after_three_lost_races_a_gateway_forwards_to_another(
    autojump_clock: MockClock,
) -> None:
    async with forwarding_world() as world:
        race = await raced(world)
        firsts: list[int] = []
        race.log.races = 1000
        for _ in range(5):
            race.slow.submit(ReserveProducerIds(10), firsts.append, _unexpected)
        assert await race.slow.propose(ReserveProducerIds(10)) == 50
        assert firsts == [0, 10, 20, 30, 40]
        assert race.slow.lost_conflicts == ENOUGH
        races = forwarder(race.slow).contention
        assert races is not None
        assert races.handovers == 1
        entries = await world.entries()
        assert {writer for writer, events in entries if events} == {race.leads.incarnation}
        # no append: it asks the leader at once
        assert await race.slow.propose(ReserveProducerIds(10)) == 60
        assert race.slow.lost_conflicts == ENOUGH


async def test_a_gateway_that_handed_over_appends_by_itself_again_later(
    autojump_clock: MockClock,
) -> None:
    async with forwarding_world() as world:
        race = await raced(world)
        race.log.races = ENOUGH
        await race.slow.propose(ReserveProducerIds(10))
        await trio.sleep(FIRST_SECONDS + 0.1)
        asked = forwarder(race.slow).counters.asked
        assert await race.slow.propose(ReserveProducerIds(10)) == 10
        assert forwarder(race.slow).counters.asked == asked


async def test_later_proposals_wait_for_those_handed_over(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if they arrive when the gateway may append again, before the answer."""
    monkeypatch.setattr(contention, "FIRST_SECONDS", ASK_SECONDS / 2)
    async with forwarding_world() as world:
        race = await raced(world)
        world.links.faults["question lost"] = 1.0
        told: list[tuple[int, int]] = []

        def note(submitted: int, first: int) -> None:
            told.append((submitted, first))

        race.log.races = ENOUGH
        for submitted in range(8):
            race.slow.submit(ReserveProducerIds(1), partial(note, submitted), _unexpected)
            await trio.sleep(ASK_SECONDS / 5)
        world.links.faults.clear()
        await race.slow.propose(ReserveProducerIds(1))
        assert told == [(each, each) for each in range(8)]


async def test_without_a_peer_a_gateway_appends_by_itself(autojump_clock: MockClock) -> None:
    async with forwarding_world() as world:
        log = RacedLog(world.log)
        rival = await world.start(1, leads=False, contention=Contention())
        slow = await world.start(2, leads=False, log=log, contention=Contention())
        log.rival, log.races = rival, 3 * ENOUGH
        assert await slow.propose(ReserveProducerIds(10)) == 0
        assert slow.lost_conflicts == 3 * ENOUGH
        assert forwarder(slow).counters.asked == 0


async def test_catching_up_is_proven_though_all_was_handed_over(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_access, "READ_BYTES", 1)  # one entry for each read
    async with forwarding_world() as world:
        race = await raced(world)
        race.log.is_deaf = True
        await race.slow.propose(ReserveProducerIds(1))
        await trio.sleep(loop.WATCH_SECONDS)
        for _ in range(20):
            await race.leads.propose(ReserveProducerIds(1))
        race.log.races = ENOUGH
        race.slow.submit(ReserveProducerIds(1), lambda _: None, _unexpected)
        await race.slow.catch_up()
        assert race.slow.state.position >= race.leads.state.position


async def test_if_no_peer_answers_a_gateway_appends_by_itself(autojump_clock: MockClock) -> None:
    async with forwarding_world() as world:
        race = await raced(world)
        world.links.down |= {1, 2}
        race.log.races = ENOUGH
        assert await race.slow.propose(ReserveProducerIds(1)) == 0
        assert forwarder(race.slow).counters.unanswered


async def test_the_time_of_forwarding_grows_if_races_are_lost_again(
    autojump_clock: MockClock,
) -> None:
    races = Contention()
    for expected in (0, 1, 2, 3, 4, 5, 5):
        for _ in range(ENOUGH - 1):
            assert not races.lost()
        assert races.lost()
        assert not races.holds
        races.leave_it()
        await trio.sleep(FIRST_SECONDS * 2**expected - 0.1)
        assert races.holds
        await trio.sleep(0.2)
        assert not races.holds
    await trio.sleep(FIRST_SECONDS * 2**MOST_DOUBLINGS)
    races.leave_it()
    await trio.sleep(FIRST_SECONDS + 0.1)
    assert not races.holds


async def test_a_gateway_that_has_not_read_to_the_end_reads_before_it_appends(
    autojump_clock: MockClock,
) -> None:
    """Without that read its append would meet an entry that is already in the log."""
    async with forwarding_world() as world:
        race = await raced(world)
        told, answered, firsts = trio.Event(), trio.Event(), list[int]()

        def note(first: int) -> None:
            firsts.append(first)
            answered.set()

        race.log.told = told
        race.log.when_told = lambda: race.slow.submit(ReserveProducerIds(1), note, _unexpected)
        await trio.sleep(2 * loop.WATCH_SECONDS)
        await race.leads.propose(ReserveProducerIds(10))
        told.set()
        await answered.wait()
        assert firsts == [10]
        assert race.slow.lost_conflicts == 0


async def test_an_event_shows_its_author(autojump_clock: MockClock) -> None:
    """A proposal without a number never shares an entry with a numbered one before it."""
    async with forwarding_world() as world:
        race = await raced(world)
        author = race.slow.incarnation
        both = race.leads
        numbered = Numbered(author, 1, 0, 0, 0, Renew(), codec.encode)
        both.submit_here(numbered, lambda _: None, _unexpected)
        both.submit_here(TakeClaim("c"), lambda _: None, _unexpected)
        await both.catch_up()
        found = await world.log.read(1, 1 << 30)
        assert isinstance(found, list)
        entries = [decode_entry(each.payload, each.position) for each in found]
        claims = [
            who
            for each in entries
            for who, event in authored(each)
            if isinstance(event, ClaimTaken)
        ]
        assert claims == [both.incarnation]


async def test_a_gateway_that_appends_for_others_numbers_its_own_proposals(
    autojump_clock: MockClock,
) -> None:
    """With numbers, its own proposals can share an entry with those of other gateways."""
    async with forwarding_world() as world:
        race = await raced(world)
        race.log.races = ENOUGH
        await race.slow.propose(Renew())
        await race.leads.propose(Renew())
        await trio.sleep(SERVING_SECONDS)
        await race.leads.propose(Renew())
        authors = [each.incarnation for _, events in await world.entries() for each in events]
        assert authors == [race.slow.incarnation, race.leads.incarnation]
