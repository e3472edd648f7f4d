"""How simulated gateways ask each other for shares of quotas: as bytes, over the run's network."""

from __future__ import annotations

from random import Random
from typing import Protocol

import trio

from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.peers.peers import granted_shares
from tidegate_gateway.quotas.sharing.messages import SHARES_PATH, Asked, Granted, encode
from tidegate_runtime.http.values import HttpAnswer, HttpRequest

from .world import NotReachable, World


class Asker(Protocol):
    """The asking machine."""

    name: str
    is_unreachable: bool


class SimulatedSharers:
    """See tidegate_gateway.quotas.sharing.exchange.SharePeers."""

    def __init__(self, world: World, asker: Asker, rng: Random) -> None:
        self._world = world
        self._asker = asker
        self._rng = rng

    async def share(self, gateway: Gateway, asked: Asked, timeout_seconds: float) -> Granted:
        """See SharePeers."""
        with trio.move_on_after(timeout_seconds):
            answer = await self._answer(gateway.node_id, encode(asked))
            return granted_shares(f"node {gateway.node_id}", answer, asked)
        raise PeerUnavailable("no answer in time")

    async def _answer(self, node_id: int, question: bytes) -> HttpAnswer:
        world, machine = self._world, self._world.nodes[node_id]
        await trio.sleep(self._rng.random() * world.plan.latency_seconds)
        is_cut = not world.cuts.connects(self._asker.name, machine.name)
        is_unheard = (self._asker.name, machine.name) in world.unheard
        if self._asker.is_unreachable or is_cut or is_unheard:
            await trio.sleep_forever()
        answers: list[HttpAnswer] = []
        done = trio.Event()

        def answered(answer: HttpAnswer) -> None:
            answers.append(answer)
            done.set()

        try:
            machine.ask(HttpRequest("POST", SHARES_PATH, body=question), answered)
        except NotReachable as error:
            raise PeerUnavailable(str(error)) from error
        await done.wait()
        world.strikes.count("quotas.asked")
        await trio.sleep(self._rng.random() * world.plan.latency_seconds)
        if self._rng.random() < world.lost_shares:
            await trio.sleep_forever()
        return answers[0]
