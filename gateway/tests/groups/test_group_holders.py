"""Which gateway serves a group, and what others answer: at restarts, ends, drains, lost claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import trio
import trio.testing

from tests.worlds.group_world import NONE, SETTINGS, Clock, EndGateway, Gateway, cluster, find
from tidegate_coordination.events.cluster import ClaimTaken
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import StartDraining, TakeClaim
from tidegate_coordination.rules.proposal import Decided, View, claim_scope
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator as fc


async def test_claim_that_came_true_after_its_asker_had_gone_is_given_up(
    autojump_clock: Clock,
) -> None:
    async with cluster() as [gateway]:
        await gateway.coordinator.propose(TakeClaim("group/made up"))
        await trio.sleep(25)
        assert gateway.coordinator.state.claims.get("group/made up") is None
        assert (await gateway.join(group_id="made up")).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_restarted_gateway_serves_its_groups_on(autojump_clock: Clock) -> None:
    log = MemoryLog()
    async with cluster(1, log=log) as [gateway]:
        member, generation = await gateway.stable()
        gateway.scope.cancel()
    again = Gateway(log, 1, SETTINGS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.run)
        await trio.sleep(1)
        assert await again.heartbeat(member, generation) == NONE
        assert (await again.sync(member, generation)).assignment == b"A"
        codes = await again.commit(
            {("orders", 0): 5}, member_id=member, generation_id_or_member_epoch=generation
        )
        assert codes == {("orders", 0): NONE}
        nursery.cancel_scope.cancel()


async def test_restarted_gateway_expires_members_that_never_return(autojump_clock: Clock) -> None:
    log = MemoryLog()
    async with cluster(1, log=log) as [gateway]:
        await gateway.stable()
    again = Gateway(log, 1, SETTINGS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.run)
        await trio.sleep(25)
        assert (await again.describe()).group_state == "Empty"
        nursery.cancel_scope.cancel()


async def test_group_of_a_living_gateway_is_not_served_by_another(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        member, generation = await one.stable()
        await two.coordinator.catch_up()
        wrong = ErrorCode.NOT_COORDINATOR
        assert await two.heartbeat(member, generation) == wrong
        assert (await two.join()).error_code == wrong
        assert (await two.sync(member, generation)).error_code == wrong
        assert (await two.commit({("orders", 0): 1})) == {("orders", 0): wrong}
        assert (await two.describe()).error_code == wrong
        assert await two.delete() == wrong
        assert (await two.leave((member, None))).error_code == wrong
        assert await one.listed() == {"g": "Stable"}
        assert await two.listed() == {}


async def test_a_group_without_members_moves_when_its_gateway_ends(
    autojump_clock: Clock,
) -> None:
    async with cluster(1, 2) as [one, two]:
        member, generation = await one.stable()
        await one.coordinator.propose(StartDraining(one.coordinator.incarnation))
        await one.groups.hand_over()
        assert await one.heartbeat(member, generation) == ErrorCode.NOT_COORDINATOR
        await two.coordinator.catch_up()
        found = await two.ask(fc, fc.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert found.coordinators[0].node_id == 2
        assert await two.heartbeat(member, generation) == NONE
        assert (await two.sync(member, generation)).assignment == b"A"
        claim = two.coordinator.state.claims.get("group/g")
        assert claim == (two.coordinator.incarnation, 2)


async def test_a_lost_claim_answers_waiting_members(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        first, _ = await one.stable()
        asked = await one.join()
        answers: list[Any] = []

        async def wait() -> None:
            answers.append(await one.join(asked.member_id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await two.coordinator.catch_up()
            await two.coordinator.propose(SeizeClaim("group/g", two.coordinator.incarnation))
            await one.coordinator.catch_up()
            await trio.sleep(3)
        assert answers[0].error_code == ErrorCode.NOT_COORDINATOR
        assert await two.heartbeat(first, 1) == NONE


@dataclass(frozen=True)
class SeizeClaim:
    """Take a claim from a live holder, as after the end of its lease."""

    name: str
    incarnation: int
    reads: frozenset[str] = frozenset({claim_scope("group/g")})
    writes: frozenset[str] = frozenset({claim_scope("group/g")})

    def decide(self, view: View) -> Decided[None]:
        claim = view.state.claims.get(self.name)
        assert claim is not None
        return Decided([ClaimTaken(self.name, self.incarnation, claim.epoch + 1)], None)


async def test_unnoticed_loss_acknowledges_no_commit_and_no_assignment(
    autojump_clock: Clock,
) -> None:
    async with cluster(1, 2) as [one, two]:
        member, generation = await one.stable()
        joined = await one.join(member)
        hosted = one.groups._groups.get("g")
        assert hosted is not None
        # The claim is lost just before the assignment, so the group's machine cannot know it.
        seize = SeizeClaim("group/g", two.coordinator.incarnation)
        one.coordinator.submit(seize, lambda _: None, lambda _: None)
        answer = await one.sync(member, joined.generation_id, assignments={member: b"B"})
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await two.coordinator.catch_up()
        assert (await two.sync(member, generation)).assignment == b"A"


async def test_orphaned_group_is_adopted_and_its_members_expire(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        await one.stable()
        await two.coordinator.catch_up()
        await two.coordinator.propose(EndGateway(one.coordinator.incarnation))
        one.scope.cancel()
        await trio.sleep(25)
        assert (await two.describe()).group_state == "Empty"
        assert await two.delete() == NONE


async def test_draining_gateway_gets_no_new_groups(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        await one.coordinator.propose(StartDraining(one.coordinator.incarnation))
        await two.coordinator.catch_up()
        assert {each.node_id for each in await find(two, *"abcdefgh")} == {2}
        assert (await one.join()).error_code == ErrorCode.NOT_COORDINATOR


async def test_draining_gateway_keeps_no_claim_on_a_group_it_does_not_know(
    autojump_clock: Clock,
) -> None:
    async with cluster(1, 2) as [one, two]:
        await one.coordinator.propose(TakeClaim("group/g"))
        await one.coordinator.propose(StartDraining(one.coordinator.incarnation))
        one.groups.step_aside()
        await trio.sleep(2)
        assert (await find(two, "g"))[0].node_id == 2
        assert (await two.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
