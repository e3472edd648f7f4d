"""The coordinator's loop: group commit, conflicts, unknown outcomes, barriers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
    ProposalFailed,
)
from tidegate_coordination.coordinator.drafts import Draft
from tidegate_coordination.events.cluster import Endpoint, TopicCreated
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import MetadataLog, Trimmed
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import ExpireGateways, NodeIdTaken, Register, Renew
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.proposal import NOTHING, TOPICS, Decided, View
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.changes import EVERY_ENTRY
from tidegate_coordination.state.cluster import ClusterState


def registration(node_id: int, key: str = "key") -> Register:
    return Register(node_id, key, "az1", (Endpoint("PLAINTEXT", "h", 1),), "0", "cluster")


def unexpected(failure: Failure) -> None:
    raise AssertionError(failure)


def make(log: MetadataLog, seed: int = 0, clock: float = 1_000_000.0) -> Coordinator:
    return Coordinator(
        log, ClusterState(), rng=Random(seed), wall_clock=lambda: clock, deadline_seconds=30
    )


async def begin(coordinator: Coordinator, node_id: int, key: str = "key") -> int:
    answer = await coordinator.propose(registration(node_id, key))
    assert isinstance(answer, int)
    return answer


@asynccontextmanager
async def running(*coordinators: Coordinator) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for each in coordinators:
            nursery.start_soon(each.run)
        yield
        nursery.cancel_scope.cancel()


async def replayed(log: MetadataLog) -> ClusterState:
    state = ClusterState()
    entries = await log.read(1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    for each in entries:
        state.apply(each.position, decode_entry(each.payload, each.position))
    return state


@dataclass(frozen=True)
class CreateTopic:
    """The smallest proposal with an event."""

    name: str
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=frozenset({TOPICS}), init=False)

    def decide(self, view: View) -> Decided[bool]:
        if self.name in view.state.topics.by_name:
            return Decided((), False)
        topic_id = self.name.encode().ljust(16, b"\0")
        return Decided((TopicCreated(topic_id, self.name, 1, 1, {}),), True)


@dataclass(frozen=True)
class Explodes:
    reads: frozenset[str] = field(default=NOTHING, init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[None]:
        raise ZeroDivisionError("planted")


async def test_proposals_that_wait_together_share_an_entry(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    coordinator = make(log)
    answers: list[int] = []
    for count in (5, 7):
        coordinator.submit(Renew(), lambda _: None, unexpected)
        coordinator.submit(ReserveProducerIds(count), answers.append, unexpected)
    async with running(coordinator):
        await coordinator.catch_up()
        await coordinator.catch_up()
    # The second reservation reads what the first wrote, so it waits for the second entry.
    assert answers == [0, 5]
    assert coordinator.state.position == 2
    assert coordinator.state.encode() == (await replayed(log)).encode()


async def test_two_gateways_race_and_agree(autojump_clock: trio.testing.MockClock) -> None:
    log = MemoryLog()
    one, other = make(log, 1), make(log, 2)
    created: list[bool] = []
    async with running(one, other):
        await begin(one, 1)
        await begin(other, 2)

        async def create(coordinator: Coordinator, names: Sequence[str]) -> None:
            for name in names:
                created.append(await coordinator.propose(CreateTopic(name)))

        names = [f"topic-{number}" for number in range(20)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, one, names)
            nursery.start_soon(create, other, names)
        await one.catch_up()
        await other.catch_up()
    assert created.count(True) == 20
    assert one.state.encode() == other.state.encode() == (await replayed(log)).encode()


@pytest.mark.parametrize("seed", range(30))
async def test_appends_with_unknown_outcomes_are_repeated(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    log = MemoryLog()
    faults = LogFaults(ambiguous_append=0.3, lost_append=0.3, late_append=0.2, read_error=0.2)
    one = make(FaultyLog(log, faults, Random(seed)), seed)
    other = make(FaultyLog(log, faults, Random(seed + 1000)), seed + 1000)
    blocks: list[int] = []

    async def reserve(coordinator: Coordinator) -> None:
        for _ in range(10):
            blocks.append(await coordinator.propose(ReserveProducerIds(10)))

    async with running(one, other), trio.open_nursery() as nursery:
        nursery.start_soon(reserve, one)
        nursery.start_soon(reserve, other)
    assert sorted(blocks) == [number * 10 for number in range(20)]
    assert (await replayed(log)).producer_ids.next_id == 200


@pytest.mark.parametrize("delay", range(12))
async def test_a_gateway_notices_entries_of_other_gateways(
    delay: int, autojump_clock: trio.testing.MockClock
) -> None:
    log = MemoryLog()
    one, other = make(log, 1), make(log, 2)
    async with running(one, other):
        for number in range(20):
            await one.propose(CreateTopic(f"t{number}"))
            for _ in range(delay):
                await trio.lowlevel.checkpoint()
        await trio.sleep(0.5)
        assert len(other.state.topics.by_name) == 20
        # The log's wait() reports the entry, not the fallback read once a second.
        grew = trio.Event()
        other.listen(lambda touched: grew.set(), EVERY_ENTRY)
        await one.propose(CreateTopic("last"))
        with trio.fail_after(0.1):
            await grew.wait()


async def test_a_refusal_is_given_only_at_the_logs_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    one, behind = make(log, 1), make(log, 2)
    async with running(one):
        assert await one.propose(CreateTopic("t"))
    behind.submit(CreateTopic("t"), lambda created: answers.append(created), unexpected)
    answers: list[bool] = []
    async with running(behind):
        await behind.catch_up()
    assert answers == [False]


async def test_a_proposal_that_cannot_be_decided_fails_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    coordinator = make(MemoryLog())
    async with running(coordinator):
        with pytest.raises(ProposalFailed, match="planted"):
            await coordinator.propose(Explodes())
        assert await coordinator.propose(CreateTopic("t"))


async def test_a_proposal_larger_than_an_entry_fails_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    coordinator = make(MemoryLog())
    async with running(coordinator):
        with pytest.raises(ProposalFailed, match="larger"):
            await coordinator.propose(CreateTopic("t" * (coordinator.max_entry_bytes + 1)))
        assert await coordinator.propose(CreateTopic("t"))


async def test_callers_of_a_silent_log_fail_at_their_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    coordinator = make(FaultyLog(MemoryLog(), LogFaults(read_error=1, lost_append=1), Random(0)))
    async with running(coordinator):
        started = trio.current_time()
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.catch_up()
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.propose(Renew())
        assert trio.current_time() - started == pytest.approx(60)


async def test_a_registration_supersedes_its_own_key_and_another_key_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    one, other = make(log, 1), make(log, 2)
    async with running(one, other):
        assert await begin(one, 1) == 1
        assert isinstance(await other.propose(registration(1, "other")), NodeIdTaken)
        assert await begin(other, 1) == 2
        assert list(other.state.gateways.live) == [2]


async def test_a_gateway_whose_incarnation_ended_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    old, new = make(log, 1), make(log, 2)
    async with running(new):
        with pytest.RaisesGroup(GatewayFenced, flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(old.run)
                old.incarnation = await begin(old, 1)
                new.incarnation = await begin(new, 1)


class Clock:
    """A wall clock that tests move."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def timed(log: MetadataLog, seed: int, clock: Clock) -> Coordinator:
    return Coordinator(log, ClusterState(), rng=Random(seed), wall_clock=clock)


