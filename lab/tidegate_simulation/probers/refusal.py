"""Judges the answers of a gateway while the object store refuses its calls, and afterwards.

If the store has long refused its PUTs, or its trial reads, while other gateways committed, the
gateway must refuse producers and name another leader.  A moment after the store takes its calls
again, it must serve.  If the store refuses the calls of all gateways, none may refuse producers
with NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import metadata, produce

from ..clients.client import ClientConnection, Disconnected
from ..plans.gateways.refused_plan import is_judged
from ..world.node import Node
from ..world.world import NotReachable, World

# The mark, the proofs of the others, and the time until gateways name others take about 4 s.
_MUST_KNOW_SECONDS: Final = 8.0
_LOOK_SECONDS: Final = 0.5
_STILL_TRIES_SECONDS: Final = 2.0
_RETURN_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 5.0
_NAME: Final = "refusal"


class Refused:
    """A gateway that is about to be refused."""

    def __init__(self, world: World, nodes: Sequence[Node], node: Node) -> None:
        self._world = world
        self._nodes = nodes
        self._node = node
        self._gateway = node.gateway
        self._commits: list[float] = []
        self._settled: dict[int, int] = {}
        self._is_judged = is_judged(world.plan.kinds)

    async def look_for_others(self) -> None:
        """Note when other gateways commit; forever."""
        while True:
            self._look()
            await trio.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        """Note the commits that the gateway itself has read."""
        if self._gateway is None:
            return
        state, me = self._gateway.coordinator.state, self._gateway.coordinator.incarnation
        before = self._settled
        well = (
            each.incarnation
            for each in state.gateways.serving()
            if each.incarnation != me and not state.objects.is_newest_abandoned(each.incarnation)
        )
        self._settled = {each: state.objects.next_counter(each) for each in well}
        if any(before.get(each, count) != count for each, count in self._settled.items()):
            self._commits.append(trio.current_time())

    async def judge(self) -> None:
        """Check that the gateway refuses producers, if it must."""
        if self._must_know():
            code = await self._asked()
            if code is not None and self._must_know():
                self._world.strikes.count("refusal.judged")
                if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._complain("served though the store refuses it", code)
                elif self._node.node_id in await self._leaders() and self._must_know():
                    text = f"node {self._node.node_id} refuses Produce, and names itself leader"
                    self._world.complain("leader though the store refuses it", text)

    async def judge_among_refused(self) -> bool:
        """Check that the gateway serves while the store refuses all; return whether it answered."""
        if self._is_same and self._gateway is not None and not self._gateway.is_draining:
            code = await self._asked()
            if code is not None and self._is_same and not self._gateway.is_draining:
                self._world.strikes.count("refusal.judged_all")
                if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._complain("sends producers away though none is better", code)
                return True
        return False

    async def judge_return(self) -> None:
        """Check that the gateway serves again; call this when the store no longer refuses it."""
        if not self._is_same:
            return
        await trio.sleep(_RETURN_SECONDS)
        if self._is_same and self._is_free():
            code = await self._asked()
            if code is not None and self._is_same and self._is_free():
                self._world.strikes.count("refusal.returned")
                if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._complain("refuses though the store is back", code)

    @property
    def _is_same(self) -> bool:
        gateway = self._gateway
        return self._is_judged and gateway is not None and self._node.gateway is gateway

    def _must_know(self) -> bool:
        store, gateway, now = self._node.store, self._gateway, trio.current_time()
        if not self._is_same or store is None or gateway is None or gateway.is_draining:
            return False
        still_puts = now - store.put_refused_at <= _STILL_TRIES_SECONDS
        puts_since = store.puts_refused_since if still_puts else None
        gets_since = gateway.reads.store_way.gets.failing_since
        return self._is_long(puts_since, now) or self._is_long(gets_since, now)

    def _is_long(self, since: float | None, now: float) -> bool:
        if since is None or now - since < _MUST_KNOW_SECONDS:
            return False
        late = [each for each in self._commits if each >= since + _MUST_KNOW_SECONDS / 2]
        return bool(late) and late[-1] - self._commits[0] > _MUST_KNOW_SECONDS / 2

    def _is_free(self) -> bool:
        """Return whether no fault of the store strikes the gateway, and it does not drain."""
        store, gateway = self._node.store, self._gateway
        is_free = store is not None and not store.faults.refused and not store.faults.outage
        return is_free and gateway is not None and not gateway.is_draining

    async def _asked(self) -> int | None:
        """Return the gateway's error code for a producer; None without an answer."""
        assert self._gateway is not None
        topic = next(iter(self._gateway.coordinator.state.topics.by_id.values()), None)
        if topic is None or topic.link:
            return None
        # Without records, because any gateway must refuse such a request.
        data = produce.TopicProduceData(
            topic_id=topic.topic_id, partition_data=[produce.PartitionProduceData(0)]
        )
        request = produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
        written: produce.ProduceResponse | None = await self._ask("Produce", produce, 13, request)
        return written.responses[0].partition_responses[0].error_code if written else None

    async def _leaders(self) -> set[int]:
        """Return the leaders that the gateway names for all partitions."""
        request = metadata.MetadataRequest(None, allow_auto_topic_creation=False)
        named: metadata.MetadataResponse | None = await self._ask("Metadata", metadata, 12, request)
        topics = named.topics if named else []
        return {each.leader_id for topic in topics for each in topic.partitions}

    async def _ask(self, name: str, messages: ModuleType, version: int, request: Any) -> Any:
        """Return the answer to a request; None if there is none."""
        with trio.move_on_after(_ANSWER_SECONDS):
            try:
                connection = ClientConnection(self._node.connect(_NAME), _NAME)
            except NotReachable:
                return None
            self._world.nursery.start_soon(connection.run)
            try:
                reply = await connection.send(name, messages, version, request)
                return await reply.wait(_ANSWER_SECONDS)
            except Disconnected:
                return None
            finally:
                connection.close()
        return None

    def _complain(self, kind: str, code: int) -> None:
        text = f"node {self._node.node_id} answers Produce with {ErrorCode(code).name}"
        self._world.complain(kind, text)
