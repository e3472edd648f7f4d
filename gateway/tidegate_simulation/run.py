"""One run: a seed becomes a world, clients, faults, and a report."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import structlog
import trio
import trio.testing
from structlog.typing import EventDict

from tidegate_coordination.logs.faulty import LogFaults

from .checker import Violation, check
from .faults import Landed, draw_plan, tally
from .groups import Committer
from .history import Event
from .livelock import LivelockGuard
from .members import GroupMember
from .nemesis import Nemesis
from .node import Node
from .producers import IdempotentProducer, PlainProducer
from .readers import Admin, FinalReader, Reader
from .scheduling import seeded_scheduling
from .store import StoreFaults
from .workload import Workload, create_topics_and_keys
from .world import World

NODES: Final = 3
TOPICS: Final = {"orders": 2, "clicks": 1}
# Virtual seconds: the faulty part at most, and each of the two parts after it.
FAULTY_SECONDS: Final = 600.0
CALM_SECONDS: Final = 240.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run.

    trace: the log's entries (hex) and the history's lines, for comparisons.
    """

    seed: int
    operations: int
    virtual_seconds: float
    entries: int
    landed: Landed
    violations: tuple[Violation, ...]
    trace: tuple[str, ...]

    @property
    def replay(self) -> str:
        """Return the command that does it again."""
        return (
            f"python -m tidegate_simulation --seeds {self.seed}-{self.seed}"
            f" --operations {self.operations}"
        )


def simulate(seed: int, operations: int = 150) -> Report:
    """Run one seed.  Blocks; must not be called where Trio runs already."""
    run = _Run(seed, operations)
    with seeded_scheduling(seed), _captured_logs(run):
        trio.run(
            run.main,
            clock=trio.testing.MockClock(autojump_threshold=0),
            instruments=[run.guard],
        )
    return run.report()


def run_seeds(seeds: Iterable[int], operations: int = 150) -> Iterator[Report]:
    """Run seeds one after another."""
    for seed in seeds:
        yield simulate(seed, operations)


