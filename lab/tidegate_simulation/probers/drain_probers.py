"""Watches draining gateways, and judges their answers by their own replicas.

An answer counts only if no fact that it depends on changed between request and answer.

- A group's coordinator is the live holder of its claim.  If there is none, gateways name no
  draining gateway while others do not drain.
- Metadata names all gateways that do not drain as brokers, and none that left.
- A gateway that neither holds a group's claim nor may take it serves none of its members.
- A draining gateway refuses a batch with a retriable error.
- If there are other gateways, a draining gateway that can write to the log soon releases all claims
  of groups.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio

from tidegate_coordination.placement.groups import holder
from tidegate_coordination.rules.consumer_groups.groups import GROUP_CLAIMS, group_claim
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.claims import Claim
from tidegate_gateway.gateway import Gateway
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator, heartbeat, metadata

from ..clients.client import Disconnected
from ..clients.producers import RETRIABLE, PlainProducer
from ..clients.workload import Workload
from ..members.steady import STEADY_GROUP
from ..world.node import Node
from ..world.world import NotReachable

ANSWER_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 1.0
# After this long the gateway has asked for the release of its claims, or has been stopped all the
# time.  Its entries come in the order of its requests, so one of this many later entries must have
# the release.
ASKED_SECONDS: Final = 3.0
ENTRIES: Final = 2
_NOT_HERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A gateway, and the facts that its answers depend on.

    log_answered_at: when its metadata log had last answered, at the time of the choice.
    """

    node: Node
    gateway: Gateway
    version: int
    claim: Claim | None
    log_answered_at: float = field(compare=False)

    @property
    def state(self) -> ClusterState:
        return self.gateway.coordinator.state

    @property
    def is_unchanged(self) -> bool:
        is_same = self.node.gateway is self.gateway and _seen(self.node, self.gateway) == self
        return is_same and not self._may_have_been_cut_off

    @property
    def _may_have_been_cut_off(self) -> bool:
        """Return whether a cut from the log may have changed which gateways its answers name."""
        lease_seconds = self.state.gateways.lease_ms / 1000
        return trio.current_time() >= self.log_answered_at + lease_seconds

    @property
    def has_to_go(self) -> bool:
        """Return whether the gateway drains and another gateway does not."""
        brokers = self.state.gateways.brokers()
        mine = self.gateway.coordinator.incarnation
        drains = any(each.incarnation == mine and each.draining for each in brokers)
        return drains and any(not each.draining for each in brokers)

    @property
    def may_serve_group(self) -> bool:
        held = holder(self.state, STEADY_GROUP)
        if held is not None:
            return held.incarnation == self.gateway.coordinator.incarnation
        return not self.has_to_go


def _seen(node: Node, gateway: Gateway) -> _Seen:
    state = gateway.coordinator.state
    claim = state.claims.get(group_claim(STEADY_GROUP))
    answered_at = gateway.coordinator.log_answered_at
    return _Seen(node, gateway, state.gateways.version, claim, answered_at)


@dataclass(slots=True)
class _Held:
    """Notes on a gateway that still holds claims of groups while it has to release them.

    since: when the prober first saw these claims.  clock_ms: of the gateway's last entry.  entries:
    how many of its entries the prober saw later than ASKED_SECONDS after `since`.
    """

    since: float
    clock_ms: int
    entries: int = 0


