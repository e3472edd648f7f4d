"""Group requests through their handlers, a real coordinator and the log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.entries import decode_entry
from tidegate_coordination.events import (
    ClaimTaken,
    Endpoint,
    GatewayExpired,
    TopicCreated,
    TopicDeleted,
)
from tidegate_coordination.group_events import OffsetsCommitted
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.logs.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.metadata_log import MetadataLog, Trimmed
from tidegate_coordination.rendezvous import choose
from tidegate_coordination.rules.gateways import Register, StartDraining, TakeClaim
from tidegate_coordination.rules.proposal import TOPICS, Decided, View, claim_scope
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.broker_settings import BrokerSettings
from tidegate_gateway.call import Call, Peer
from tidegate_gateway.group_manager import GroupManager
from tidegate_gateway.group_table import ADOPT_SECONDS
from tidegate_gateway.internal_topics import OffsetsTopic
from tidegate_gateway.requests.delete_groups import DeleteGroups
from tidegate_gateway.requests.describe_groups import DescribeGroups
from tidegate_gateway.requests.find_coordinator import FindCoordinator
from tidegate_gateway.requests.heartbeat import Heartbeat
from tidegate_gateway.requests.join_group import JoinGroup
from tidegate_gateway.requests.leave_group import LeaveGroup
from tidegate_gateway.requests.list_groups import ListGroups
from tidegate_gateway.requests.offset_commit import OffsetCommit
from tidegate_gateway.requests.offset_delete import OffsetDelete
from tidegate_gateway.requests.offset_fetch import OffsetFetch
from tidegate_gateway.requests.sync_group import SyncGroup
from tidegate_protocol.consumer_protocol import encode_subscription
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import list_groups as lg
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import sync_group as sy
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

PEER = Peer("127.0.0.1", 5000, "PLAINTEXT")
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(["orders"]))
NONE = ErrorCode.NONE
Clock = trio.testing.MockClock


@dataclass(frozen=True)
class MakeTopics:
    """Topics of two partitions; or their deletion."""

    names: tuple[str, ...]
    delete: bool = False
    reads: frozenset[str] = frozenset({TOPICS})
    writes: frozenset[str] = frozenset({TOPICS})

    def decide(self, view: View) -> Decided[None]:
        if self.delete:
            return Decided([TopicDeleted(topic_id(each)) for each in self.names], None)
        return Decided([TopicCreated(topic_id(each), each, 2, 1, {}) for each in self.names], None)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Gateway:
    """A gateway as far as groups need one.  Requests and answers pass through their codecs."""

    def __init__(
        self,
        log: MetadataLog,
        node_id: int,
        settings: GroupSettings,
        key: str = "",
        listeners: Sequence[str] = ("PLAINTEXT",),
    ) -> None:
        self.node_id = node_id
        self.listeners = listeners
        self.key = key or f"key-{node_id}"
        self.coordinator = Coordinator(
            log,
            ClusterState(),
            rng=Random(node_id),
            wall_clock=lambda: 1_000_000 + trio.current_time(),
        )
        self.absent: frozenset[int] = frozenset()
        self.groups = GroupManager(
            self.coordinator, settings, rng=Random(node_id + 100), absent=lambda: self.absent
        )
        both = (self.coordinator, self.groups)
        offsets_topic = OffsetsTopic(
            self.coordinator, BrokerSettings({}), lambda: bytes([node_id]) * 16
        )
        handlers: list[Any] = [
            FindCoordinator(self.coordinator, offsets_topic, self.groups),
            OffsetFetch(self.coordinator),
            *(each(*both) for each in (ListGroups, OffsetCommit, OffsetDelete)),
            *(each(self.groups) for each in (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)),
            *(each(self.groups) for each in (DescribeGroups, DeleteGroups)),
        ]
        self.handlers = {each.messages: each for each in handlers}
        self.scope = trio.CancelScope()
        self.registered = trio.Event()

    async def run(self) -> None:
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.coordinator.run)
                host = f"gateway-{self.node_id}"
                endpoints = tuple(Endpoint(each, host, 9092) for each in self.listeners)
                register = Register(self.node_id, self.key, "az", endpoints, "0", "c")
                answer = await self.coordinator.propose(register)
                assert isinstance(answer, int)
                self.coordinator.incarnation = answer
                self.registered.set()
                nursery.start_soon(self.groups.run)

    async def ask(self, messages: Any, request: Any, version: int, peer: Peer = PEER) -> Any:
        sent = messages.encode_request(request, version)
        received = messages.decode_request(memoryview(sent), version)
        call = Call(version, "client", peer)
        response = await self.handlers[messages].handle(call, received)
        back = messages.encode_response(response, version)
        if isinstance(back, list):
            back = b"".join(back)
        return messages.decode_response(memoryview(back), version)

    async def join(self, member_id: str = "", version: int = 9, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [jg.JoinGroupRequestProtocol("range", SUBSCRIPTION)],
        }
        request = jg.JoinGroupRequest(member_id=member_id, **(defaults | fields))
        return await self.ask(jg, request, version)

    async def sync(self, member_id: str, generation: int, **fields: Any) -> Any:
        parts = [
            sy.SyncGroupRequestAssignment(each, data)
            for each, data in fields.pop("assignments", {}).items()
        ]
        defaults: dict[str, Any] = {"group_id": "g"}
        defaults |= {"member_id": member_id, "generation_id": generation}
        request = sy.SyncGroupRequest(assignments=parts, **(defaults | fields))
        return await self.ask(sy, request, 5)

    async def heartbeat(self, member_id: str, generation: int, group: str = "g") -> int:
        request = hb.HeartbeatRequest(group, generation, member_id)
        code: int = (await self.ask(hb, request, 4)).error_code
        return code

    async def stable(self, group: str = "g", **fields: Any) -> tuple[str, int]:
        """Bring one member into a stable group."""
        asked = await self.join(group_id=group, **fields)
        joined = await self.join(asked.member_id, group_id=group, **fields)
        assert joined.error_code == NONE
        member, generation = joined.member_id, joined.generation_id
        answer = await self.sync(member, generation, group_id=group, assignments={member: b"A"})
        assert (answer.error_code, answer.assignment) == (NONE, b"A")
        return member, generation

    async def commit(
        self, offsets: dict[tuple[str, int], Any], version: int = 9, **fields: Any
    ) -> dict[tuple[str, int], int]:
        topics = [
            oc.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id(name),
                partitions=[_commit_row(index, value)],
            )
            for (name, index), value in offsets.items()
        ]
        request = oc.OffsetCommitRequest(**({"group_id": "g", "topics": topics} | fields))
        answer = await self.ask(oc, request, version)
        names = list(offsets)
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        return dict(zip(names, codes, strict=True))

    async def fetch(self, group: str = "g", version: int = 9, **fields: Any) -> Any:
        asked = of.OffsetFetchRequestGroup(group_id=group, **({"topics": None} | fields))
        answer = await self.ask(of, of.OffsetFetchRequest(groups=[asked]), version)
        return answer.groups[0]

    async def leave(self, *members: tuple[str, str | None]) -> Any:
        leaving = [lv.MemberIdentity(*each) for each in members]
        return await self.ask(lv, lv.LeaveGroupRequest("g", members=leaving), 5)

    async def describe(self, group: str = "g", version: int = 6) -> Any:
        request = sg.DescribeGroupsRequest([group], version >= 3)
        return (await self.ask(sg, request, version)).groups[0]

    async def listed(self, version: int = 5, **filters: Any) -> dict[str, str]:
        answer = await self.ask(lg, lg.ListGroupsRequest(**filters), version)
        assert answer.error_code == NONE
        return {each.group_id: each.group_state for each in answer.groups}

    async def delete(self, group: str = "g") -> int:
        answer = await self.ask(dg, dg.DeleteGroupsRequest([group]), 2)
        code: int = answer.results[0].error_code
        return code


def _commit_row(index: int, value: Any) -> oc.OffsetCommitRequestPartition:
    offset, epoch, metadata = value if isinstance(value, tuple) else (value, -1, "")
    return oc.OffsetCommitRequestPartition(index, offset, epoch, metadata)


@asynccontextmanager
async def cluster(
    *node_ids: int,
    settings: GroupSettings = SETTINGS,
    log: MetadataLog | None = None,
    listeners: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> AsyncIterator[list[Gateway]]:
    log = log or MemoryLog()
    gateways = [
        Gateway(log, each, settings, listeners=listeners.get(each, ("PLAINTEXT",)))
        for each in node_ids or (1,)
    ]
    async with trio.open_nursery() as nursery:
        for each in gateways:
            nursery.start_soon(each.run)
        for each in gateways:
            await each.registered.wait()
        await gateways[0].coordinator.propose(MakeTopics(("orders", "other")))
        for each in gateways:
            await each.coordinator.catch_up()
        yield gateways
        nursery.cancel_scope.cancel()


async def test_group_lives_through_join_sync_heartbeat_and_leave(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        assert member.startswith("client-")
        assert await gateway.heartbeat(member, generation) == NONE
        seen = await gateway.describe()
        assert (seen.group_state, seen.protocol_data) == ("Stable", "range")
        assert seen.members[0].member_assignment == b"A"
        assert seen.members[0].client_host == "/127.0.0.1"
        assert (await gateway.leave((member, None))).members[0].error_code == NONE
        assert (await gateway.describe()).group_state == "Empty"
        assert await gateway.delete() == NONE
        assert await gateway.delete() == ErrorCode.GROUP_ID_NOT_FOUND


async def test_two_members_wait_for_each_other(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        first, _ = await gateway.stable()
        asked = await gateway.join()
        answers: dict[str, Any] = {}

        async def join(member_id: str) -> None:
            answers[member_id] = await gateway.join(member_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, asked.member_id)
            await trio.testing.wait_all_tasks_blocked()
            assert await gateway.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
            nursery.start_soon(join, first)
        assert {each.generation_id for each in answers.values()} == {2}
        assert len(answers[first].members) == 2
        assert answers[asked.member_id].members == []
        parts: dict[str, bytes] = {}

        async def sync(member_id: str, assignments: dict[str, bytes]) -> None:
            parts[member_id] = (
                await gateway.sync(member_id, 2, assignments=assignments)
            ).assignment

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync, asked.member_id, {})
            nursery.start_soon(sync, first, {first: b"1", asked.member_id: b"2"})
        assert parts == {first: b"1", asked.member_id: b"2"}


@pytest.mark.parametrize("version", range(10))
async def test_every_version_of_join(autojump_clock: Clock, version: int) -> None:
    async with cluster() as [gateway]:
        answer = await gateway.join(version=version)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await gateway.join(answer.member_id, version=version)
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        refused = await gateway.join("stranger", version=version)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_first_rebalance_waits_for_the_delay(autojump_clock: Clock) -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=3000)
    async with cluster(settings=settings) as [gateway]:
        began = trio.current_time()
        await gateway.stable()
        assert 3.0 <= trio.current_time() - began < 3.5


async def test_silent_member_expires(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        await trio.sleep(9.9)
        assert await gateway.heartbeat(member, generation) == NONE
        await trio.sleep(10.2)
        assert await gateway.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await gateway.describe()).group_state == "Empty"
        group = gateway.coordinator.state.groups.get("g")
        assert group is not None
        assert group.members == ()
        await trio.sleep(1.5)
        assert gateway.groups._groups.get("g") is None  # nothing is kept of an idle group


async def test_made_up_group_leaves_nothing_behind(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.join(group_id="made up")
        assert gateway.coordinator.state.claims.get("group/made up") is not None
        await trio.sleep(12)
        assert gateway.coordinator.state.claims.get("group/made up") is None
        assert await gateway.listed() == {}


async def test_claim_that_came_true_after_its_asker_had_gone_is_given_up(
    autojump_clock: Clock,
) -> None:
    async with cluster() as [gateway]:
        await gateway.coordinator.propose(TakeClaim("group/made up"))
        await trio.sleep(25)
        assert gateway.coordinator.state.claims.get("group/made up") is None
        assert (await gateway.join(group_id="made up")).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_empty_group_id(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        assert (await gateway.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
        assert await gateway.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
        assert await gateway.delete("") == ErrorCode.INVALID_GROUP_ID


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


async def test_group_moves_when_its_gateway_ends_and_nobody_joins_again(
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


async def test_claim_that_went_to_another_answers_those_who_wait(autojump_clock: Clock) -> None:
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
    """Take a claim from a live holder, as the log would have it after a lease ran out."""

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
        # Decided just before the assignment, so that the machine cannot know.
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


@dataclass(frozen=True)
class EndGateway:
    incarnation: int
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def decide(self, view: View) -> Decided[None]:
        return Decided([GatewayExpired(self.incarnation)], None)


async def test_slow_append_of_one_group_delays_no_heartbeat(autojump_clock: Clock) -> None:
    log = FaultyLog(MemoryLog(), LogFaults(), Random(1))
    async with cluster(log=log) as [gateway]:
        member, generation = await gateway.stable("other group")
        asked = await gateway.join()
        joined = await gateway.join(asked.member_id)
        log.faults = LogFaults(lost_append=1.0)
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def sync() -> None:
                answers.append(
                    await gateway.sync(joined.member_id, 1, assignments={joined.member_id: b"slow"})
                )

            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            assert await gateway.heartbeat(member, generation, "other group") == NONE
            assert not answers
            log.faults = LogFaults()
        assert answers[0].assignment == b"slow"


# ---- offsets


async def test_commit_round_trips_with_metadata_and_leader_epoch(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit(
            {("orders", 0): (7, 3, "mine"), ("orders", 1): (8, -1, None), ("other", 0): 9}
        )
        assert set(codes.values()) == {NONE}
        answer = await gateway.fetch()
        rows = {
            (topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        assert rows == {
            ("orders", 0): (7, 3, "mine", 0),
            ("orders", 1): (8, -1, "", 0),
            ("other", 0): (9, -1, "", 0),
        }


async def test_what_was_not_committed_is_minus_one(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        wanted = [
            of.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 9]),
            of.OffsetFetchRequestTopics(name="unknown", partition_indexes=[0]),
        ]
        answer = await gateway.fetch("nobody", topics=wanted)
        assert answer.error_code == NONE
        rows = [each for topic in answer.topics for each in topic.partitions]
        assert {(r.committed_offset, r.metadata, r.error_code) for r in rows} == {(-1, "", 0)}
        assert (await gateway.fetch("nobody")).topics == []


async def test_offsets_that_cannot_be_read_now_are_asked_for_again(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise CoordinatorUnavailable("the metadata log is away")

    async with cluster() as [gateway]:
        monkeypatch.setattr(gateway.coordinator, "catch_up", away)
        # Java consumers take any error but this one and COORDINATOR_LOAD_IN_PROGRESS as fatal.
        assert (await gateway.fetch()).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(1, 8))
async def test_older_versions_of_offset_fetch(autojump_clock: Clock, version: int) -> None:
    async with cluster() as [gateway]:
        await gateway.commit({("orders", 0): (7, 3, "mine")})
        request = of.OffsetFetchRequest("g", [of.OffsetFetchRequestTopic("orders", [0, 1])])
        answer = await gateway.ask(of, request, version)
        [topic] = answer.topics
        assert [(each.committed_offset, each.metadata) for each in topic.partitions] == [
            (7, "mine"),
            (-1, ""),
        ]
        if version >= 2:
            answer = await gateway.ask(of, of.OffsetFetchRequest("g", None), version)
            assert [each.partition_index for each in answer.topics[0].partitions] == [0]


async def test_topics_by_id(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit({("orders", 0): 7, ("unknown", 0): 8}, version=10)
        assert codes == {("orders", 0): NONE, ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_ID}
        wanted = [
            of.OffsetFetchRequestTopics(topic_id=topic_id(each), partition_indexes=[0])
            for each in ("orders", "unknown")
        ]
        answer = await gateway.fetch(version=10, topics=wanted)
        rows = [(t.topic_id, t.partitions[0].committed_offset) for t in answer.topics]
        assert rows == [(topic_id("orders"), 7), (topic_id("unknown"), -1)]
        assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_bad_partitions_fail_alone(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit(
            {
                ("orders", 0): 1,
                ("orders", 2): 1,
                ("unknown", 0): 1,
                ("other", 0): (1, -1, "x" * 4097),
                ("other", 1): (1, -1, "x" * 4096),
            }
        )
        assert codes == {
            ("orders", 0): NONE,
            ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("other", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ("other", 1): NONE,
        }


async def test_commits_of_members_are_checked(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        one = {("orders", 0): 1}

        async def code(member_id: str, generation_id: int, **fields: Any) -> int:
            known: dict[str, Any] = {"member_id": member_id}
            known["generation_id_or_member_epoch"] = generation_id
            return (await gateway.commit(one, **(known | fields)))["orders", 0]

        assert await code(member, generation) == NONE
        assert await code(member, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        assert await code("stranger", generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code("m", 3, group_id="unknown") == ErrorCode.ILLEGAL_GENERATION
        assert await code("", -1, group_id="simple") == NONE
        await gateway.join(member)
        assert await code(member, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_commit_that_fits_in_no_entry_is_refused(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        rows = [_commit_row(0, (1, -1, "x" * 4000)) for _ in range(300)]
        topics = [oc.OffsetCommitRequestTopic("orders", partitions=rows)]
        answer = await gateway.ask(oc, oc.OffsetCommitRequest("g", topics=topics), 9)
        codes = {each.error_code for each in answer.topics[0].partitions}
        assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


async def test_commits_of_one_group_share_an_entry(autojump_clock: Clock) -> None:
    log = MemoryLog()
    async with cluster(log=log) as [gateway]:
        await gateway.commit({("orders", 0): 0})
        before = gateway.coordinator.state.position
        async with trio.open_nursery() as nursery:
            for offset in range(20):
                nursery.start_soon(gateway.commit, {("orders", offset % 2): offset})
        entries = await log.read(before + 1, 1 << 20)
        assert not isinstance(entries, Trimmed)
        commits = [
            sum(isinstance(event, OffsetsCommitted) for event in entry.events)
            for entry in (decode_entry(each.payload, each.position) for each in entries)
        ]
        assert sum(commits) == 20
        assert max(commits) >= 10


async def test_deleting_a_topic_forgets_its_offsets(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.commit({("orders", 0): 7, ("other", 0): 8})
        await gateway.coordinator.propose(MakeTopics(("orders",), delete=True))
        assert [each.name for each in (await gateway.fetch()).topics] == ["other"]


async def offset_delete(gateway: Gateway, names: list[str], group: str = "g") -> Any:
    topics = [
        od.OffsetDeleteRequestTopic(each, [od.OffsetDeleteRequestPartition(0)]) for each in names
    ]
    return await gateway.ask(od, od.OffsetDeleteRequest(group, topics), 0)


async def test_offsets_of_subscribed_topics_are_not_deleted(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        await gateway.commit(
            {("orders", 0): 7, ("other", 0): 8},
            member_id=member,
            generation_id_or_member_epoch=generation,
        )
        answer = await offset_delete(gateway, ["orders", "other", "unknown"])
        assert answer.error_code == NONE
        assert [topic.partitions[0].error_code for topic in answer.topics] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [each.name for each in (await gateway.fetch()).topics] == ["orders"]


async def test_offset_delete_refusals(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        answer = await offset_delete(gateway, ["orders"], "unknown")
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await gateway.stable(protocol_type="connect")
        answer = await offset_delete(gateway, ["orders"])
        assert answer.error_code == ErrorCode.NON_EMPTY_GROUP


async def test_group_with_members_is_not_deleted(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.stable()
        assert await gateway.delete() == ErrorCode.NON_EMPTY_GROUP


async def test_unknown_group_is_dead(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        for version in range(7):
            seen = await gateway.describe("nobody", version)
            code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE
            assert (seen.group_state, seen.error_code) == ("Dead", code)


async def test_groups_are_listed_by_state_and_type(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.stable()
        await gateway.commit({("orders", 0): 1}, group_id="simple")
        assert await gateway.listed() == {"g": "Stable", "simple": "Empty"}
        assert await gateway.listed(states_filter=["stable"]) == {"g": "Stable"}
        assert await gateway.listed(states_filter=["nonsense"]) == {}
        assert await gateway.listed(types_filter=["Classic"]) == {"g": "Stable", "simple": "Empty"}
        assert await gateway.listed(types_filter=["consumer"]) == {}
        assert (await gateway.listed(version=3)).keys() == {"g", "simple"}


async def test_every_group_is_listed_by_exactly_one_gateway(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as gateways:
        names = [f"group {number}" for number in range(12)]
        for name in names:
            await gateways[0].commit({("orders", 0): 1}, group_id=name)
        await gateways[0].groups.hand_over()
        listed = [name for each in gateways for name in await each.listed()]
        assert sorted(listed) == sorted(names)


# ---- FindCoordinator


async def find(gateway: Gateway, *keys: str, kind: int = 0, version: int = 6) -> Any:
    if version < 4:
        return await gateway.ask(fc, fc.FindCoordinatorRequest(keys[0], kind), version)
    request = fc.FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    return (await gateway.ask(fc, request, version)).coordinators


async def test_unclaimed_groups_hash_over_the_gateways(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as gateways:
        names = [f"group {number}" for number in range(50)]
        for each in gateways:
            await each.coordinator.catch_up()
        answers = [[c.node_id for c in await find(each, *names)] for each in gateways]
        assert answers[0] == answers[1] == answers[2]
        assert answers[0] == [choose(name.encode(), [1, 2, 3]) for name in names]
        assert set(answers[0]) == {1, 2, 3}


async def test_unclaimed_groups_hash_over_those_that_answer(autojump_clock: Clock) -> None:
    async with cluster(1, 2, 3) as [one, two, three]:
        names = [f"group {number}" for number in range(50)]
        await three.coordinator.propose(StartDraining(one.coordinator.incarnation))
        three.absent = frozenset({two.coordinator.incarnation})
        assert {each.node_id for each in await find(three, *names)} == {3}
        three.absent |= {three.coordinator.incarnation}
        assert {each.node_id for each in await find(three, *names)} == {2, 3}


async def test_a_group_that_is_held_waits_for_its_holder(autojump_clock: Clock) -> None:
    async with cluster(1, 2) as [one, two]:
        await one.stable()
        await two.coordinator.catch_up()
        two.absent = frozenset({one.coordinator.incarnation})
        assert [each.node_id for each in await find(two, "g")] == [1]
        assert await two.listed() == {}


async def test_groups_that_nobody_holds_are_served_by_those_that_answer(
    autojump_clock: Clock,
) -> None:
    """Listed, and taken if members are in them: else dead members would stay."""
    async with cluster(1, 2) as [one, two]:
        names = [f"group {number}" for number in range(8)]
        for name in names:
            await one.stable(name)
        two.absent = frozenset({one.coordinator.incarnation})
        await one.groups.hand_over()
        await two.coordinator.catch_up()
        assert sorted(await two.listed()) == names
        await trio.sleep(ADOPT_SECONDS + 1)
        for name in names:
            assert two.groups._groups.get(name) is not None


async def test_unclaimed_groups_hash_over_those_with_the_listener_of_who_asks(
    autojump_clock: Clock,
) -> None:
    some = {1: ("PLAINTEXT", "INNER"), 2: ("PLAINTEXT", "INNER")}
    names = [f"group {number}" for number in range(20)]
    request = fc.FindCoordinatorRequest(coordinator_keys=names)
    inner = Peer("127.0.0.1", 5000, "INNER")
    async with cluster(1, 2, 3, listeners=some) as [one, two, three]:
        found = (await one.ask(fc, request, 6, inner)).coordinators
        assert {each.error_code for each in found} == {NONE}
        assert [each.node_id for each in found] == [choose(each.encode(), [1, 2]) for each in names]
        one.absent = frozenset({two.coordinator.incarnation})
        assert {each.node_id for each in (await one.ask(fc, request, 6, inner)).coordinators} == {1}
        nowhere = Peer("127.0.0.1", 5000, "NOWHERE")
        found = (await three.ask(fc, request, 6, nowhere)).coordinators
        assert {each.error_code for each in found} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_groups_are_listed_once_among_those_with_the_listener_of_who_asks(
    autojump_clock: Clock,
) -> None:
    some = {1: ("PLAINTEXT", "INNER"), 2: ("PLAINTEXT", "INNER")}
    names = [f"group {number}" for number in range(12)]
    async with cluster(1, 2, 3, listeners=some) as gateways:
        for name in names:
            await gateways[2].commit({("orders", 0): 1}, group_id=name)
        await gateways[2].groups.hand_over()
        for listener, asked in (("INNER", gateways[:2]), ("PLAINTEXT", gateways)):
            peer = Peer("127.0.0.1", 5000, listener)
            answers = [await each.ask(lg, lg.ListGroupsRequest(), 5, peer) for each in asked]
            listed = [group.group_id for each in answers for group in each.groups]
            assert sorted(listed) == sorted(names)


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


@pytest.mark.parametrize("version", range(7))
async def test_coordinator_is_named_with_the_endpoint_of_the_listener(
    autojump_clock: Clock, version: int
) -> None:
    async with cluster() as [gateway]:
        answer = await find(gateway, "g", version=version)
        one = answer if version < 4 else answer[0]
        assert (one.node_id, one.host, one.port) == (1, "gateway-1", 9092)
        assert one.error_code == NONE


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(
    ("kind", "code"),
    [(1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, ErrorCode.INVALID_REQUEST)],
)
async def test_other_kinds_of_coordinators_are_refused(
    autojump_clock: Clock, version: int, kind: int, code: ErrorCode
) -> None:
    async with cluster() as [gateway]:
        answer = await find(gateway, "id", kind=kind, version=version)
        one = answer if version < 4 else answer[0]
        assert (one.error_code, one.node_id) == (code, -1)
        assert "support" in one.error_message
