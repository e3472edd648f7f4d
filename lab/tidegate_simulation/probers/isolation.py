"""Judges the answers of a gateway that has not reached the log for longer than its lease.

By then another gateway may have expired and replaced it without its knowledge.  So while it knows
another gateway that accepts new work, it must refuse every request that needs the newest state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from tidegate_gateway.gateway import Gateway
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch, find_coordinator, produce

from ..clients.client import ClientConnection, Disconnected
from ..world.node import Node
from ..world.world import NotReachable, World

# A gateway renews its lease after two thirds of it at the latest.  Then the renewal must time out.
_LEASES: Final = 5 / 3
_SPARE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 5.0
_NAME: Final = "isolation"


@dataclass(frozen=True, slots=True)
class Isolated:
    """A gateway, and the time since which it has not reached the log."""

    world: World
    node: Node
    gateway: Gateway
    since: float

    async def judge(self) -> None:
        """Ask the gateway if this time is long enough; errors of the connection prove nothing."""
        if not self._must_know:
            return
        with trio.move_on_after(_ANSWER_SECONDS):
            try:
                connection = ClientConnection(self.node.connect(_NAME), _NAME)
            except NotReachable:
                return
            self.world.nursery.start_soon(connection.run)
            try:
                await self._ask(connection)
            except Disconnected:
                return
            finally:
                connection.close()

    @property
    def _must_know(self) -> bool:
        log, lease_ms = self.world.plan.log, int(self.world.settings["lease.ms"])
        late_seconds = log.slow_seconds if log.slow else 0.0  # an answer may be in flight
        seconds = _LEASES * lease_ms / 1000 + late_seconds + _SPARE_SECONDS
        return (
            trio.current_time() >= self.since + seconds
            and self.node.gateway is self.gateway
            and self.node.went_on_at < self.since
            and self._has_others
        )

    @property
    def _has_others(self) -> bool:
        coordinator = self.gateway.coordinator
        return coordinator.state.gateways.has_others(coordinator.incarnation)

    async def _ask(self, connection: ClientConnection) -> None:
        state = self.gateway.coordinator.state
        topic = next(iter(state.topics.by_id.values()), None)
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"])
        reply = await connection.send("FindCoordinator", find_coordinator, 4, request)
        found: find_coordinator.FindCoordinatorResponse = await reply.wait(_ANSWER_SECONDS)
        named = found.coordinators[0]
        is_right = not named.error_code and named.node_id != self.node.node_id
        self._check("FindCoordinator", is_right, named.error_code, f" and node {named.node_id}")
        if topic is None:
            return
        partition = state.partitions[topic.partition_numbers[0]]
        asked = fetch.FetchPartition(0, fetch_offset=partition.next_offset)
        wanted = [fetch.FetchTopic(topic_id=topic.topic_id, partitions=[asked])]
        to_fetch = fetch.FetchRequest(max_wait_ms=0, session_epoch=-1, topics=wanted)
        reply = await connection.send("Fetch", fetch, 13, to_fetch)
        read: fetch.FetchResponse = await reply.wait(_ANSWER_SECONDS)
        code = read.responses[0].partitions[0].error_code
        self._check("Fetch", code == ErrorCode.NOT_LEADER_OR_FOLLOWER, code)
        # Without records, because any gateway must refuse such a request.
        data = produce.TopicProduceData(
            topic_id=topic.topic_id, partition_data=[produce.PartitionProduceData(0)]
        )
        to_write = produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
        reply = await connection.send("Produce", produce, 13, to_write)
        written: produce.ProduceResponse = await reply.wait(_ANSWER_SECONDS)
        code = written.responses[0].partition_responses[0].error_code
        self._check("Produce", code == ErrorCode.NOT_LEADER_OR_FOLLOWER, code)

    def _check(self, api: str, is_right: bool, code: int, more: str = "") -> None:
        if self.node.gateway is not self.gateway or not self._has_others:
            return
        self.world.strikes.count("isolate.judged")
        if not is_right:
            seconds = trio.current_time() - self.since
            text = f"node {self.node.node_id}, without the log for {seconds:.0f} s, answers {api}"
            self.world.complain(
                "served though cut off", f"{text} with {ErrorCode(code).name}{more}"
            )
