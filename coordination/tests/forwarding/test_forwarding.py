"""Forwarding: one gateway appends for all, and every proposal is committed once."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.forwarding_world import LATE_SECONDS, World, forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
)
from tidegate_coordination.events.cluster import GatewayRegistered
from tidegate_coordination.forwarding import codec
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.forwarding.messages import VERSION, Ask, Sent
from tidegate_coordination.forwarding.service import OtherCluster
from tidegate_coordination.log.metadata_log import LogEntry, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Renew, StartDraining, TakeClaim
from tidegate_coordination.rules.numbered import NotDecided, Numbered
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import (
    Created,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    Refused,
    TopicKey,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName


async def started(world: World, count: int) -> Coordinator:
    """Start gateways; return the one that leads."""
    for node_id in range(1, count + 1):
        await world.start(node_id)
    await world.settle()
    found = leader(world.gateways[1].state)
    assert found is not None
    return world.gateways[found.node_id]


async def test_one_gateway_appends_for_all(autojump_clock: trio.testing.MockClock) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 4)
        firsts = [
            await each.propose(ReserveProducerIds(10))
            for _ in range(3)
            for each in world.gateways.values()
        ]
        await world.settle()
        entries = await world.entries()
    assert sorted(firsts) == list(range(0, 120, 10))
    assert {writer for writer, events in entries if events} == {leads.incarnation}
    assert {event.incarnation for _, events in entries for event in events} == {1, 2, 3, 4}
    assert [forwarder(each).leadership.leading for each in world.gateways.values()].count(True) == 1
    assert len({each.state.encode() for each in world.gateways.values()}) == 1


async def test_an_answer_is_given_once_the_replica_holds_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        for node_id, each in world.gateways.items():
            name = f"t{node_id}"
            topic = NewTopic(name.encode().ljust(16, b"\0"), name, 1)
            [created] = await each.propose(CreateTopics([topic]))
            assert isinstance(created, Created)
            assert name in each.state.topics.by_name
            [again] = await each.propose(CreateTopics([topic]))
            assert isinstance(again, Refused)
    assert forwarder(leads).counters.asked == 0


async def test_proposals_that_wait_together_are_sent_together(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        other = next(each for each in world.gateways.values() if each is not leads)
        answers: list[None] = []
        for _ in range(50):
            other.submit(Renew(), answers.append, _unexpected)
        await other.propose(ReserveProducerIds(1))
        entries = await world.entries()
    assert len(answers) == 50
    assert forwarder(other).counters.asked == 1
    assert max(len(events) for _, events in entries) == 51


async def test_an_answer_that_cannot_be_read_ends_its_proposal_with_an_unknown_outcome(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        other = next(each for each in world.gateways.values() if each is not leads)
        world.links.newer = {"ReserveProducerIds"}
        failures: list[Failure] = []
        answers: list[None] = []
        other.submit(ReserveProducerIds(5), _unexpected_answer, failures.append)
        other.submit(Renew(), answers.append, _unexpected)
        await other.propose(Renew())
        assert [type(each) for each in failures] == [CoordinatorUnavailable]
        assert answers == [None]
        with pytest.raises(CoordinatorUnavailable, match="outcome is unknown"):
            await other.propose(ReserveProducerIds(5))
        assert forwarder(other).counters.asked == 2
        assert other.state.producer_ids.next_id == 10


async def test_another_gateway_is_asked_when_the_leader_is_gone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        dead = leads.state.gateways.live[leads.incarnation].node_id
        world.links.down.add(dead)
        [one, other] = (each for each in world.gateways.values() if each is not leads)
        assert await one.propose(ReserveProducerIds(5)) == 0
        assert await other.propose(ReserveProducerIds(5)) == 5
        entries = await world.entries()
    writers = {writer for writer, events in entries if events}
    assert len(writers) == 1
    assert leads.incarnation not in writers


async def test_a_gateway_without_live_peers_appends_by_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 3)
        for node_id, each in world.gateways.items():
            world.links.down = set(world.gateways) - {node_id}
            await each.propose(ReserveProducerIds(5))
            assert each.state.producer_ids.next_id == 5 * node_id


async def test_a_draining_gateway_does_not_lead(autojump_clock: trio.testing.MockClock) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        told: list[bool] = []
        forwarder(leads).leadership.listen(told.append)
        await leads.propose(StartDraining(leads.incarnation))
        await leads.propose(Renew())
        await world.settle()
        writer, _ = (await world.entries())[-1]
    assert writer != leads.incarnation
    assert told == [False]


async def test_a_gateway_leaves_through_another_one(autojump_clock: trio.testing.MockClock) -> None:
    async with forwarding_world() as world:
        leads = await started(world, 3)
        other = next(each for each in world.gateways.values() if each is not leads)
        await other.leave()
        assert other.incarnation not in leads.state.gateways.live
        with pytest.raises(CoordinatorUnavailable, match="has left"):
            await other.propose(Renew())


async def test_a_forwarded_claim_belongs_to_its_author(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 3)
        for each in world.gateways.values():
            name = f"claim of {each.incarnation}"
            assert await each.propose(TakeClaim(name)) == 1
            claim = each.state.claims.get(name)
            assert claim is not None
            assert claim.incarnation == each.incarnation


async def test_a_gateway_that_only_reads_the_log_never_appends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 2)
        only_forwards = await world.start(9, leads=False, reaches_log=False)
        assert await only_forwards.propose(ReserveProducerIds(5)) == 0
        world.links.down = {1, 2}
        with pytest.raises(CoordinatorUnavailable):
            await only_forwards.propose(ReserveProducerIds(5))
        world.links.down = set()
        await trio.sleep(30)
        # The proposal fails: its author no longer waits, and may have continued through another
        # gateway.
        assert only_forwards.state.producer_ids.next_id == 5
        assert await only_forwards.propose(ReserveProducerIds(5)) == 5
        writers = {writer for writer, _ in await world.entries()}
    assert only_forwards.incarnation not in writers


async def test_questions_that_cannot_be_decided_are_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 1)
        service = world.links.services[1]
        with pytest.raises(OtherCluster, match=r"metadata\.log"):
            await service.answer(Ask(VERSION, "another", 1, 0, 0, 0, []))
        sent = [Sent(7, "Renew", b"\xff"), Sent(8, "Renew", b"\x80"), Sent(9, "NoSuchKind", b"")]
        told = await service.answer(Ask(VERSION, "cluster", 77, 0, 0, 0, sent))
        assert [each.outcome for each in told.answers] == [1, 2, 6]
        # Numbers begin at 1, and an acknowledged number is not asked for again.
        sent = [Sent(0, "Renew", b"\x80"), Sent(3, "Renew", b"\x80"), Sent(2, "Renew", b"\x80")]
        told = await service.answer(Ask(VERSION, "cluster", 1, 2, 0, 0, sent))
        assert [each.outcome for each in told.answers] == [3, 0, 3]
        facts = BatchFacts(b"t" * 16, 0, 0, 9, 2**63, 0, 0, -1, -1, -1, -1)
        body = codec.encode_proposal(CommitWal(WalName(1, 1), 9, [facts]))
        told = await service.answer(
            Ask(VERSION, "cluster", 1, 3, 0, 0, [Sent(4, "CommitWal", body)])
        )
        assert [each.outcome for each in told.answers] == [1]


def test_a_proposal_acknowledged_in_an_entry_is_not_decided_in_it() -> None:
    """Questions on two connections may arrive in the wrong order, and then share an entry."""
    state = ClusterState()
    state.gateways.fold_registered(GatewayRegistered(1, 1, "key", "az1", (), "0", 0), 0)
    view = View(state, 1, 0, 0)
    later = Numbered(1, 3, 2, 0, 0, Renew(), codec.encode).decide(view)
    earlier = Numbered(1, 2, 1, 0, 0, Renew(), codec.encode).decide(view)
    assert len(later.events) == 2
    assert earlier == Decided((), NotDecided.ACKNOWLEDGED)


async def test_a_refusal_that_is_asked_for_again_is_repeated(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 1)
        service, state = world.links.services[1], world.gateways[1].state
        await world.gateways[1].propose(CreateTopics([NewTopic(b"t" * 16, "t", 1)]))
        body = codec.encode_proposal(CreateTopics([NewTopic(b"u" * 16, "t", 1)]))
        asked = Ask(VERSION, "cluster", 1, 0, 0, 0, [Sent(50, "CreateTopics", body, again=True)])
        first = await service.answer(asked)
        await world.gateways[1].propose(DeleteTopics([TopicKey("t")]))
        assert (await service.answer(asked)).answers == first.answers
        assert not state.topics.by_name


async def test_a_proposal_that_is_asked_for_again_is_queued_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 1)
        coordinator, service = world.gateways[1], world.links.services[1]
        asked = Ask(VERSION, "cluster", 1, 0, 0, 0, [Sent(50, "Renew", b"\x80")])
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(service.answer, asked)
            await trio.lowlevel.checkpoint()
            assert len(coordinator._queue) <= 1


async def test_proposals_are_answered_while_peers_keep_asking_for_the_logs_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Slow(MemoryLog):
        async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
            await trio.sleep(0.03)
            return await super().read(from_position, max_bytes)

    async with forwarding_world() as world:
        world.log = Slow()
        leads = await started(world, 2)
        other = next(each for each in world.gateways.values() if each is not leads)

        async def look() -> None:
            while True:
                await other.catch_up()

        for _ in range(3):
            world.nursery.start_soon(look)
        with trio.fail_after(5):
            await other.propose(ReserveProducerIds(1))


@pytest.mark.parametrize("seed", range(40))
async def test_every_proposal_is_committed_once_and_in_order(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with forwarding_world(seed) as world:
        await started(world, 4)
        await world.start(9, leads=False, reaches_log=False)
        rng = world.rng
        kinds = ("question lost", "answer lost", "question again, late", "answer cut")
        world.links.faults = {kind: rng.choice((0.0, 0.1, 0.3)) for kind in kinds}
        taken: list[int] = []

        async def work(coordinator: Coordinator) -> None:
            for count in range(12):
                answers: list[int] = []
                for _ in range(rng.randint(1, 3)):
                    coordinator.submit(ReserveProducerIds(1), answers.append, _unexpected)
                last = await _patiently(coordinator)
                assert answers == sorted(answers)
                assert all(each < last for each in answers)
                taken.extend((*answers, last))
                if count % 4 == seed % 4:
                    world.links.down ^= {rng.randint(1, 4)}
                await trio.sleep(rng.random())

        async def heal() -> None:
            while True:
                await trio.sleep(LATE_SECONDS)
                world.links.down = set()

        world.nursery.start_soon(heal)
        async with trio.open_nursery() as nursery:
            for each in world.gateways.values():
                nursery.start_soon(work, each)
        world.links.down = set()
        await trio.sleep(2 * LATE_SECONDS)
        await world.settle()
        entries = await world.entries()
        states = {each.state.encode() for each in world.gateways.values()}
        reserved = world.gateways[1].state.producer_ids.next_id
    assert sorted(taken) == list(range(reserved))
    assert len(states) == 1
    numbers = [(each.incarnation, each.number) for _, events in entries for each in events]
    for incarnation in {each for each, _ in numbers}:
        own = [number for author, number in numbers if author == incarnation]
        assert own == sorted(set(own))


async def _patiently(coordinator: Coordinator) -> int:
    """Reserve an id, however long it takes."""
    answers: list[int] = []
    done = trio.Event()

    def deliver(answer: int) -> None:
        answers.append(answer)
        done.set()

    coordinator.submit(ReserveProducerIds(1), deliver, _unexpected)
    await done.wait()
    return answers[0]


def _unexpected_answer(answer: object) -> None:
    raise AssertionError(answer)


def _unexpected(failure: Failure) -> None:
    raise AssertionError(failure)


async def test_a_late_copy_of_a_registration_ends_no_incarnation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await started(world, 2)
        world.links.faults = {"question again, late": 1.0}
        late = await world.start(9, leads=False, reaches_log=False)
        world.links.faults = {}
        await trio.sleep(2 * LATE_SECONDS)
        await late.propose(Renew())
        assert late.incarnation == 3
        assert late.state.gateways.next_incarnation == 4
