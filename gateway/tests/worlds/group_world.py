"""The parts of gateways that groups need, with real coordinators and a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import (
    Endpoint,
    GatewayExpired,
    TopicCreated,
    TopicDeleted,
)
from tidegate_coordination.events.metadata_versions import FIRST
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.proposal import TOPICS, Decided, View
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.groups.group_manager import GroupManager
from tidegate_gateway.migration.forward.groups import GroupForwards
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.requests.groups.delete_groups import DeleteGroups
from tidegate_gateway.requests.groups.describe_groups import DescribeGroups
from tidegate_gateway.requests.groups.find_coordinator import FindCoordinator
from tidegate_gateway.requests.groups.heartbeat import Heartbeat
from tidegate_gateway.requests.groups.join_group import JoinGroup
from tidegate_gateway.requests.groups.leave_group import LeaveGroup
from tidegate_gateway.requests.groups.list_groups import ListGroups
from tidegate_gateway.requests.groups.offset_commit import OffsetCommit
from tidegate_gateway.requests.groups.offset_delete import OffsetDelete
from tidegate_gateway.requests.groups.offset_fetch import OffsetFetch
from tidegate_gateway.requests.groups.sync_group import SyncGroup
from tidegate_gateway.requests.transactions.add_offsets_to_txn import AddOffsetsToTxn
from tidegate_gateway.requests.transactions.add_partitions_to_txn import AddPartitionsToTxn
from tidegate_gateway.requests.transactions.end_txn import EndTxn
from tidegate_gateway.requests.transactions.init_producer_id import InitProducerId
from tidegate_gateway.requests.transactions.txn_offset_commit import TxnOffsetCommit
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.topics.internal_topics import InternalTopics
from tidegate_gateway.transactions.producer_ids import ProducerIds
from tidegate_gateway.transactions.steps import TransactionSteps
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps
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
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import sync_group as sy
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

PEER = Peer("127.0.0.1", 5000, "PLAINTEXT")
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(["orders"]))
NONE = ErrorCode.NONE
WORLD_SECONDS = 3_600.0  # the limit for a whole test, on trio's clock
Clock = trio.testing.MockClock


@dataclass(frozen=True)
class MakeTopics:
    """Creates topics of two partitions, or deletes topics."""

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
    """The parts of a gateway that groups need.  Requests and answers are encoded and decoded."""

    def __init__(
        self,
        log: MetadataLog,
        node_id: int,
        settings: GroupSettings,
        key: str = "",
        listeners: Sequence[str] = ("PLAINTEXT",),
        level: int = FIRST,
    ) -> None:
        self.node_id = node_id
        self.level = level
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
        settings_of_broker = BrokerSettings({})
        internal_topics = InternalTopics(
            self.coordinator, settings_of_broker, lambda: bytes([node_id]) * 16
        )
        state = self.coordinator.state
        zones = ZoneFinder(zone_maps(settings_of_broker), state.gateways)
        view = ClusterView(state, zones, lambda: self.absent)
        steps = TransactionSteps(self.coordinator, ProducerIds(self.coordinator))
        forwards = GroupForwards(self.coordinator, {})
        handlers: list[Any] = [
            FindCoordinator(self.coordinator, internal_topics, self.groups, view),
            TxnOffsetCommit(*both, steps, forwards),
            AddOffsetsToTxn(steps, forwards),
            AddPartitionsToTxn(self.coordinator, steps),
            InitProducerId(steps, lambda: 900_000),
            EndTxn(steps),
            OffsetFetch(self.coordinator, forwards),
            ListGroups(*both, forwards),
            *(each(*both) for each in (OffsetCommit, OffsetDelete)),
            *(each(self.groups) for each in (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)),
            *(each(self.groups, forwards) for each in (DescribeGroups, DeleteGroups)),
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
                register = Register(
                    self.node_id, self.key, "az", endpoints, "0", "c", highest_version=self.level
                )
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
        defaults |= {"protocol_type": "consumer", "protocol_name": "range"}
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
        answer = await self.sync(
            member,
            generation,
            group_id=group,
            assignments={member: b"A"},
            protocol_type=fields.get("protocol_type", "consumer"),
        )
        assert (answer.error_code, answer.assignment) == (NONE, b"A")
        return member, generation

    async def commit(
        self, offsets: dict[tuple[str, int], Any], version: int = 9, **fields: Any
    ) -> dict[tuple[str, int], int]:
        topics = [
            oc.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id(name),
                partitions=[commit_row(index, value)],
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


def commit_row(index: int, value: Any) -> oc.OffsetCommitRequestPartition:
    offset, epoch, metadata = value if isinstance(value, tuple) else (value, -1, "")
    return oc.OffsetCommitRequestPartition(index, offset, epoch, metadata)


@asynccontextmanager
async def cluster(
    *node_ids: int,
    settings: GroupSettings = SETTINGS,
    log: MetadataLog | None = None,
    listeners: Mapping[int, Sequence[str]] = MappingProxyType({}),
    level: int = FIRST,
) -> AsyncIterator[list[Gateway]]:
    """Run gateways with two topics.  level: the metadata.version."""
    log = log or MemoryLog()
    gateways = [
        Gateway(log, each, settings, listeners=listeners.get(each, ("PLAINTEXT",)), level=level)
        for each in node_ids or (1,)
    ]
    with trio.fail_after(WORLD_SECONDS):
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


@dataclass(frozen=True)
class EndGateway:
    """Ends a gateway as an expired lease would."""

    incarnation: int
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def decide(self, view: View) -> Decided[None]:
        return Decided([GatewayExpired(self.incarnation)], None)


async def find(gateway: Gateway, *keys: str, kind: int = 0, version: int = 6) -> Any:
    if version < 4:
        return await gateway.ask(fc, fc.FindCoordinatorRequest(keys[0], kind), version)
    request = fc.FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    return (await gateway.ask(fc, request, version)).coordinators