class DrainProber(PlainProducer):
    """A client of draining gateways."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._world = workload.world
        self._held: dict[int, _Held] = {}

    async def run(self) -> None:
        """Ask until no operation is left."""
        while self.workload.operations_left > 0:
            gateways = self._gateways()
            for each in gateways:
                self._look(each)
            if gateways:
                leaving = [each for each in gateways if each.has_to_go]
                with suppress(Disconnected, NotReachable):
                    await self._probe(self.rng.choice(leaving or gateways))
            await self.client.pause(PAUSE_SECONDS)
        self.client.close()

    def _gateways(self) -> list[_Seen]:
        nodes = [each for _, each in sorted(self._world.nodes.items()) if isinstance(each, Node)]
        return [_seen(each, each.gateway) for each in nodes if each.gateway is not None]

    async def _probe(self, seen: _Seen) -> None:
        probes = [self._probe_find, self._probe_brokers, self._probe_beat]
        if seen.has_to_go:
            probes.append(self._probe_produce)
        await self.rng.choice(probes)(seen)

    # -- claims -----------------------------------------------------------------------------------

    def _look(self, seen: _Seen) -> None:
        incarnation = seen.gateway.coordinator.incarnation
        me = seen.state.gateways.live.get(incarnation)
        held = len(seen.state.claims.held_by(incarnation, GROUP_CLAIMS))
        if me is None or not seen.has_to_go or not held:
            self._held.pop(incarnation, None)
            return
        now = trio.current_time()
        known = self._held.setdefault(incarnation, _Held(now, me.clock_ms))
        if known.clock_ms != me.clock_ms:
            known.clock_ms = me.clock_ms
            known.entries += now - known.since > ASKED_SECONDS
        if known.entries > ENTRIES:
            text = f"node {seen.node.node_id} drains, and holds {held} groups"
            self._world.complain("claims kept", text)
            self._held.pop(incarnation, None)

    # -- answers ----------------------------------------------------------------------------------

    async def _probe_find(self, seen: _Seen) -> None:
        connection = await self.client.connection(seen.node.node_id)
        request = find_coordinator.FindCoordinatorRequest(coordinator_keys=[STEADY_GROUP])
        reply = await connection.send("FindCoordinator", find_coordinator, 4, request)
        answer = (await reply.wait(ANSWER_SECONDS)).coordinators[0]
        if answer.error_code or not seen.is_unchanged:
            return
        held = holder(seen.state, STEADY_GROUP)
        brokers = seen.state.gateways.brokers()
        serving = [each for each in brokers if not each.draining] or brokers
        right = {each.node_id for each in ([held] if held is not None else serving)}
        self._world.strikes.count("drain.found")
        if answer.node_id not in right:
            text = f"node {seen.node.node_id} names {answer.node_id}, not one of {right}"
            self._world.complain("wrong coordinator", text)

    async def _probe_brokers(self, seen: _Seen) -> None:
        connection = await self.client.connection(seen.node.node_id)
        reply = await connection.send("Metadata", metadata, 12, metadata.MetadataRequest([]))
        answer = await reply.wait(ANSWER_SECONDS)
        if not seen.is_unchanged:
            return
        brokers = seen.state.gateways.brokers()
        named = {each.node_id for each in answer.brokers}
        least = {each.node_id for each in brokers if not each.draining}
        most = {each.node_id for each in brokers}
        self._world.strikes.count("drain.brokers")
        if not least <= named <= most:
            text = f"node {seen.node.node_id} names {named}, not {least} to {most}"
            self._world.complain("wrong brokers", text)

    async def _probe_beat(self, seen: _Seen) -> None:
        if seen.may_serve_group:
            return
        connection = await self.client.connection(seen.node.node_id)
        group = seen.state.groups.get(STEADY_GROUP)
        if group is None or not group.members:
            return
        # The heartbeat of a live member, which sends its own heartbeats to another gateway.
        member = self.rng.choice(group.members).member_id
        request = heartbeat.HeartbeatRequest(STEADY_GROUP, group.generation, member)
        reply = await connection.send("Heartbeat", heartbeat, 4, request)
        code = ErrorCode((await reply.wait(ANSWER_SECONDS)).error_code)
        if not seen.is_unchanged:
            return
        self._world.strikes.count("drain.not_here")
        if code not in _NOT_HERE:
            text = f"node {seen.node.node_id} holds no claim, and answers {code.name}"
            self._world.complain("served without a claim", text)

    async def _probe_produce(self, seen: _Seen) -> None:
        connection = await self.client.connection(seen.node.node_id)
        batch = self.make(self.rng.choice(self.workload.keys), None, {})
        try:
            sent = await self.submit(connection, [batch], -1)
            [(_, code, offset)] = self.results(sent, await sent.reply.wait(ANSWER_SECONDS))
        except Disconnected:
            self.history.info(batch.invoke)
            raise
        self._settle(batch, code, offset)
        self._world.strikes.count("drain.produced")
        if code != ErrorCode.NONE and code not in RETRIABLE:
            text = f"node {seen.node.node_id} drains, and refuses a batch with {code.name}"
            self._world.complain("fatal refusal", text)
