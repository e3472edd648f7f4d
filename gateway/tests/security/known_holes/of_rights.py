"""Security holes of rights: requests that needed no right, and rights that others could use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import permutations
from random import Random
from typing import Any, Final

import pytest
import trio

from tests.security.known_holes.hole import Hole
from tests.worlds.cluster.several_gateways import Clock, cluster
from tests.worlds.wire_client import Closed, WireWorld, records_batch, wire_world
from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.rules.security.acls import CreateAcls
from tidegate_coordination.rules.security.permitted import Permitted
from tidegate_coordination.security import authorizer
from tidegate_coordination.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.authorizer import AclIndex, Authorizer
from tidegate_gateway.requests.records import fetch, produce_rules, produce_transactional
from tidegate_gateway.requests.records.fetch_answer import Look
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import produce as pr

SETTINGS: Final = {"authorizer.class.name": STANDARD}
ANYBODY: Final = "User:ANONYMOUS"
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def topic_acl(
    operation: Operation,
    *,
    name: str = "t",
    who: str = ANYBODY,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> Acl:
    """Return an ACL of a topic."""
    kind, literal = ResourceType.TOPIC, PatternType.LITERAL
    return Acl(kind, literal, name, who, host, operation, permission)


async def allow(world: WireWorld, *acls: Acl) -> None:
    """Add ACLs."""
    assert await world.gateway.coordinator.propose(CreateAcls(acls)) is None


# -- a client that calls itself a replica ----------------------------------------------------------


async def clients_are_no_replicas() -> None:
    """A client that fetches as a replica gets no records, and changes nothing."""
    async with wire_world() as world:
        topic_id = await world.create_topic("t", 1)
        client = world.connect()
        for value in (b"1", b"2"):
            assert (await client.produce("t", 0, records_batch(value))).error_code == 0
        asked = fe.FetchTopic("t", partitions=[fe.FetchPartition(0, partition_max_bytes=1000)])
        for version, by_state in ((12, False), (17, True)):
            request = fe.FetchRequest(topics=[asked], max_bytes=1000, session_epoch=-1)
            if by_state:
                asked.topic_id = topic_id
                request.replica_state = fe.ReplicaState(2, 1)
            else:
                request.replica_id = 2
            answer = await client.call("Fetch", version, request)
            [found] = answer.responses[0].partitions
            assert found.error_code == TOPIC_DENIED
            assert not found.records
        assert await client.fetch_values("t", 0, 0) == [b"1", b"2"]


def takes_clients_for_replicas(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch, "_replica_id", lambda request: -1)


# -- a batch that is not looked at -----------------------------------------------------------------


async def every_batch_needs_its_right() -> None:
    """The second batch is transactional, and its client has no right to the transactional id."""
    async with wire_world(SETTINGS) as world:
        await allow(world, topic_acl(Operation.ALL))
        await world.create_topic("t", 2)
        client = world.connect()
        header = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        batches = [
            records_batch(b"plain"),
            records_batch(b"of a transaction", attributes=TRANSACTIONAL, **header),
        ]
        data = [pr.PartitionProduceData(at, each) for at, each in enumerate(batches)]
        topics = [pr.TopicProduceData("t", partition_data=data)]
        for name in ("x", None) * 3:
            request = pr.ProduceRequest(name, -1, 30_000, topics)
            answer = await client.call("Produce", 9, request)
            codes = [each.error_code for each in answer.responses[0].partition_responses]
            assert codes[1] == ID_DENIED


def looks_at_the_first_batch(patch: pytest.MonkeyPatch) -> None:
    real = produce_rules.transactional_producers

    def producers(request: Any) -> Any:
        first = request.topic_data[0]
        kept = pr.TopicProduceData(first.name, first.topic_id, first.partition_data[:1])
        return real(pr.ProduceRequest(topic_data=[kept]))

    patch.setattr(produce_transactional, "transactional_producers", producers)


# -- an ACL that takes others with it --------------------------------------------------------------


async def a_removed_acl_takes_none_with_it() -> None:
    """Whichever of a topic's ACLs is removed first, the others stay, above all denials."""
    rows = {
        "reader": topic_acl(Operation.READ, who="User:reader"),
        "writer": topic_acl(Operation.WRITE, who="User:writer"),
        "banned": topic_acl(Operation.WRITE, who="User:banned", permission=Permission.DENY),
        "everyone": topic_acl(Operation.WRITE, who="User:*"),
    }
    for gone, *rest in permutations(rows):
        index = AclIndex()
        for each in rows.values():
            index.add(each)
        index.remove(rows[gone])
        decide = Authorizer(index, frozenset(), allows_everyone=True)
        if "banned" in rest:
            assert not may_write(decide, "banned"), gone
        if "reader" in rest:
            assert decide.may("User:reader", "host", Operation.READ, ResourceType.TOPIC, "t"), gone
        assert may_write(decide, "writer") == ("writer" in rest or "everyone" in rest), gone
        assert may_write(decide, "stranger") == ("everyone" in rest), gone
    await trio.lowlevel.checkpoint()


def may_write(decide: Authorizer, user: str) -> bool:
    return decide.may(f"User:{user}", "host", Operation.WRITE, ResourceType.TOPIC, "t")


