"""At the end of some runs, clients of several gateways use one quota that the gateways share.

Each gateway has its pushers, which want very different amounts.  Their batches have a wrong
checksum, so that no gateway stores them, but quotas count them.  Then gateways die, do not reach
each other, in one direction or in both, or lose answers.  In some runs consumers then share a quota
of their own in the same way: they read one batch again and again.

Kinds of violations:

    shares above the quota   the shares of all gateways add up to more than the quota
    above the quota          more passed than the quota, where all gateways reach each other
    below the quota          less passed, though clients wanted more; consumers get less by design
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
from tidegate_protocol.messages import alter_client_quotas as acq

from ..clients.client import Client
from ..plans.security.quota_plan import (
    ALONE,
    DEAF,
    LOSSY,
    MOVES,
    MUTE,
    OTHER_DIES,
    OWNER_DIES,
    PAIR,
)
from ..world.node import Node
from ..world.world import World
from .metered import CLIENT_ID, OF_CONSUMERS, OF_PRODUCERS, Metered, share_of, store_batch

QUOTA: Final = 20_000
_PUSHERS: Final = 3
_WARM_SECONDS: Final = 20.0
_SETTLE_SECONDS: Final = 6.0
_STRIKE_SECONDS: Final = 12.0
_AWAY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.25
_NEW_SECONDS: Final = 1.0
_FALL_SECONDS: Final = 1.0
_CUTS: Final = (ALONE, PAIR, DEAF, MUTE)
_SLOW_SECONDS: Final = 0.1
"""With a slower network, pushers may not reach the quota, nor gateways each other in time."""
_MOST, _MOST_WHERE_SLOW, _LEAST_PART = 1.1, 1.3, 0.8
_EVEN: Final = (1.0, 1.0, 1.0)
_UNEVEN: Final = ((1.8, 0.2, 0.001), (5.0, 0.001, 0.001))
"""The demand of the clients of three gateways, in quotas; clients of other gateways want almost
nothing.
"""
_NEARLY_NOTHING: Final = 0.001


class QuotaTrial:
    """The trial of a shared quota at the end of a run."""

    def __init__(
        self, world: World, nodes: Sequence[Node], metered: Metered = OF_PRODUCERS
    ) -> None:
        self._world = world
        self._metered = metered
        self._key = key_of(metered.make.api, "", CLIENT_ID)
        self._nodes = nodes
        is_first = metered is OF_PRODUCERS
        self._rng: Random = world.rng("quota trial" if is_first else "trial of consumers")
        plan = world.plan.quotas
        self._kinds = plan.strikes if is_first else plan.of_consumers
        self._is_slow = world.plan.latency_seconds > _SLOW_SECONDS
        self._most_shares = inf
        self._fall_seconds = 0.0
        # In a slow network answers are late: now and then a small share becomes an even one.
        self._calm_shares = QUOTA * (2.0 if self._is_slow else 1.0)
        self._size_bytes = size_bytes = self._rng.choice(metered.sizes)
        self._slack_bytes = 2 * size_bytes * len(nodes) * (size_bytes > QUOTA) + size_bytes
        self._pushers = [
            metered.make(world, f"pusher {number} of {node.name}", node.node_id, size_bytes)
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
            DEAF: self._deaf,
            MUTE: self._mute,
        }

    async def run(self) -> None:
        """Run the whole trial."""
        if self._metered is OF_CONSUMERS:
            offset = await store_batch(self._world, self._size_bytes)
            for each in self._pushers:
                each.offset = offset
        await self._set_quota(QUOTA)
        async with trio.open_nursery() as nursery:
            self._draw_demand()
            for each in self._pushers:
                nursery.start_soon(each.run)
            nursery.start_soon(self._watch)
            await trio.sleep(_WARM_SECONDS)
            self._most_shares = self._calm_shares
            await self._judge("at the beginning")
            for kind in self._kinds:
                while any(each.gateway is None for each in self._nodes):  # noqa: ASYNC110
                    await trio.sleep(_LOOK_SECONDS)
                self._world.strikes.count(kind)
                self._fall_seconds = _FALL_SECONDS if kind in _CUTS else 0.0
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
        """Set the parts of the quota that clients want at gateways.

        nodes: if empty, any gateways.
        """
        wanted = {
            node.node_id: part for node, part in zip(nodes or self._used(), parts, strict=False)
        }
        for each in self._pushers:
            each.wanted = wanted.get(each.node_id, _NEARLY_NOTHING) * QUOTA / _PUSHERS

    async def _judge(self, when: str) -> None:
        """Compare the passed bytes with the quota, for a while."""
        seconds = 150.0 if self._slack_bytes > QUOTA else 15.0
        begun = trio.current_time()
        await trio.sleep(seconds)
        passed = sum(size for each in self._pushers for at, size in each.passed if at > begun)
        text = f"{when}: {passed} bytes in {seconds} s, {QUOTA} a second are allowed"
        # In a slow network shares may add up to more now and then: see _calm_shares.
        most = _MOST_WHERE_SLOW if self._is_slow else _MOST
        if passed > QUOTA * seconds * most + self._slack_bytes:
            self._world.complain("above the quota", text)
        if self._is_slow:
            return
        if passed < QUOTA * seconds * self._metered.least - self._slack_bytes:
            self._world.complain("below the quota", text)
        if self._metered is OF_PRODUCERS:
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
        """Check that the shares never add up to more than allowed.

        A gateway that uses the quota for the first time begins with an even share, until it asks.
        When gateways reach each other again after a cut, some shares fall step by step while others
        rise.
        """
        met: dict[int, float] = {}
        looks_above = 0
        while True:
            await trio.sleep(_LOOK_SECONDS)
            now, shares = trio.current_time(), list[float]()
            for node in self._nodes:
                share, gateway = share_of(node, self._metered.make.api), node.gateway
                if share is not None and gateway is not None:
                    shares.append(share)
                    met.setdefault(gateway.coordinator.incarnation, now)
            new = sum(now - each < _NEW_SECONDS for each in met.values())
            most = (self._most_shares + new * QUOTA / len(self._nodes)) * 1.000001
            looks_above = looks_above + 1 if sum(shares) > most else 0
            if looks_above * _LOOK_SECONDS > self._fall_seconds:
                self._world.complain("shares above the quota", f"{shares} of {QUOTA}")

    # -- what befalls the gateways ----------------------------------------------------------------

    def _owner(self) -> Node:
        serving = [each.node_id for each in self._nodes if each.gateway is not None]
        return next(each for each in self._nodes if each.node_id == choose(self._key, serving))

    async def _owner_dies(self) -> None:
        """Kill the owner while all clients want more: they will use all that a new owner grants."""
        self._want(_EVEN)
        await trio.sleep(_SETTLE_SECONDS)
        await self._kill(self._owner())

    async def _other_dies(self) -> None:
        owner = self._owner()
        await self._kill(self._rng.choice([each for each in self._nodes if each is not owner]))

    async def _kill(self, node: Node) -> None:
        """Kill a gateway; it comes back after the time in which the others are judged."""
        node.away_until = trio.current_time() + _AWAY_SECONDS
        node.crash()
        await trio.lowlevel.checkpoint()

    async def _alone(self) -> None:
        """Cut off the owner, or another gateway, while its clients use most of the quota."""
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
        await self._cut([(owner, others[choose(self._key, list(others))])])

    async def _cut(self, pairs: list[tuple[Node, Node]]) -> None:
        """Cut the pairs; a gateway that does not reach the owner takes quota / live gateways."""
        self._most_shares = self._calm_shares + QUOTA / len(self._nodes)
        names = [(one.name, other.name) for one, other in pairs]
        with self._world.cuts.between([*names, *((b, a) for a, b in names)]):
            await trio.sleep(_STRIKE_SECONDS)

    async def _deaf(self) -> None:
        """Block questions from the others to one gateway, so that they count it as absent."""
        await self._in_one_way(lambda one, other: (other, one), unseen_share=1.0)

    async def _mute(self) -> None:
        """Block questions from one gateway to the others, which still reach this gateway."""
        await self._in_one_way(lambda one, other: (one, other), unseen_share=0.5)

    async def _in_one_way(
        self, way: Callable[[str, str], tuple[str, str]], *, unseen_share: float
    ) -> None:
        """Block questions about shares, and perhaps probes, between one gateway and the others."""
        one = self._rng.choice([self._owner(), *self._used()])
        others = [each for each in self._nodes if each is not one]
        self._want((5.0, 1.0, 1.0), [one, *others])
        self._most_shares = self._calm_shares + QUOTA / len(self._nodes)
        blocked = {way(one.name, each.name) for each in others}
        self._world.unheard |= blocked
        if self._rng.random() < unseen_share:
            self._world.unseen |= blocked
        await trio.sleep(2 * _STRIKE_SECONDS)
        self._judge_strike(_STRIKE_SECONDS)
        self._world.unheard -= blocked
        self._world.unseen -= blocked

    def _judge_strike(self, seconds: float) -> None:
        """Check that also now at most twice the quota passed (docs/operations/quotas.md)."""
        since = trio.current_time() - seconds
        passed = sum(size for each in self._pushers for at, size in each.passed if at > since)
        if passed > 2 * QUOTA * seconds + self._slack_bytes and not self._is_slow:
            self._world.complain("above the quota", f"{passed} bytes in the last {seconds} s")

    async def _lossy(self) -> None:
        self._most_shares = 2 * QUOTA
        self._world.lost_shares = 0.5
        await trio.sleep(_STRIKE_SECONDS)
        self._world.lost_shares = 0.0

    async def _moves(self) -> None:
        """Let clients want unlike parts, then like parts, so that shares must move."""
        self._want(self._rng.choice(_UNEVEN))
        await trio.sleep(2 * _SETTLE_SECONDS)
        self._want(_EVEN)
        await trio.sleep(_SETTLE_SECONDS)

    async def _set_quota(self, value: float | None) -> None:
        """Set the quota, or remove it with None."""
        admin = Client(self._world, "quota setter")
        entity = acq.AlterClientQuotasRequestEntityData("client-id", CLIENT_ID)
        op = acq.OpData(self._metered.config, value or 0.0, value is None)
        entry = acq.AlterClientQuotasRequestEntryData([entity], [op])
        request = acq.AlterClientQuotasRequest([entry])
        answer = await admin.insist("AlterClientQuotas", acq, 1, request)
        if answer.entries[0].error_code:
            self._world.complain("false error", f"AlterClientQuotas: {answer}")
        admin.close()
