"""If its caller gave up without an answer, a proposal is not committed after later changes.

The caller may have continued through another gateway: deleted and recreated the topic, or set its
configs again. See decision 22.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.coordinator.test_coordinator import begin, make, registration, running, unexpected
from tests.worlds.forwarding_world import CLUSTER, World, forwarding_world
from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
    ProposalFailed,
    Waiting,
)
from tidegate_coordination.forwarding import codec
from tidegate_coordination.forwarding.contention import Contention
from tidegate_coordination.forwarding.messages import VERSION, Ask, Outcome, Sent
from tidegate_coordination.forwarding.service import ANSWER_SECONDS
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.configs import Change, Operation, ResourceChange, SetConfigs
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, DeleteTopics, NewTopic, TopicKey
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName

FIRST_LIFE, SECOND_LIFE = b"A" * 16, b"B" * 16
OUTAGE = LogFaults(outage=1.0)


def set_retention(value: str) -> SetConfigs:
    return SetConfigs([ResourceChange(2, "x", [Change("retention.ms", Operation.SET, value)])])


async def make_anew(other: Coordinator) -> None:
    await other.propose(DeleteTopics([TopicKey("x")]))
    await other.propose(CreateTopics([NewTopic(SECOND_LIFE, "x")]))


async def write(other: Coordinator) -> None:
    facts = BatchFacts(FIRST_LIFE, 0, 60, 100, 500, 1, 7, -1, -1, -1, -1)
    done = trio.Event()
    commit = CommitWal(WalName(other.incarnation, 1), 200, [facts])
    other.submit(commit, lambda _: done.set(), unexpected)
    await done.wait()


async def set_for_ever(other: Coordinator) -> None:
    await other.propose(set_retention("-1"))


def lives(state: ClusterState) -> object:
    return set(state.topics.by_id)


def log_start(state: ClusterState) -> object:
    [number] = state.topics.by_name["x"].partition_numbers
    return state.partitions[number].log_start, state.partitions[number].next_offset


def configs(state: ClusterState) -> object:
    return state.topics.by_name["x"].configs


@dataclass(frozen=True)
class Case:
    """late: a proposal whose caller gets no answer.

    meanwhile: the change that is made through another gateway, and must last.
    """

    late: Any
    meanwhile: Callable[[Coordinator], Awaitable[None]]
    look: Callable[[ClusterState], object]
    holds: object


CASES = [
    Case(DeleteTopics([TopicKey("x")]), make_anew, lives, {SECOND_LIFE}),
    Case(DeleteRecords([Deletion("x", 0, -1)]), write, log_start, (0, 500)),
    Case(set_retention("1000"), set_for_ever, configs, {"retention.ms": "-1"}),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: type(case.late).__name__)


async def propose_in_vain(coordinator: Coordinator, proposal: Any) -> None:
    with pytest.raises(CoordinatorUnavailable):
        await coordinator.propose(proposal)


@each_case
async def test_an_abandoned_proposal_is_not_decided_again_after_a_lost_race(
    case: Case, autojump_clock: MockClock
) -> None:
    log = MemoryLog()
    line = FaultyLog(log, LogFaults(), Random(0))
    away, other = make(line, 1), make(log, 2)
    async with running(away, other):
        for node_id, each in ((1, away), (2, other)):
            each.incarnation = await begin(each, node_id, f"key-{node_id}")
        await other.propose(CreateTopics([NewTopic(FIRST_LIFE, "x")]))
        await away.catch_up()
        line.faults = OUTAGE
        await propose_in_vain(away, case.late)
        await case.meanwhile(other)
        line.faults = LogFaults()
        await away.catch_up()
        await away.propose(Renew())
        assert case.look(away.state) == case.holds


async def test_a_proposal_that_needs_no_caller_is_decided_again(autojump_clock: MockClock) -> None:
    """Commits and upkeep are submitted, not proposed, because they need even a late outcome."""
    log = MemoryLog()
    line = FaultyLog(log, LogFaults(), Random(0))
    away, other = make(line, 1), make(log, 2)
    answers: list[int] = []
    async with running(away, other):
        await away.propose(registration(1))
        line.faults = OUTAGE
        away.submit(ReserveProducerIds(3), answers.append, unexpected)
        await trio.sleep(60)
        assert await other.propose(ReserveProducerIds(2)) == 0
        line.faults = LogFaults()
        await away.catch_up()
        await away.propose(Renew())
    assert answers == [2]
    assert away.lost_conflicts == 1


async def away_and_other(
    world: World, contention: Contention | None
) -> tuple[FaultyLog, Coordinator, Coordinator]:
    """Return the faulty log of a gateway that decides by itself, that gateway, and another one."""
    line = FaultyLog(world.log, LogFaults(), world.rng)
    away = await world.start(1, log=line, contention=contention)
    other = await world.start(2, leads=False, contention=Contention())
    await world.settle()
    return line, away, other


@each_case
@pytest.mark.parametrize("contends", [True, False], ids=["without numbers", "numbered"])
async def test_an_abandoned_forwarded_proposal_is_not_decided(
    case: Case, contends: bool, autojump_clock: MockClock
) -> None:
    async with forwarding_world() as world:
        line, away, other = await away_and_other(world, Contention() if contends else None)
        await other.propose(CreateTopics([NewTopic(FIRST_LIFE, "x")]))
        await away.catch_up()
        line.faults = OUTAGE
        await propose_in_vain(away, case.late)
        await case.meanwhile(other)
        line.faults = LogFaults()
        await away.catch_up()
        await away.propose(Renew())
        assert case.look(away.state) == case.holds


@each_case
async def test_a_withdrawn_proposal_is_not_decided_by_the_asked_gateway(
    case: Case, autojump_clock: MockClock
) -> None:
    """The author asked two gateways.

    Each holds a copy of the proposal, and reaches the log no more.
    """
    async with forwarding_world() as world:
        lines = await lines_of_two_leaders(world)
        author = await world.start(9, leads=False, reaches_log=False)
        other = await world.start(5, leads=False, contention=Contention())
        await other.propose(CreateTopics([NewTopic(FIRST_LIFE, "x")]))
        await world.settle()
        for line in lines:
            line.faults = OUTAGE
        await propose_in_vain(author, case.late)
        await case.meanwhile(other)
        await trio.sleep(ANSWER_SECONDS)  # by now each question says that its proposal is withdrawn
        for line in lines:
            line.faults = LogFaults()
            await trio.sleep(10)
        assert await author.propose(ReserveProducerIds(1)) == 0
        await world.settle()
        assert case.look(author.state) == case.holds


async def lines_of_two_leaders(world: World) -> list[FaultyLog]:
    lines: list[FaultyLog] = []
    for node_id in (1, 2):
        lines.append(FaultyLog(world.log, LogFaults(), world.rng))
        await world.start(node_id, log=lines[-1])
    return lines


async def test_a_copy_whose_author_is_gone_has_a_deadline(autojump_clock: MockClock) -> None:
    """The author died while the asked gateway was stopped and had not read the question."""
    async with forwarding_world() as world:
        await world.start(1)
        other = await world.start(5, leads=False, contention=Contention())
        body = codec.encode_proposal(ReserveProducerIds(1))
        before_ms = other._deadline_ms()
        outcomes: list[int] = []
        # Log time advances only while live gateways write.
        for number, seconds in ((50, 0), (51, 55), (52, 10)):
            for _ in range(seconds):
                await trio.sleep(1)
                for each in world.gateways.values():
                    await each.propose(Renew())
            sent = Sent(number, "ReserveProducerIds", body, again=True, before_ms=before_ms)
            asked = Ask(VERSION, CLUSTER, other.incarnation, 0, 0, 0, [sent])
            told = await world.links.services[1].answer(asked)
            outcomes += [each.outcome for each in told.answers]
        assert outcomes == [Outcome.ANSWERED, Outcome.ANSWERED, Outcome.FAILED]
        assert world.gateways[1].state.producer_ids.next_id == 2


async def test_a_proposal_that_waited_while_its_gateway_stood_still_has_a_deadline(
    mock_clock: MockClock,
) -> None:
    """After the standstill the loop runs before the caller, whose deadline has passed."""
    log = MemoryLog()
    stopped, other = make_on_time(log, 1), make_on_time(log, 2)
    async with running(stopped, other):
        for node_id, each in ((1, stopped), (2, other)):
            each.incarnation = await begin(each, node_id, f"key-{node_id}")
        await stopped.catch_up()
        failures: list[Failure] = []
        for seconds in (30, 31):  # such a jump expires no lease
            mock_clock.jump(seconds)
            await other.propose(Renew())
        before_ms = other._deadline_ms() - 61_000
        late = Waiting(
            ReserveProducerIds(1), unexpected_answer, failures.append, before_ms=before_ms
        )
        stopped.route.take(late)
        await stopped.catch_up()
        assert [type(each) for each in failures] == [ProposalFailed]


def unexpected_answer(answer: object) -> None:
    raise AssertionError(answer)


def make_on_time(log: MemoryLog, seed: int) -> Coordinator:
    return Coordinator(
        log, ClusterState(), rng=Random(seed), wall_clock=lambda: 1_000_000 + trio.current_time()
    )
