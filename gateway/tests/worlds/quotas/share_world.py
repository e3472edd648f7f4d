"""Gateways that share one quota.  Nothing waits: time moves in steps, and messages are calls."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from tidegate_coordination.configs.cluster_wide import QUOTA_SCOPE
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.security.quotas import Bucket
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_coordination.state.writers.static_settings import Told
from tidegate_gateway.quotas.sharing.messages import (
    decode_asked,
    decode_granted,
    encode,
    key_of,
)
from tidegate_gateway.quotas.sharing.scope import CLUSTER
from tidegate_gateway.quotas.sharing.shares import Batch, QuotaShares

QUOTA = 1_000.0
STEP_MS = 50
LOOK_MS = 500
DEAD_MS = 1_500
CUT_MS = 4_000
"""When others notice that a gateway died, or that they do not reach it."""
BUCKET = Bucket("alice", "")
KEY = key_of("Produce", *BUCKET)
Result = TypeVar("Result")


def done(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work that does not wait."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(Result, end.value)
    raise AssertionError("it waits")


@dataclass(slots=True)
class Load:
    """A client of one gateway.  per_second: what it would send.  size: that of each request."""

    per_second: float = 0.0
    size: float = 10.0
    backlog: float = 0.0
    muted_until_ms: int = 0
    passed: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


class Node:
    """One gateway.  phase_ms: at which moment of each half second it asks for shares."""

    def __init__(self, world: ShareWorld, incarnation: int, phase_ms: int) -> None:
        self.incarnation = incarnation
        self.phase_ms = phase_ms
        self.is_dead = False
        self.load = Load()
        self._world = world
        coordinator = SimpleNamespace(
            incarnation=incarnation, is_stale=False, state=SimpleNamespace(cluster_id="c")
        )
        coordinator.state.gateways = world.table
        coordinator.state.static_settings = SimpleNamespace(by_node_id=world.told)
        self.shares = QuotaShares(cast(Coordinator, coordinator), self._missed, asks=True)
        self.allowance = self.shares.allowance("Produce", BUCKET, 10.0)

    def _missed(self) -> frozenset[int]:
        world = self._world
        return frozenset(each for each in world.nodes if world.is_missed(self.incarnation, each))

    def look(self) -> None:
        """Send all questions that are due now."""
        for batch in done(self.shares.due(self._world.now_ms)):
            self._ask(batch)

    def _ask(self, batch: Batch) -> None:
        world = self._world
        asked_ms, other = world.now_ms, world.nodes[batch.gateway.incarnation]
        if not world.reaches(self.incarnation, other.incarnation):
            return
        question = decode_asked(encode(self.shares.question(batch, asked_ms)))
        answer = encode(done(other.shares.answer(question, world.now_ms)))
        world.asked += 1
        if world.loses_answers:
            return
        granted = decode_granted(answer, len(batch.wishes))
        self.shares.take(batch, granted, asked_ms, world.now_ms)

    def work(self) -> None:
        """Let the client send what it may send in a step."""
        load, now_ms = self.load, self._world.now_ms
        most = max(load.per_second, load.size)
        load.backlog = min(load.backlog + load.per_second * STEP_MS / 1_000, most)
        while load.backlog >= load.size and now_ms >= load.muted_until_ms:
            load.backlog -= load.size
            load.passed.append((now_ms, load.size))
            self.allowance.take(load.size, QUOTA, now_ms)
            load.muted_until_ms = now_ms + self.allowance.throttle_ms(QUOTA, now_ms)


class ShareWorld:
    """The gateways and their client loads.

    loses_answers: all questions arrive, but no answer does.  deaf: gateways that fail probes of the
    clients' listener, though both listeners serve.  unasked: gateways that no question reaches.
    told: static settings by node id.
    """

    def __init__(self, phases_ms: list[int]) -> None:
        self.now_ms = 0
        self.asked = 0
        self.loses_answers = False
        self.table = SimpleNamespace(version=1, live={})
        self.table.serving = lambda: list(self.table.live.values())
        self.told = {
            number: Told({QUOTA_SCOPE: CLUSTER}) for number in range(1, len(phases_ms) + 1)
        }
        self.deaf: set[int] = set()
        self.unasked: set[int] = set()
        self._cuts: dict[frozenset[int], int] = {}
        self._died_ms: dict[int, int] = {}
        for incarnation in range(1, len(phases_ms) + 1):
            self.table.live[incarnation] = _gateway(incarnation)
        self.nodes = {
            number: Node(self, number, phase // STEP_MS * STEP_MS)
            for number, phase in enumerate(phases_ms, 1)
        }

    @property
    def owner(self) -> Node:
        """Return the gateway that divides the quota."""
        any_node = next(each for each in self.nodes.values() if not each.is_dead)
        owner = any_node.shares.membership.owner(KEY)
        assert owner is not None
        return self.nodes[owner]

    def kill(self, node: Node) -> None:
        """End a gateway; it stays in the cluster's state."""
        node.is_dead = True
        self._died_ms[node.incarnation] = self.now_ms

    def expire(self, node: Node) -> None:
        """End a dead gateway's lease."""
        del self.table.live[node.incarnation]
        self.table.version += 1

    def cut(self, one: int, other: int) -> None:
        """Cut the network between two gateways."""
        self._cuts[frozenset({one, other})] = self.now_ms

    def heal(self) -> None:
        """Mend all cuts."""
        self._cuts.clear()

    def reaches(self, one: int, other: int) -> bool:
        """Return whether a question arrives."""
        is_open = not self.nodes[other].is_dead and other not in self.unasked
        return is_open and frozenset({one, other}) not in self._cuts

    def is_missed(self, by: int, other: int) -> bool:
        """Return whether a gateway counts as absent."""
        cut_ms, died_ms = self._cuts.get(frozenset({by, other})), self._died_ms.get(other)
        is_cut = cut_ms is not None and self.now_ms - cut_ms >= CUT_MS
        return (
            other in self.deaf
            or is_cut
            or (died_ms is not None and self.now_ms - died_ms >= DEAD_MS)
        )

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end_ms = self.now_ms + int(seconds * 1_000)
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            alive = [each for each in self.nodes.values() if not each.is_dead]
            for each in alive:
                if self.now_ms % LOOK_MS == each.phase_ms:
                    each.look()
            for each in alive:
                each.work()
            self.check()

    def check(self) -> None:
        """Check this moment.  Tests override this."""

    def held(self) -> float:
        """Return the sum of all shares now."""
        alive = [each for each in self.nodes.values() if not each.is_dead]
        return sum(each.allowance.share(self.now_ms) for each in alive)

    def passed(self, since_ms: int, until_ms: int | None = None) -> float:
        """Return how much all gateways let through between two times."""
        until_ms = self.now_ms if until_ms is None else until_ms
        return sum(
            size
            for each in self.nodes.values()
            for at, size in each.load.passed
            if since_ms < at <= until_ms
        )

    def rate(self, seconds: float) -> float:
        """Let time pass; return the rate in this time, divided by the quota."""
        since_ms = self.now_ms
        self.run(seconds)
        return self.passed(since_ms) / seconds / QUOTA


def _gateway(incarnation: int) -> Gateway:
    endpoint = Endpoint(PEER_LISTENER, f"g{incarnation}", 1)
    return Gateway(incarnation, incarnation, f"k{incarnation}", "z", (endpoint,), "0", False, 0, 0)
