"""A gateway that was stopped for a while answers for no group that another one serves by now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Member, cluster, joined
from tidegate_coordination.events.cluster import ClaimTaken
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.rules.proposal import Decided, View, claim_scope
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import sync_group as sg

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
CLAIM = "group/g"
STOOD_SECONDS = 5.0


@dataclass(frozen=True)
class SeizeClaim:
    """Take the claim from its holder, as after the end of its lease."""

    incarnation: int
    reads: frozenset[str] = frozenset({claim_scope(CLAIM)})
    writes: frozenset[str] = frozenset({claim_scope(CLAIM)})

    def decide(self, view: View) -> Decided[None]:
        claim = view.state.claims.get(CLAIM)
        assert claim is not None
        return Decided([ClaimTaken(CLAIM, self.incarnation, claim.epoch + 1)], None)


async def beat(member: Member) -> int:
    return await member.beat()


async def join(member: Member) -> int:
    request = jg.JoinGroupRequest(
        "g",
        10_000,
        60_000,
        member.member_id,
        protocol_type="consumer",
        protocols=[jg.JoinGroupRequestProtocol("range", b"")],
    )
    answer = await member.client.call("JoinGroup", 5, request)
    return int(answer.error_code)


async def sync(member: Member) -> int:
    request = sg.SyncGroupRequest("g", member.generation, member.member_id)
    return int((await member.client.call("SyncGroup", 3, request)).error_code)


@pytest.mark.parametrize("ask", [beat, join, sync])
async def test_a_member_is_sent_to_the_gateway_that_now_serves_its_group(
    ask: Callable[[Member], Awaitable[int]],
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(SETTINGS) as world:
        log = FaultyLog(world.log, LogFaults(), Random(0))
        old = await world.start(1, Clock(), log=log)
        new = await world.start(2, Clock())
        member = await joined(old.world.connect(), "g", 60_000)
        real = log.read

        async def slow(*arguments: Any) -> Any:
            await trio.sleep(1.0)
            return await real(*arguments)

        # Like a stopped process, the gateway receives no entries meanwhile.
        log.faults = LogFaults(outage=1.0)
        await trio.sleep(1.5)
        await new.gateway.coordinator.propose(SeizeClaim(new.gateway.coordinator.incarnation))
        monkeypatch.setattr(log, "read", slow)
        log.faults = LogFaults()
        autojump_clock.jump(STOOD_SECONDS)
        assert await ask(member) == ErrorCode.NOT_COORDINATOR
