"""Gateways of one zone that lend each other objects, in some seeds, and the faults of lending.

unreachable  the request does not arrive
silent       the owner never answers
slow         the answer comes up to a second later
damaged      one bit of the bytes is wrong
short        the last bytes are missing
missing      the owner answers that it has no such object
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk, target_of
from tidegate_gateway.peers.peers import lent_bytes
from tidegate_runtime.http.values import HttpAnswer, HttpRequest

from .world import NotReachable, World

PREFIX: Final = "lending."
_KINDS: Final = ("unreachable", "silent", "slow", "damaged", "short", "missing")
_SLOW_SECONDS: Final = 1.0


class SimulatedLenders:
    """See zone_reads.ObjectPeers.

    name, zone: of the asking machine.  is_calm: lending has no faults in this run.
    """

    def __init__(self, world: World, name: str, zone: str, *, is_calm: bool) -> None:
        self._world = world
        self._name = name
        self._zone = zone
        self._rng = world.rng(f"{name}/lending")
        self._rate = 0.0 if is_calm else self._rng.choice((0.0, 0.1, 0.5))

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        """See zone_reads.ObjectPeers."""
        if gateway.zone != self._zone:
            self._world.complain("wrong lender", f"{self._name} asks one of {gateway.zone}")
        with trio.move_on_after(timeout_seconds):
            request = HttpRequest("GET", target_of(ask))
            answer = await self._answer(gateway, request, self._draw())
            return lent_bytes(f"node{gateway.node_id}", answer, ask)
        raise PeerUnavailable("it took too long")

    async def doubt(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> None:
        """See zone_reads.ObjectPeers."""
        with trio.move_on_after(timeout_seconds):
            await self._answer(gateway, HttpRequest("POST", target_of(ask)), self._draw())
            return
        raise PeerUnavailable("it took too long")

    def _draw(self) -> str:
        """Return the fault of this call."""
        if self._world.healed or self._rng.random() >= self._rate:
            return ""
        kind = self._rng.choice(_KINDS)
        self._world.strikes.count(f"{PREFIX}{kind}")
        return kind

    async def _answer(self, gateway: Gateway, request: HttpRequest, kind: str) -> HttpAnswer:
        await trio.sleep(self._rng.random() * self._world.plan.latency_seconds)
        if kind == "unreachable":
            raise PeerUnavailable("injected: unreachable")
        if kind == "silent":
            await trio.sleep_forever()
        if kind == "missing":
            return HttpAnswer(404)
        answer = await self._asked(gateway, request)
        if kind == "slow":
            await trio.sleep(self._rng.random() * _SLOW_SECONDS)
        return self._damaged(answer, kind)

    async def _asked(self, gateway: Gateway, request: HttpRequest) -> HttpAnswer:
        answers: list[HttpAnswer] = []
        done = trio.Event()

        def answered(answer: HttpAnswer) -> None:
            answers.append(answer)
            done.set()

        machine = self._world.nodes[gateway.node_id]
        if not self._world.cuts.connects(self._name, machine.name):
            await trio.sleep_forever()
        try:
            machine.ask(request, answered)
        except NotReachable as error:
            raise PeerUnavailable(str(error)) from error
        await done.wait()
        answers[0].on_sent()
        self._world.strikes.count(f"{PREFIX}{answers[0].status}")
        return answers[0]

    def _damaged(self, answer: HttpAnswer, kind: str) -> HttpAnswer:
        body = answer.body
        if kind == "short":
            return HttpAnswer(answer.status, body[:-1])
        if kind == "damaged" and body:
            at = self._rng.randrange(len(body))
            flipped = bytes((body[at] ^ 1 << self._rng.randrange(8),))
            return HttpAnswer(answer.status, body[:at] + flipped + body[at + 1 :])
        return answer