class _Run:
    """The state of one run."""

    def __init__(self, seed: int, operations: int) -> None:
        self._seed = seed
        self._operations = operations
        self._rng = Random(f"{seed}/run")
        self._plan = draw_plan(self._rng)
        self._world: World | None = None
        self._landed: Counter[str] = Counter()
        self._violations: list[Violation] = []
        self._seconds = 0.0
        self.guard = LivelockGuard()

    def note(self, kind: str, text: str) -> None:
        """Add a violation."""
        self._violations.append(Violation(kind, text))

    def report(self) -> Report:
        """Judge what happened."""
        history: list[Event] = []
        payloads: list[bytes] = []
        if self._world is not None:
            history, payloads = self._world.history.events, self._world.watch.payloads
            self._violations += self._world.violations
            self._landed.update(self._world.landed)
        trace = [each.hex() for each in payloads] + [each.as_json() for each in history]
        return Report(
            self._seed,
            self._operations,
            round(self._seconds, 3),
            len(payloads),
            tally(self._plan, self._landed),
            (*self._violations, *check(history)),
            tuple(trace),
        )

    async def main(self) -> None:
        """Run all phases."""
        try:
            with self.guard.scope:
                async with trio.open_nursery() as nursery:
                    await self._phases(nursery)
                    nursery.cancel_scope.cancel()
        except* Exception as errors:
            self.note("the run broke off", _text(errors))
        if self.guard.is_caught:
            self.note("livelock", f"busy without an end at {trio.current_time():.3f} s")
        self._seconds = trio.current_time()

    async def _phases(self, nursery: trio.Nursery) -> None:
        world = World(self._seed, self._plan, self._settings(), nursery)
        self._world = world
        nodes = self._make_nodes(world)
        for node in nodes:
            node.set_faults(LogFaults(), StoreFaults())
            nursery.start_soon(node.run)
        workload = Workload(world, self._operations)
        with trio.fail_after(CALM_SECONDS):
            await create_topics_and_keys(workload, TOPICS)
        nemesis = Nemesis(world, nodes)
        await self._faulty_phase(workload, nemesis)
        await self._await_nodes(nodes)
        await self._final_phase(workload, nodes)

    def _settings(self) -> dict[str, str]:
        rng = self._rng
        return {
            "lease.ms": rng.choice(("6000", "30000")),
            "housekeeping.interval.ms": rng.choice(("1000", "10000")),
            "object.delete.grace.ms": rng.choice(("0", "5000", "600000")),
            "snapshot.interval.entries": rng.choice(("10", "100")),
            "wal.max.object.bytes": rng.choice(("1024", "8388608")),
            "wal.upload.slots": rng.choice(("1", "4")),
            "wal.put.timeout.ms": rng.choice(("1000", "30000")),
            "fetch.cache.bytes": rng.choice(("0", "500", "1000000")),
            "group.initial.rebalance.delay.ms": "0",
        }

    def _make_nodes(self, world: World) -> list[Node]:
        nodes: list[Node] = []
        for node_id in range(1, NODES + 1):
            skew = self._plan.skew_seconds if node_id == NODES else 0.0
            world.landed["skew"] += bool(skew)
            node = Node(world, node_id, self._rng.uniform(-2, 2) + skew)
            world.nodes[node_id] = node
            nodes.append(node)
        return nodes

    async def _faulty_phase(self, workload: Workload, nemesis: Nemesis) -> None:
        """All clients at work; faults until no operation is left."""
        actors: list[Any] = [
            IdempotentProducer(workload, "producer 1"),
            IdempotentProducer(workload, "producer 2"),
            PlainProducer(workload, "plain producer"),
            Reader(workload, "reader 1", sessions=True),
            Reader(workload, "reader 2"),
            Admin(workload, "admin", self._rng.choice((0.0, 0.2, 0.6))),
            Committer(workload, "committer 1", "shared"),
            Committer(workload, "committer 2", "shared"),
            *(GroupMember(workload, f"member {place}", "readers") for place in range(1, 4)),
        ]
        done: set[str] = set()

        async def act(actor: Any) -> None:
            await actor.run()
            done.add(actor.client.name)

        async with trio.open_nursery() as clients:
            for actor in actors:
                clients.start_soon(act, actor)
            await nemesis.run(lambda: workload.operations_left <= 0, FAULTY_SECONDS)
            clients.cancel_scope.deadline = trio.current_time() + CALM_SECONDS
        stuck = [each.client.name for each in actors if each.client.name not in done]
        if stuck:
            self.note("stuck", f"{stuck} did not end within {CALM_SECONDS} s after healing")

    async def _await_nodes(self, nodes: list[Node]) -> None:
        """Every gateway must come back by itself."""
        with trio.move_on_after(CALM_SECONDS):
            while any(each.gateway is None for each in nodes):  # noqa: ASYNC110 - they may die yet
                await trio.sleep(1.0)
        down = [each.node_id for each in nodes if each.gateway is None]
        if down:
            self.note("stuck", f"gateways {down} did not come back in {CALM_SECONDS} s")

    async def _final_phase(self, workload: Workload, nodes: list[Node]) -> None:
        """Everything acknowledged must be readable, now that nothing is wrong any more."""
        with trio.move_on_after(CALM_SECONDS) as waited:
            async with trio.open_nursery() as readers:
                for key in workload.keys:
                    readers.start_soon(FinalReader(workload, key).run)
        if waited.cancelled_caught:
            self.note("stuck", f"the last readers did not end within {CALM_SECONDS} s")
        watch = workload.world.watch
        for name in watch.missing_objects():
            self.note("not stored", f"{name} holds live records and is gone")
        for node in nodes:
            self._landed.update(node.log_faults_landed())
            if node.gateway is not None:
                watch.compare(f"node {node.node_id}", node.gateway.coordinator.state)


def _text(errors: BaseExceptionGroup[BaseException]) -> str:
    return "".join(traceback.format_exception(errors))


@contextmanager
def _captured_logs(run: _Run) -> Generator[None]:
    """Show no logs; what a gateway logs as an unforeseen exception is a violation."""
    before = structlog.get_config()

    def capture(logger: Any, method: str, event: EventDict) -> EventDict:
        if event.get("exc_info") and method in ("error", "exception"):
            run.note("internal error", f"{event['event']}: {_last_exception()}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _last_exception() -> str:
    return traceback.format_exc()
