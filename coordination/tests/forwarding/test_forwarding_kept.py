"""Forwarding: an answer stays valid even while another gateway holds a copy of the proposal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.forwarding_world import CLUSTER, World, forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import Coordinator, Failure, Waiting
from tidegate_coordination.forwarding import codec
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.forwarding.messages import VERSION, Ask, Outcome, Sent, Told
from tidegate_coordination.forwarding.outbox import Outgoing
from tidegate_coordination.forwarding.service import ANSWER_SECONDS
from tidegate_coordination.log.metadata_log import LogEntry, Trimmed
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.numbered import failure_text
from tidegate_coordination.rules.topics import (
    Created,
    CreateTopics,
    Deleted,
    DeleteTopics,
    NewTopic,
    Refused,
    TopicKey,
)

OUTAGE = LogFaults(outage=1.0)
X = [NewTopic(b"B" * 16, "x")]


async def ask(world: World, node_id: int, sent: Sent) -> Told:
    """Ask a gateway in the name of incarnation 1."""
    return await world.links.services[node_id].answer(Ask(VERSION, CLUSTER, 1, 0, 0, 0, [sent]))


async def create_here(coordinator: Coordinator) -> None:
    """Create topic x without asking another gateway."""
    answers: list[list[Created | Refused]] = []
    done = trio.Event()

    def deliver(answer: list[Created | Refused]) -> None:
        answers.append(answer)
        done.set()

    coordinator.submit_here(CreateTopics(X), deliver, _unexpected)
    await done.wait()
    assert isinstance(answers[0][0], Created)


def _unexpected(failure: Failure) -> None:
    raise AssertionError(failure)


async def test_a_refusal_that_its_author_got_is_kept(autojump_clock: MockClock) -> None:
    """The author asked two leaders, and neither reaches the log.

    The first refuses once it reaches the log again.
    """
    async with forwarding_world() as world:
        logs = {each: FaultyLog(world.log, LogFaults(), world.rng) for each in (1, 2)}
        for node_id, log in logs.items():
            await world.start(node_id, log=log)
        author = await world.start(9, leads=False, reaches_log=False)
        other = await world.start(5, leads=False)
        await world.settle()
        found = leader(author.state, {author.incarnation})
        assert found is not None
        first, second = logs.pop(found.node_id), *logs.values()
        first.faults = second.faults = OUTAGE
        answers: list[Deleted | Refused] = []
        told = trio.Event()

        def deliver(answer: list[Deleted | Refused]) -> None:
            answers.extend(answer)
            told.set()

        author.submit(DeleteTopics([TopicKey("x")]), deliver, _unexpected)
        await trio.sleep(6)
        assert not answers
        first.faults = LogFaults()
        await told.wait()
        assert isinstance(answers[0], Refused)
        await create_here(other)
        second.faults = LogFaults()
        await trio.sleep(4)
        await other.catch_up()
        assert "x" in other.state.topics.by_name


class Held(MemoryLog):
    """A log that answers no read until goes_on is set."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = trio.Event()
        self.goes_on.set()

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await self.goes_on.wait()
        return await super().read(from_position, max_bytes)


async def test_a_refusal_decided_before_other_gateways_were_asked_is_kept(
    autojump_clock: MockClock,
) -> None:
    """When its author says that it asked others meanwhile, the refusal is decided but not kept."""
    delete = codec.encode_proposal(DeleteTopics([TopicKey("x")]))
    async with forwarding_world() as world:
        world.log = held = Held()
        await world.start(1)
        await world.settle()
        held.goes_on = trio.Event()
        tolds: list[Told] = []

        async def ask_and_note(again: bool) -> None:
            tolds.append(await ask(world, 1, Sent(50, "DeleteTopics", delete, again)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_and_note, False)
            await trio.sleep(ANSWER_SECONDS + 0.1)
            nursery.start_soon(ask_and_note, True)
            await trio.sleep(0.1)
            held.goes_on.set()
        assert [each.answers[0].outcome for each in tolds] == [Outcome.UNKNOWN, Outcome.ANSWERED]
        assert await numbers(world) == [50]
        await create_here(world.gateways[1])
        again = await ask(world, 1, Sent(50, "DeleteTopics", delete, again=True))
        assert again.answers == tolds[1].answers
        assert "x" in world.gateways[1].state.topics.by_name


async def numbers(world: World) -> list[int]:
    return [each.number for _, events in await world.entries() for each in events]


# More topics than an entry holds.
MANY = [NewTopic(each.to_bytes(16), f"{each:0240}") for each in range(1, 10_000)]


@pytest.mark.parametrize(
    "body",
    [b"\xff", codec.encode_proposal(CreateTopics(MANY))],
    ids=["unreadable", "cannot be decided"],
)
async def test_a_failure_that_its_author_got_is_kept(
    body: bytes, autojump_clock: MockClock
) -> None:
    async with forwarding_world() as world:
        await world.start(1)
        await world.start(2)
        told = await ask(world, 1, Sent(50, "CreateTopics", body, again=True))
        assert told.answers[0].outcome == Outcome.FAILED
        assert await numbers(world) == [50]
        create = Sent(50, "CreateTopics", codec.encode_proposal(CreateTopics(X)), again=True)
        for node_id in (1, 2):
            assert (await ask(world, node_id, create)).answers == told.answers
        assert not world.gateways[1].state.topics.by_name


async def test_a_failure_at_its_authors_own_gateway_is_kept(
    autojump_clock: MockClock,
) -> None:
    """The author asked another gateway, got no answer, and decides the proposal itself."""
    async with forwarding_world() as world:
        author = await world.start(1)
        dead = await world.start(2, leads=False)
        await world.settle()
        failures: list[Failure] = []
        failed = trio.Event()

        def fail(failure: Failure) -> None:
            failures.append(failure)
            failed.set()

        route = forwarder(author)
        outgoing = Outgoing(route._outbox.take_number(), "CreateTopics", _waiting(MANY, fail))
        outgoing.asked.again = True
        route._own.take_back(outgoing)
        await failed.wait()
        assert await numbers(world) == [outgoing.number]
        await dead.catch_up()
        kept = dead.state.proposals.answer(author.incarnation, outgoing.number)
        assert kept is not None
        assert failure_text(kept) == str(failures[0])


def _waiting(topics: list[NewTopic], fail: Callable[[Failure], None]) -> Waiting[Any]:
    return Waiting(CreateTopics(topics), _unexpected_answer, fail)


def _unexpected_answer(answer: object) -> None:
    raise AssertionError(answer)
