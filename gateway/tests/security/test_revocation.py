"""A right that is taken away at one gateway is gone at the other gateways, though they lag.

10,000 trials:  python -m tests.security.test_revocation 10000      in gateway/
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from typing import Final

import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster
from tests.worlds.wire_client import WireClient, records_batch
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import delete_acls as da
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as me

TOPIC: Final = "t"
TRIALS: Final = 60
HOLDS_SECONDS: Final = 1.0
"""At a gateway that reads the log."""
CUT_OFF_SECONDS: Final = 12.0
"""More than authorizer.max.staleness.ms: any other gateway sends clients away then."""
SETTINGS: Final = {
    "authorizer.class.name": STANDARD,
    "allow.everyone.if.no.acl.found": "true",
    "wal.put.budget.per.second": "0",
}
SLOW: Final = LogFaults(slow=0.5, slow_seconds=0.4)
BAD: Final = LogFaults(slow=0.3, slow_seconds=5.0, read_error=0.3, lost_wakeup=0.3)
GONE: Final = LogFaults(outage=1.0)
DENIED: Final = {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
NOT_TAKEN: Final = {*DENIED, ErrorCode.NOT_LEADER_OR_FOLLOWER}
_WRITE, _DENY, _TOPIC, _LITERAL = 4, 2, 2, 3


class Scene:
    """Gateway 1, at which rights change, and two others, each with its own slow log."""

    def __init__(
        self, first: Running, others: Sequence[Running], logs: Sequence[FaultyLog]
    ) -> None:
        self.admin = first.world.connect()
        self.logs = logs
        self.others = others
        self.clients = [each.world.connect() for each in others]

    async def deny(self) -> None:
        """Take the right to write away; return once the change is acknowledged."""
        row = ca.AclCreation(_TOPIC, TOPIC, _LITERAL, "User:ANONYMOUS", "*", _WRITE, _DENY)
        answer = await self.admin.call("CreateAcls", 3, ca.CreateAclsRequest([row]))
        assert [each.error_code for each in answer.results] == [0]

    async def allow(self) -> None:
        """Give the right to write again."""
        row = da.DeleteAclsFilter(_TOPIC, TOPIC, _LITERAL, None, None, _WRITE, _DENY)
        answer = await self.admin.call("DeleteAcls", 3, da.DeleteAclsRequest([row]))
        assert [len(each.matching_acls) for each in answer.filter_results] == [1]

    def set_faults(self, faults: LogFaults) -> None:
        for each in self.logs:
            each.faults = faults

    async def writes(self) -> list[int]:
        """Write at each of the other gateways, over new connections; return the error codes."""
        self.clients = [each.world.connect() for each in self.others]
        return [await write(each) for each in self.clients]

    async def reads(self) -> list[int]:
        """Return the code of a fetch at each of the other gateways."""
        return [await read(each.world.connect()) for each in self.others]

    async def leads_itself(self) -> list[bool]:
        """Return for each other gateway whether it names itself as the leader of a partition."""
        found = list[bool]()
        for each in self.others:
            request = me.MetadataRequest([me.MetadataRequestTopic(name=TOPIC)])
            answer = await each.world.connect().call("Metadata", 12, request)
            leaders = {partition.leader_id for partition in answer.topics[0].partitions}
            found.append(each.gateway.identity.node_id in leaders)
        return found


async def read(client: WireClient) -> int:
    wanted = fe.FetchTopic(TOPIC, partitions=[fe.FetchPartition(0, partition_max_bytes=1000)])
    request = fe.FetchRequest(max_wait_ms=10, min_bytes=1, topics=[wanted])
    answer = await client.call("Fetch", 12, request)
    code: int = answer.responses[0].partitions[0].error_code
    return code


async def write(client: WireClient) -> int:
    code: int = (await client.produce(TOPIC, 0, records_batch(b"x"))).error_code
    return code


async def start(found: Cluster, seed: int) -> Scene:
    """Start three gateways, and create the topic."""
    first = await found.start(1, Clock())
    await first.world.create_topic(TOPIC, 30)
    logs = [FaultyLog(found.log, LogFaults(), Random(seed + number)) for number in (2, 3)]
    others = [
        await found.start(number, Clock(), log=log)
        for number, log in zip((2, 3), logs, strict=True)
    ]
    return Scene(first, others, logs)


async def revoke_under_lag(trials: int, seed: int) -> list[str]:
    """Return the writes that gateways accepted a second after the denial.  The gateways' calls of
    the log take up to 0.4 s.
    """
    rng, wrong = Random(seed), list[str]()
    async with cluster(SETTINGS) as found:
        scene = await start(found, seed)
        scene.set_faults(SLOW)
        for number in range(trials):
            await scene.deny()
            await trio.sleep(HOLDS_SECONDS + rng.random() * 0.1)
            if set(codes := await scene.writes()) != DENIED:
                wrong.append(f"trial {number}: denied, and answered {codes}")
            await scene.allow()
            await trio.sleep(HOLDS_SECONDS)
            if any(codes := await scene.writes()):
                wrong.append(f"trial {number}: allowed, and answered {codes}")
    return wrong


async def test_a_denial_holds_at_all_gateways_within_a_second(autojump_clock: MockClock) -> None:
    assert await revoke_under_lag(TRIALS, 1) == []


async def test_a_gateway_without_the_log_takes_nothing_after_a_denial(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as found:
        scene = await start(found, 7)
        for faults in (GONE, BAD, GONE, BAD):
            assert await scene.writes() == [0, 0]
            assert await scene.leads_itself() == [True, True]
            scene.set_faults(faults)
            await scene.deny()
            await trio.sleep(CUT_OFF_SECONDS)
            assert set(await scene.writes()) <= NOT_TAKEN
            # Now that the topic has an ACL, it is closed to readers, too.
            assert set(await scene.reads()) <= NOT_TAKEN
            if faults is GONE:
                assert set(await scene.reads()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
                assert await scene.leads_itself() == [False, False]
            scene.set_faults(LogFaults())
            await trio.sleep(60)
            assert set(await scene.writes()) == DENIED
            await scene.allow()
            await trio.sleep(HOLDS_SECONDS)


async def test_a_gateway_that_knew_no_other_one_takes_nothing_either(
    autojump_clock: MockClock,
) -> None:
    """A second gateway starts while the first, which was alone, does not reach the log."""
    async with cluster(SETTINGS) as found:
        log = FaultyLog(found.log, LogFaults(), Random(8))
        lone = await found.start(1, Clock(), log=log)
        await lone.world.create_topic(TOPIC, 30)
        log.faults = GONE
        scene = Scene(await found.start(2, Clock()), [lone], [log])
        assert await scene.reads() == [0]
        await scene.deny()
        await trio.sleep(CUT_OFF_SECONDS)
        assert await scene.reads() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert await scene.writes() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        log.faults = LogFaults()
        await trio.sleep(60)
        assert set(await scene.writes()) == DENIED


if __name__ == "__main__":
    count = int(sys.argv[1])
    problems = [
        each
        for seed in range(count // TRIALS + 1)
        for each in trio.run(revoke_under_lag, TRIALS, seed, clock=MockClock(autojump_threshold=0))
    ]
    print(f"{count} trials, {len(problems)} wrong", *problems[:10], sep="\n")
    raise SystemExit(bool(problems))