async def test_a_gateway_whose_unread_entries_were_trimmed_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    ahead, behind = make(log, 1), make(log, 2)
    async with running(ahead):
        for number in range(5):
            await ahead.propose(CreateTopic(f"t{number}"))
        await log.save_snapshot(5, [ahead.state.encode()])
        await log.trim(4)
    with pytest.RaisesGroup(GatewayFenced, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(behind.run)
            await behind.propose(CreateTopic("late"))


async def test_a_silent_log_or_a_leaping_clock_expires_no_lease(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock(1_000_000.0)
    log = MemoryLog()
    one, other = timed(log, 1, clock), make(log, 2, clock.now)
    async with running(one, other):
        one.incarnation = await begin(one, 1)
        await begin(other, 2)
        log_time = one.state.log_time_ms
        clock.now += 3600
        assert await one.propose(ExpireGateways()) == []
        # The other gateway's clock holds log time back, so one wrong clock does not expire records
        # either.
        assert one.state.log_time_ms == log_time


async def test_a_forwarded_proposal_at_the_last_moment_keeps_its_authors_lease(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock(1_000_000.0)
    log = MemoryLog()
    one, other = timed(log, 1, clock), make(log, 2, clock.now)
    async with running(one, other):
        one.incarnation = await begin(one, 1)
        late = await begin(other, 2)
        for _ in range(5):
            clock.now += 7
            await trio.sleep(7)
            await one.propose(Renew())
        assert one.state.gateways.expired() == [late]
        draft: Draft[int] = Draft(
            one.state, one.incarnation, int(clock.now * 1000), max_bytes=1 << 20, may_write=True
        )
        for author, proposal in ((late, Renew()), (one.incarnation, ExpireGateways())):
            assert draft.add(Numbered(author, 1, 0, 0, 0, proposal, repr_bytes), author)
    assert dict(draft.answers)[one.incarnation] == repr_bytes([])


def repr_bytes(answer: object) -> bytes:
    return repr(answer).encode()


async def test_the_lease_of_a_gateway_that_stops_writing_expires(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock(1_000_000.0)
    log = MemoryLog()
    one, other = timed(log, 1, clock), make(log, 2, clock.now)
    async with running(one, other):
        one.incarnation = await begin(one, 1)
        dead = await begin(other, 2)
        for _ in range(5):
            clock.now += 7
            await trio.sleep(7)
            await one.propose(Renew())
        assert await one.propose(ExpireGateways()) == [dead]
        held_back = one.state.log_time_ms
        clock.now += 1
        await one.propose(Renew())
        assert one.state.log_time_ms == held_back + 1000


async def test_a_single_wrong_clock_does_not_move_the_clusters_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock(1_000_000.0)
    ahead_clock = Clock(clock.now + 86_400)
    log = MemoryLog()
    right, ahead = timed(log, 1, clock), timed(log, 2, ahead_clock)
    async with running(right, ahead):
        right.incarnation = await begin(right, 1)
        ahead.incarnation = await begin(ahead, 2)
        await ahead.propose(Renew())
        await right.leave()
        for _ in range(10):
            ahead_clock.now += 5
            await ahead.propose(Renew())
        assert ahead.state.log_time_ms == pytest.approx((clock.now + 50) * 1000, abs=1)
        assert ahead.state.expiry_resumes_at_ms == 0


async def test_the_clock_of_a_lone_gateway_is_trusted_but_expires_nothing_yet(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = Clock(1_000_000.0)
    log = MemoryLog()
    one = timed(log, 1, clock)
    async with running(one):
        one.incarnation = await begin(one, 1)
        assert one.state.expiry_resumes_at_ms == 0
        await one.leave()
    clock.now += 8 * 3600
    again = timed(log, 2, clock)
    async with running(again):
        again.incarnation = await begin(again, 1)
        assert again.state.log_time_ms == clock.now * 1000
        assert again.state.expiry_resumes_at_ms == (clock.now + 3600) * 1000
