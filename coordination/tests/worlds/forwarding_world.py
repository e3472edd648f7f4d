"""Gateways that forward to each other, over links that lose, repeat and delay."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

import msgspec
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint, Proposed
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.metadata_versions import FIRST
from tidegate_coordination.forwarding.contention import Contention
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.forwarding.messages import (
    MAX_QUESTION_BYTES,
    Ask,
    NotSpoken,
    Told,
    decode_ask,
    decode_told,
    encode,
)
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.forwarding.service import ProposalService
from tidegate_coordination.log.metadata_log import MetadataLog, Trimmed
from tidegate_coordination.logs.forward import ForwardLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway

CLUSTER = "cluster"
LATE_SECONDS = 60.0


@dataclass(slots=True)
class Links:
    """The links between all gateways.  faults: how often (0 to 1) each kind befalls a question.

    newer: kinds of proposals whose answers no release here can read.
    bytes_per_second: a question may have this size for each second of its timeout.
    """

    rng: Random
    nursery: trio.Nursery
    faults: dict[str, float] = field(default_factory=dict[str, float])
    services: dict[int, ProposalService] = field(default_factory=dict[int, ProposalService])
    down: set[int] = field(default_factory=set[int])
    befell: Counter[str] = field(default_factory=Counter[str])
    newer: set[str] = field(default_factory=set[str])
    bytes_per_second: float = inf

    def _befalls(self, kind: str) -> bool:
        if self.rng.random() >= self.faults.get(kind, 0.0):
            return False
        self.befell[kind] += 1
        return True

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        await trio.sleep(self.rng.random() * 0.01)
        data = encode(question)
        if len(data) > MAX_QUESTION_BYTES:
            raise PeerUnavailable("413: a body may not have so many bytes here")
        is_slow = len(data) > timeout_seconds * self.bytes_per_second
        if is_slow or gateway.node_id in self.down or self._befalls("question lost"):
            await trio.sleep(timeout_seconds)
            raise PeerUnavailable("lost")
        if self._befalls("question again, late"):
            self.nursery.start_soon(self._again, gateway.node_id, data)
        with trio.move_on_after(timeout_seconds):
            told = await self._answer(gateway.node_id, data)
            if self._befalls("answer lost"):
                raise PeerUnavailable("reset")
            if self._befalls("answer cut"):
                told = told[: len(told) // 2]
            try:
                return self._as_told(question, decode_told(told))
            except NotSpoken as error:
                raise PeerUnavailable(str(error)) from error
        raise PeerUnavailable("too slow")

    def _as_told(self, question: Ask, told: Told) -> Told:
        newer = {each.number for each in question.proposals if each.kind in self.newer}
        answers = [
            msgspec.structs.replace(each, body=b"\xa5later") if each.number in newer else each
            for each in told.answers
        ]
        return msgspec.structs.replace(told, answers=answers)

    async def _answer(self, node_id: int, data: bytes) -> bytes:
        return encode(await self.services[node_id].answer(decode_ask(data)))

    async def _again(self, node_id: int, data: bytes) -> None:
        await trio.sleep(self.rng.random() * LATE_SECONDS)
        await self._answer(node_id, data)


@dataclass(slots=True)
class World:
    """Gateways 1, 2, ... on one log, the registered ones in `gateways`.

    level: the newest metadata.version that they read, and the cluster's first one.
    """

    nursery: trio.Nursery
    links: Links
    rng: Random
    level: int = FIRST
    log: MemoryLog = field(default_factory=MemoryLog)
    gateways: dict[int, Coordinator] = field(default_factory=dict[int, Coordinator])

    async def start(
        self,
        node_id: int,
        *,
        leads: bool = True,
        reaches_log: bool = True,
        log: MetadataLog | None = None,
        contention: Contention | None = None,
    ) -> Coordinator:
        """Start and register a gateway; leads: whether others can reach it."""
        state = ClusterState()
        entries = await self.log.read(1, 1 << 30)
        assert not isinstance(entries, Trimmed)
        for each in entries:
            state.apply(each.position, decode_entry(each.payload, each.position))
        coordinator = Coordinator(
            (log or self.log) if reaches_log else self._through_others(),
            state,
            rng=Random(node_id),
            wall_clock=lambda: 1_000_000.0 + trio.current_time(),
            route=partial(Forwarder, peers=self.links, contention=contention),
        )
        self.nursery.start_soon(coordinator.run)
        endpoints = (Endpoint("PLAINTEXT", "h", 1), Endpoint(PEER_LISTENER, "h", node_id))
        registration = Register(
            node_id,
            f"key-{node_id}",
            "az1",
            endpoints if leads else endpoints[:1],
            "0",
            CLUSTER,
            highest_version=self.level,
        )
        answer = await coordinator.propose(registration)
        assert isinstance(answer, int)
        coordinator.incarnation = answer
        self.links.services[node_id] = ProposalService(coordinator)
        self.gateways[node_id] = coordinator
        return coordinator

    def _through_others(self) -> MetadataLog:
        async def opened() -> MetadataLog:
            await trio.lowlevel.checkpoint()
            return self.log

        return ForwardLog([opened], self.log.capabilities)

    async def settle(self) -> None:
        """Let all gateways read to the log's end."""
        for each in self.gateways.values():
            await each.catch_up()

    async def entries(self) -> list[tuple[int, list[Proposed]]]:
        """Return the writer and the numbered proposals of each entry."""
        found = await self.log.read(1, 1 << 30)
        assert not isinstance(found, Trimmed)
        decoded = [decode_entry(each.payload, each.position) for each in found]
        return [
            (each.writer, [event for event in each.events if isinstance(event, Proposed)])
            for each in decoded
        ]


def forwarder(coordinator: Coordinator) -> Forwarder:
    """Return the route of a coordinator of this world."""
    assert isinstance(coordinator.route, Forwarder)
    return coordinator.route


@asynccontextmanager
async def forwarding_world(seed: int = 0, level: int = FIRST) -> AsyncIterator[World]:
    """A world that has no gateways yet."""
    rng = Random(seed)
    async with trio.open_nursery() as nursery:
        yield World(nursery, Links(rng, nursery), rng, level)
        nursery.cancel_scope.cancel()
