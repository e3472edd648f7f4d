"""At the end of some runs, clients of several gateways use one quota that the gateways share.

Each gateway has its pushers, which want very different amounts.  They send batches that no gateway
stores, since their checksum is wrong: quotas count what is sent.  Then gateways die, do not reach
each other, or lose answers.  Consumers have no part in it.

Kinds of violations:

    shares above the quota   the shares of all gateways add up to more than the quota
    above the quota          more passed than the quota, where all gateways reach each other
    below the quota          less passed, though clients wanted more
    below the fair share     less passed at a gateway than its part, though its clients wanted more
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from random import Random
from typing import Final

import trio

from tidegate_coordination.placement.rendezvous import choose
from tidegate_gateway.quotas.sharing.messages import key_of
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_client_quotas as acq
from tidegate_protocol.messages import produce
from tidegate_protocol.records import Record, build_batch

from ..clients.client import Client, Disconnected
from ..plans.quota_plan import ALONE, LOSSY, MOVES, OTHER_DIES, OWNER_DIES, PAIR
from ..world.node import Node
from ..world.world import World

QUOTA: Final = 20_000
CLIENT_ID: Final = "metered"
KEY: Final = key_of("Produce", "", CLIENT_ID)
TOPIC: Final = "orders"
_PUSHERS: Final = 3
_WARM_SECONDS: Final = 20.0
_SETTLE_SECONDS: Final = 6.0
_STRIKE_SECONDS: Final = 12.0
_AWAY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.25
_TURN_SECONDS: Final = 0.05
_NEW_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 0.1
"""With a slower network, pushers may not reach the quota, nor gateways each other in time."""
_LEAST, _MOST, _LEAST_PART = 0.9, 1.1, 0.8
_EVEN: Final = (1.0, 1.0, 1.0)
_UNEVEN: Final = ((1.8, 0.2, 0.001), (5.0, 0.001, 0.001))
"""What the clients of three gateways want, in quotas; those of others want nearly nothing."""
_NEARLY_NOTHING: Final = 0.001


class Pusher:
    """One connection that sends as much as it may; passed: when how many bytes did.

    wanted: bytes in a second.
    """

    def __init__(self, world: World, name: str, node_id: int, size_bytes: int) -> None:
        self.client = Client(world, name)
        self.client.client_id = CLIENT_ID
        self.node_id = node_id
        self.wanted = 0.0
        self.passed: list[tuple[float, int]] = []
        self._world = world
        self._batch = bytearray(build_batch([Record(0, 0, None, bytes(size_bytes), ())]))
        self._batch[-1] ^= 1
        self._most = 2.0 * len(self._batch)

    async def run(self) -> None:
        """Push, forever."""
        # The first one at once: so no gateway meets the quota for the first time later on.
        backlog, since = float(len(self._batch)), trio.current_time()
        while True:
            if backlog < len(self._batch):
                await trio.sleep(_TURN_SECONDS)
            now = trio.current_time()
            backlog, since = min(backlog + self.wanted * (now - since), self._most), now
            if backlog < len(self._batch):
                continue
            backlog -= len(self._batch)
            try:
                await self._push()
            except Disconnected:
                self._go_elsewhere()
                await trio.sleep(0.2)

    async def _push(self) -> None:
        data = produce.PartitionProduceData(0, bytes(self._batch))
        request = produce.ProduceRequest(
            None, -1, 30_000, [produce.TopicProduceData(TOPIC, partition_data=[data])]
        )
        answer = await self.client.call(
            "Produce", produce, 9, request, node_id=self.node_id, timeout_seconds=300.0
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code != ErrorCode.CORRUPT_MESSAGE:
            self._world.complain("false error", f"a wrong checksum: {ErrorCode(code).name}")
        self.passed.append((trio.current_time(), len(self._batch)))

    def _go_elsewhere(self) -> None:
        """Turn to a gateway that knows the quota, if this one does not live."""
        nodes = self._world.nodes
        if nodes[self.node_id].gateway is None:
            alive = [each for each, node in sorted(nodes.items()) if _share(node) is not None]
            self.node_id = alive[0] if alive else self.node_id


class QuotaTrial:
    """See the module's head."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self._world = world
        self._nodes = nodes
        self._rng: Random = world.rng("quota trial")
        self._is_slow = world.plan.latency_seconds > _SLOW_SECONDS
        self._most_shares = inf
        # In a slow network answers are late, and small shares become even ones now and then.
        self._calm_shares = QUOTA * (2.0 if self._is_slow else 1.0)
        size_bytes = self._rng.choice((1_000, 5_000, 60_000))
        self._slack_bytes = 2 * size_bytes * len(nodes) * (size_bytes > QUOTA) + size_bytes
        self._pushers = [
            Pusher(world, f"pusher {number} of {node.name}", node.node_id, size_bytes)
            for node in nodes
            for number in range(1, _PUSHERS + 1)
        ]
        self._strikes: dict[str, Callable[[], Awaitable[None]]] = {
            OWNER_DIES: self._owner_dies,
            OTHER_DIES: self._other_dies,
            ALONE: self._alone,
            PAIR: self._pair,
            LOSSY: self._lossy,
            MOVES: self._moves,
        }

    async def run(self) -> None:
        """Do all of it."""
        await self._set_quota(QUOTA)
        async with trio.open_nursery() as nursery:
            self._draw_demand()
            for each in self._pushers:
                nursery.start_soon(each.run)
            nursery.start_soon(self._watch)
            await trio.sleep(_WARM_SECONDS)
            self._most_shares = self._calm_shares
            await self._judge("at the beginning")
            for kind in self._world.plan.quotas.strikes:
                while any(each.gateway is None for each in self._nodes):  # noqa: ASYNC110
                    await trio.sleep(_LOOK_SECONDS)
                self._world.strikes.count(kind)
                await self._strikes[kind]()
                await trio.sleep(_SETTLE_SECONDS)
                self._most_shares = self._calm_shares
                await self._judge(f"after {kind}")
            nursery.cancel_scope.cancel()
        for each in self._pushers:
            each.client.close()
        await self._set_quota(None)

    def _draw_demand(self) -> None:
        self._want(self._rng.choice((_EVEN, *_UNEVEN)))

    def _used(self) -> list[Node]:
        """Return the gateways that have clients, in any order."""
        used = {each.node_id for each in self._pushers}
        return self._rng.sample([each for each in self._nodes if each.node_id in used], len(used))

    def _want(self, parts: Sequence[float], nodes: Sequence[Node] = ()) -> None:
        """Let the clients of gateways want so much; of any gateways if none are given."""
        wanted = {
            node.node_id: part for node, part in zip(nodes or self._used(), parts, strict=False)
        }
        for each in self._pushers:
            each.wanted = wanted.get(each.node_id, _NEARLY_NOTHING) * QUOTA / _PUSHERS

    async def _judge(self, when: str) -> None:
        """Compare what passes with the quota, for a while."""
        seconds = 150.0 if self._slack_bytes > QUOTA else 15.0
        begun = trio.current_time()
        await trio.sleep(seconds)
        passed = sum(size for each in self._pushers for at, size in each.passed if at > begun)
        text = f"{when}: {passed} bytes in {seconds} s, {QUOTA} a second are allowed"
        if passed > QUOTA * seconds * _MOST + self._slack_bytes:
            self._world.complain("above the quota", text)
        if self._is_slow:
            return
        if passed < QUOTA * seconds * _LEAST - self._slack_bytes:
            self._world.complain("below the quota", text)
        for node in self._nodes:
            self._judge_part(node, begun, seconds, when)

    def _judge_part(self, node: Node, begun: float, seconds: float, when: str) -> None:
        """Compare what passes at one gateway with an even part of the quota."""
        own = [each for each in self._pushers if each.node_id == node.node_id]
        wanted = min(sum(each.wanted for each in own), QUOTA / len(self._nodes))
        passed = sum(size for each in own for at, size in each.passed if at > begun)
        if passed < wanted * seconds * _LEAST_PART - self._slack_bytes:
            text = f"{when}: {passed} bytes at {node.name} in {seconds} s; {wanted} a second wanted"
            self._world.complain("below the fair share", text)

    async def _watch(self) -> None:
        """See that the shares never add up to more than they may.

        A gateway that meets the quota for the first time begins with an even share, until it asks.
        """
        met: dict[int, float] = {}
        while True:
            await trio.sleep(_LOOK_SECONDS)
            now, shares = trio.current_time(), list[float]()
            for node in self._nodes:
                share, gateway = _share(node), node.gateway
                if share is not None and gateway is not None:
                    shares.append(share)
                    met.setdefault(gateway.coordinator.incarnation, now)
            new = sum(now - each < _NEW_SECONDS for each in met.values())
            if sum(shares) > (self._most_shares + new * QUOTA / len(self._nodes)) * 1.000001:
                self._world.complain("shares above the quota", f"{shares} of {QUOTA}")

    # -- what befalls the gateways ----------------------------------------------------------------

    def _owner(self) -> Node:
        serving = [each.node_id for each in self._nodes if each.gateway is not None]
        return next(each for each in self._nodes if each.node_id == choose(KEY, serving))

    async def _owner_dies(self) -> None:
        """Let all clients want more, so that they would use what a new owner gives too much."""
        self._want(_EVEN)
        await trio.sleep(_SETTLE_SECONDS)
        await self._kill(self._owner())

    async def _other_dies(self) -> None:
        owner = self._owner()
        await self._kill(self._rng.choice([each for each in self._nodes if each is not owner]))

    async def _kill(self, node: Node) -> None:
        """Let a gateway die, and come back once what passes without it is known."""
        node.away_until = trio.current_time() + _AWAY_SECONDS
        node.crash()
        await trio.lowlevel.checkpoint()

    async def _alone(self) -> None:
        """Cut off the owner, or another gateway, when its clients use most of the quota."""
        alone = self._rng.choice([self._owner(), *self._used()])
        others = [each for each in self._nodes if each is not alone]
        self._want((5.0, 0.2, 0.2), [alone, *others])
        await trio.sleep(_SETTLE_SECONDS)
        self._want((5.0, 1.0, 1.0), [alone, *others])
        await self._cut([(alone, each) for each in others])

    async def _pair(self) -> None:
        """Cut the owner off from the gateway that would divide the quota without it."""
        owner = self._owner()
        others = {each.node_id: each for each in self._nodes if each is not owner}
        self._want(_EVEN, [owner, *others.values()])
        await trio.sleep(_SETTLE_SECONDS)
        await self._cut([(owner, others[choose(KEY, list(others))])])

    async def _cut(self, pairs: list[tuple[Node, Node]]) -> None:
        """Cut; a gateway that does not reach the owner goes on with quota / live gateways."""
        self._most_shares = self._calm_shares + QUOTA / len(self._nodes)
        names = [(one.name, other.name) for one, other in pairs]
        with self._world.cuts.between([*names, *((b, a) for a, b in names)]):
            await trio.sleep(_STRIKE_SECONDS)

    async def _lossy(self) -> None:
        self._most_shares = 2 * QUOTA
        self._world.lost_shares = 0.5
        await trio.sleep(_STRIKE_SECONDS)
        self._world.lost_shares = 0.0

    async def _moves(self) -> None:
        """Let some clients want more than before; what they wanted still passes for a while."""
        self._want(self._rng.choice(_UNEVEN))
        await trio.sleep(2 * _SETTLE_SECONDS)
        self._want(_EVEN)
        await trio.sleep(_SETTLE_SECONDS)

    async def _set_quota(self, value: float | None) -> None:
        """Set the quota, or remove it with None."""
        admin = Client(self._world, "quota setter")
        entity = acq.AlterClientQuotasRequestEntityData("client-id", CLIENT_ID)
        op = acq.OpData("producer_byte_rate", value or 0.0, value is None)
        entry = acq.AlterClientQuotasRequestEntryData([entity], [op])
        request = acq.AlterClientQuotasRequest([entry])
        while True:
            try:
                answer = await admin.call("AlterClientQuotas", acq, 1, request)
                break
            except Disconnected:
                await admin.pause(1.0)
        if answer.entries[0].error_code:
            self._world.complain("false error", f"AlterClientQuotas: {answer}")
        admin.close()


def _share(node: object) -> float | None:
    """Return a gateway's share of the quota; None if it does not live, or no client has used it."""
    gateway = node.gateway if isinstance(node, Node) else None
    if gateway is None:
        return None
    now_ms = int(trio.current_time() * 1_000)
    for bucket, usage in gateway.quotas.produced.recent(10, now_ms):
        if bucket.client_id == CLIENT_ID:
            return usage.share(now_ms)
    return None