def forgets_the_whole_pattern(patch: pytest.MonkeyPatch) -> None:
    real = AclIndex.remove

    def remove(self: AclIndex, acl: Acl) -> None:
        real(self, acl)
        for (kind, _, _), patterns in self._granted.items():
            if kind == acl.resource_type:
                patterns.literals.pop(acl.name, None)

    patch.setattr(AclIndex, "remove", remove)


def forgets_that_there_are_others(patch: pytest.MonkeyPatch) -> None:
    real = AclIndex.remove

    def remove(self: AclIndex, acl: Acl) -> None:
        real(self, acl)
        self._anybodys[acl.resource_type].literals.pop(acl.name, None)

    patch.setattr(AclIndex, "remove", remove)


# -- a right to any topic, from another host -------------------------------------------------------


async def a_right_to_some_topic_is_its_hosts() -> None:
    """An idempotent producer needs a topic that it may write to from its host."""
    async with wire_world(SETTINGS) as world:
        await allow(world, topic_acl(Operation.WRITE, host="friend"))
        codes = []
        for host in ("friend", "stranger", "friend"):
            request = ip.InitProducerIdRequest(None, 30_000)
            answer = await world.connect(host).call("InitProducerId", 4, request)
            codes.append(answer.error_code)
        assert codes == [0, CLUSTER_DENIED, 0]


def knows_no_hosts(patch: pytest.MonkeyPatch) -> None:
    real = authorizer.AclIndex._groups

    def groups(self: AclIndex, principal: str, host: str, resource_type: int) -> Any:
        yield from real(self, principal, host, resource_type)
        for (kind, who, _), patterns in self._granted.items():
            if (kind, who) == (resource_type, principal):
                yield patterns

    patch.setattr(AclIndex, "_groups", groups)


# -- a right that is taken away meanwhile ----------------------------------------------------------


async def a_right_is_looked_at_when_it_is_used() -> None:
    """Take the right to read away while a fetch waits."""
    async with wire_world(SETTINGS | {"allow.everyone.if.no.acl.found": "true"}) as world:
        await world.create_topic("t", 1)
        reader, writer = world.connect("reader"), world.connect("writer")
        found: list[Any] = []

        async def wait() -> None:
            asked = fe.FetchTopic("t", partitions=[fe.FetchPartition(0, partition_max_bytes=1000)])
            request = fe.FetchRequest(
                max_wait_ms=30_000, min_bytes=1, topics=[asked], session_epoch=-1, max_bytes=1000
            )
            found.append(await reader.call("Fetch", 12, request))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            await allow(world, topic_acl(Operation.WRITE))
            assert (await writer.produce("t", 0, records_batch(b"secret"))).error_code == 0
        [answer] = found[0].responses[0].partitions
        assert answer.error_code == TOPIC_DENIED
        assert not answer.records
    await a_right_is_looked_at_when_a_change_is_decided()


class OvertakenLog(FaultyLog):
    """A gateway's connection to the log.  overtake: done once, before the next append."""

    overtake: Callable[[], Awaitable[None]] | None = None

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """See MetadataLog."""
        act, self.overtake = self.overtake, None
        if act is not None:
            await act()
        return await super().append(position, payload)


async def a_right_is_looked_at_when_a_change_is_decided() -> None:
    """Another gateway takes the right to create topics away just before the topic is created."""
    async with cluster(SETTINGS | {"allow.everyone.if.no.acl.found": "true"}) as found:
        first = await found.start(1, Clock())
        log = OvertakenLog(found.log, LogFaults(), Random(1))
        second = await found.start(2, Clock(), log=log)

        async def deny() -> None:
            resource = ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME
            denial = Acl(*resource, ANYBODY, "*", Operation.ALL, Permission.DENY)
            row = topic_acl(Operation.ALL, name="*", permission=Permission.DENY)
            await allow(first.world, denial, row)

        log.overtake = deny
        request = ct.CreateTopicsRequest([ct.CreatableTopic("new", 1, 1)], 5_000)
        with pytest.raises(Closed):
            await second.world.connect().call("CreateTopics", 7, request)
        assert not first.gateway.coordinator.state.topics.by_name


def reads_by_the_right_it_came_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Look, "_may_read", lambda self, wanted: True)


def decides_by_the_right_it_came_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Permitted, "decide", lambda self, view: self.proposal.decide(view))


HOLES: Final = (
    Hole("CVE-2018-1288", clients_are_no_replicas, (takes_clients_for_replicas,)),
    Hole("CVE-2018-17196", every_batch_needs_its_right, (looks_at_the_first_batch,)),
    Hole(
        "CVE-2024-27309",
        a_removed_acl_takes_none_with_it,
        (forgets_the_whole_pattern, forgets_that_there_are_others),
    ),
    Hole(
        "CVE-2026-100235",
        a_right_is_looked_at_when_it_is_used,
        (reads_by_the_right_it_came_with, decides_by_the_right_it_came_with),
    ),
    Hole("KAFKA-20816", a_right_to_some_topic_is_its_hosts, (knows_no_hosts,)),
)
