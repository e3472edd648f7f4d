"""How simulated gateways ask each other: as bytes, over a network that loses and repeats."""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

import trio

from tidegate_coordination.forwarding.messages import (
    Ask,
    NotSpoken,
    Told,
    decode_ask,
    decode_told,
    encode,
)
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.forwarding.service import OtherCluster
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.fetch.lending.zone_reads import ObjectPeers
from tidegate_gateway.quotas.sharing.messages import Asked, Granted

from ..plans.gateways.forwarding_plan import PREFIX
from .sharing import SimulatedSharers
from .world import AskedMachine, World

LATE_SECONDS: Final = 60.0


class Asker(Protocol):
    """The asking machine."""

    name: str
    is_unreachable: bool


class SimulatedPeers:
    """See tidegate_gateway.peers.peers.GatewayPeers.  One for each life of a gateway."""

    def __init__(
        self,
        world: World,
        asker: Asker,
        lenders: ObjectPeers,
        sharers: SimulatedSharers,
        rng: Random,
    ) -> None:
        self._sharers = sharers
        self._world = world
        self._asker = asker
        self._lenders = lenders
        self._rng = rng
        self._rates = world.plan.forwarding.rates

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        """See Peers."""
        self._world.strikes.count("forwarded", len(question.proposals))
        machine = self._world.peers[gateway.node_id]
        with trio.move_on_after(timeout_seconds):
            return await self._asked(machine, encode(question))
        raise PeerUnavailable("no answer in time")

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        """See ObjectPeers."""
        return await self._lenders.lend(gateway, ask, timeout_seconds)

    async def doubt(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> None:
        """See ObjectPeers."""
        await self._lenders.doubt(gateway, ask, timeout_seconds)

    async def share(self, gateway: Gateway, asked: Asked, timeout_seconds: float) -> Granted:
        """See SharePeers."""
        return await self._sharers.share(gateway, asked, timeout_seconds)

    async def _asked(self, machine: AskedMachine, question: bytes) -> Told:
        await self._travel(self._asker, machine)
        if self._befalls("question_lost"):
            await trio.sleep_forever()
        if self._befalls("again"):
            self._world.nursery.start_soon(self._again, machine, question)
        answer = await _answered(machine, question)
        await self._travel(machine, self._asker)
        if self._befalls("answer_lost"):
            await trio.sleep_forever()
        if self._befalls("garbled"):
            answer = answer[: self._rng.randrange(len(answer))]
        try:
            return decode_told(answer)
        except NotSpoken as error:
            raise PeerUnavailable(str(error)) from error

    async def _travel(self, source: Asker, target: Asker) -> None:
        await trio.sleep(self._rng.random() * self._world.plan.latency_seconds)
        if source.is_unreachable or target.is_unreachable:
            await trio.sleep_forever()
        if not self._world.cuts.reaches(source.name, target.name):
            await trio.sleep_forever()

    def _befalls(self, kind: str) -> bool:
        name = f"{PREFIX}{kind}"
        strikes, world = self._world.strikes, self._world
        if world.healed or name not in self._rates:
            return False
        if not strikes.is_due(name) and self._rng.random() >= self._rates[name]:
            return False
        strikes.count(name)
        return True

    async def _again(self, machine: AskedMachine, question: bytes) -> None:
        await trio.sleep(self._rng.random() * LATE_SECONDS)
        try:
            await _answered(machine, question)
        except PeerUnavailable:
            return  # no gateway runs here any more


async def _answered(machine: AskedMachine, question: bytes) -> bytes:
    service = machine.proposals
    if service is None:
        raise PeerUnavailable("connection refused")
    try:
        return encode(await service.answer(decode_ask(question)))
    except OtherCluster as error:
        raise PeerUnavailable(str(error)) from error
