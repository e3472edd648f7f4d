"""One run: a seed becomes a world, clients, faults, and a report."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import structlog
import trio
import trio.testing
from structlog.typing import EventDict

from tidegate_coordination.log_contract.faulty import LogFaults

from .actors import Actor, make_actors
from .checks.checker import Violation, check
from .checks.history import Event
from .clients.careless import Careless
from .clients.compacters import Compacter
from .clients.hostile import draws_hostile, hostile_clients
from .clients.readers import Admin
from .clients.static_keepers import DefaultsChanger, StaticKeeper
from .clients.workload import Workload, create_topics_and_keys
from .drawing import draw_run
from .members.steady import steady_members
from .mirrors.source import Source
from .nemesis.key_keeper import KeyKeeper
from .nemesis.movers import Mover
from .nemesis.nemesis import Nemesis
from .nemesis.operators import Operator
from .nemesis.restore_trial import RestoreTrial, draws_restore
from .nemesis.upgrader import Upgrader
from .plans.expiry_plan import OFFSETS_EXPIRED, PRODUCERS
from .plans.faults import FaultPlan, Landed
from .plans.gateways.drain_plan import DRAIN_KIND, may_stay
from .plans.pipeline_plan import PREFIX
from .plans.store_faults import StoreFaults
from .plans.strikes import Strikes
from .probers.drain_probers import DrainProber
from .probers.metered import OF_CONSUMERS, OF_PRODUCERS
from .probers.neighbourhood import wrongly_absent
from .probers.quota_trial import QuotaTrial
from .probers.telemetry_trial import TelemetryTrial, draws_telemetry
from .probers.zone_probers import ZoneProber
from .settling import CALM_SECONDS, Settling
from .world.host import Host
from .world.node import Node
from .world.pipelines import Pipeline
from .world.tasks.livelock import LivelockGuard
from .world.tasks.scheduling import seeded_scheduling
from .world.world import World

TOPICS: Final = {"orders": 2, "clicks": 1}
# Virtual seconds: the faulty part at most, and more for each operation.
FAULTY_SECONDS: Final = 900.0
FAULTY_SECONDS_PER_OPERATION: Final = 4.0
# If a promised fault is missing near the end, the run gets this many operations more.
MORE_OPERATIONS: Final = 40


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run.  operations_done: more than requested if a promised fault came late.
    lives: gateways that were started.
    trace: the log's entries (hex) and the history's lines, for comparisons.  zones: see simulate().
    """

    seed: int
    operations: int
    operations_done: int
    virtual_seconds: float
    entries: int
    lives: int
    landed: Landed
    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    zones: int = 0

    @property
    def replay(self) -> str:
        """Return the command that repeats the run."""
        zones = f" --zones {self.zones}" if self.zones else ""
        seeds = f"{self.seed}-{self.seed}"
        return f"tidegate simulate --seeds {seeds} --operations {self.operations}{zones}"


def simulate(
    seed: int, operations: int = 150, zones: int = 0, *, stop_at: Collection[str] = ()
) -> Report:
    """Run one seed.  Blocks; must not be called where Trio runs already.

    zones: the number of zones of the gateways; 0: the seed decides.  stop_at: a violation of these
    kinds ends the run, if the violation shows during the run.
    """
    run = _Run(seed, operations, zones, stop_at)
    with seeded_scheduling(seed), _captured_logs(run), run.plan.held():
        trio.run(
            run.main,
            clock=trio.testing.MockClock(autojump_threshold=0),
            instruments=[run.guard],
        )
    return run.report()


def plan_of(seed: int, zones: int = 0) -> FaultPlan:
    """Return the faults of a seed, without running it."""
    return draw_run(seed, Random(f"{seed}/run"), zones)[1]


def run_seeds(seeds: Iterable[int], operations: int = 150) -> Iterator[Report]:
    """Run seeds one after another."""
    for seed in seeds:
        yield simulate(seed, operations)


class _Run:
    """The state of one run."""

    def __init__(
        self, seed: int, operations: int, zones: int, stop_at: Collection[str] = ()
    ) -> None:
        self._stop_at = stop_at
        self._seed = seed
        self._operations = operations
        self._rng = Random(f"{seed}/run")
        self._source: Source | None = None
        self._settings, self.plan = draw_run(seed, self._rng, zones)
        promised = [each for each in self.plan.kinds if each not in self.plan.disks.kinds]
        self._strikes = Strikes(promised, self._rng)
        self._asked = operations
        self._operations_done = 0
        self._world: World | None = None
        self._violations: list[Violation] = []
        self._seconds = 0.0
        self._trial: RestoreTrial | None = None
        self.guard = LivelockGuard()

    def note(self, kind: str, text: str) -> None:
        """Add a violation."""
        self._violations.append(Violation(kind, text))

    def _note_if(self, kind: str, text: str) -> None:
        if text:
            self.note(kind, text)

    def report(self) -> Report:
        """Judge what happened."""
        history: list[Event] = []
        payloads: list[bytes] = []
        lives = 0
        if self._world is not None:
            history, payloads = self._world.history.events, self._world.watch.payloads
            self._violations += self._world.violations
            lives = self._world.lives
        missing = self._strikes.missing()
        self._note_if("fault did not land", " ".join(missing))
        trace = [each.hex() for each in payloads] + [each.as_json() for each in history]
        return Report(
            seed=self._seed,
            operations=self._operations,
            operations_done=self._operations_done,
            virtual_seconds=round(self._seconds, 3),
            entries=len(payloads),
            lives=lives,
            landed=Landed(dict(sorted(self._strikes.landed.items())), missing),
            violations=(*self._violations, *check(history)),
            trace=tuple(trace),
            zones=self.plan.zones.asked,
        )

    async def main(self) -> None:
        """Run all phases."""
        try:
            with self.guard.scope:
                async with trio.open_nursery() as nursery:
                    await self._phases(nursery)
                    nursery.cancel_scope.cancel()
                if self._trial is not None:
                    await self._trial.after()
        except* Exception as errors:
            self.note("the run broke off", _text(errors))
        if self.guard.is_caught:
            self.note("livelock", f"busy without an end at {trio.current_time():.3f} s")
        self._seconds = trio.current_time()

    async def _phases(self, nursery: trio.Nursery) -> None:
        world = World(self._seed, self.plan, self._settings, nursery, self._strikes)
        if not self.plan.links.is_on:
            return await self._live(world, nursery)
        links = self.plan.links
        self._source = source = Source(
            links.brokers,
            world.rng("source"),
            links.config_seconds,
            has_groups=links.groups,
            has_transactions=links.transactions,
        )
        async with source.run() as source.servers:
            source.servers.latency_seconds = self.plan.links.latency_seconds
            source.journal.complain = world.complain
            world.source_dial, world.watch.mirrors.source = source.dial_of, source
            await self._live(world, nursery)

    async def _live(self, world: World, nursery: trio.Nursery) -> None:
        world.stop_at = self._stop_at
        self._world = world
        nodes = self._make_nodes(world)
        for node in nodes:
            node.set_faults(LogFaults(), StoreFaults())
            nursery.start_soon(node.run)
        workload = Workload(world, self._operations, self.plan.beginnings.first_offset)
        if PRODUCERS in self._settings:
            world.strikes.promise([OFFSETS_EXPIRED])
        world.number_of = workload.number_of
        world.hurt.is_known = workload.is_known
        with trio.fail_after(CALM_SECONDS):
            await create_topics_and_keys(workload, TOPICS)
        pipelines = self._make_pipelines(world)
        for pipeline in pipelines:
            nursery.start_soon(pipeline.run)
        operators = [Operator(world, number + 1) for number in range(self.plan.losses.operators)]
        for operator in operators:
            nursery.start_soon(operator.run)
        others: list[Host] = [*nodes, *pipelines, *operators]
        movers = [Mover(world, number + 1, others) for number in range(self.plan.moves.movers)]
        for mover in movers:
            nursery.start_soon(mover.run)
        self._start_restarts(world, nodes, nursery)
        nemesis = Nemesis(world, nodes, pipelines, [*operators, *movers])
        await self._faulty_phase(workload, nemesis)
        settling = Settling(world, self._source, self.note)
        await settling.await_nodes(nodes)
        self._note_if("absent though it lives", await wrongly_absent(nodes))
        await self._try_quotas(world, nodes, settling)
        await settling.await_repair()
        await settling.await_moves()
        await settling.await_small_writes()
        await settling.await_copies()
        await settling.merge_all(pipelines)
        await settling.await_collection()
        await settling.read_all(workload, [*nodes, *pipelines])
        for node in nodes:
            self._note_if("metrics differ from answers", node.miscounted())
            node.count_disk_uses()
        await self._last_trial(world, workload, nodes)

    async def _last_trial(self, world: World, workload: Workload, nodes: list[Node]) -> None:
        """Run the trial with which few runs end; everything else has been judged."""
        if draws_restore(self._seed):
            trial = RestoreTrial(world, workload)
            await trial.before()
            self._trial = trial
        elif draws_telemetry(self._seed, self.plan):
            await TelemetryTrial(world, nodes).run()

    async def _try_quotas(self, world: World, nodes: list[Node], settling: Settling) -> None:
        quotas = self.plan.quotas
        for strikes, metered in (
            (quotas.strikes, OF_PRODUCERS),
            (quotas.of_consumers, OF_CONSUMERS),
        ):
            if strikes:
                await QuotaTrial(world, nodes, metered).run()
                await settling.await_nodes(nodes)

    def _start_restarts(self, world: World, nodes: list[Node], nursery: trio.Nursery) -> None:
        if self.plan.versions.is_rolling:
            nursery.start_soon(Upgrader(world, nodes).run)
        if self.plan.logins.sealing.is_on:
            nursery.start_soon(KeyKeeper(world, nodes).run)
        if self.plan.logins.bearers.is_on:
            nursery.start_soon(world.provider.run)

    def _make_nodes(self, world: World) -> list[Node]:
        """Make the gateways; only the last one may have a wrong clock.

        The cluster's time is the median of the gateways' clocks, which outvotes one wrong clock.
        """
        nodes: list[Node] = []
        last = self.plan.zones.last_gateway
        for node_id in range(1, last + 1):
            offset, rate = self._rng.uniform(-2, 2), 1.0
            if node_id == last:
                offset, rate = offset + self.plan.skew_seconds, self.plan.clock_rate
                self._strikes.count("skew", self.plan.skew_seconds != 0.0)
                self._strikes.count("drift", rate != 1.0)
            node = Node(world, node_id, offset, rate)
            world.nodes[node_id] = world.peers[node_id] = node
            nodes.append(node)
        return nodes

    def _make_pipelines(self, world: World) -> list[Pipeline]:
        plan, rng = world.plan.pipelines, world.rng("pipelines")
        pipelines: list[Pipeline] = []
        for number in range(1, plan.drivers + 1):
            skew_seconds = plan.skew_seconds if number == 1 else 0.0
            self._strikes.count(f"{PREFIX}skew", skew_seconds != 0.0)
            offset = rng.uniform(-2, 2) + skew_seconds
            pipelines.append(Pipeline(world, number, offset, rng.uniform(0.99, 1.01)))
        return pipelines

    async def _faulty_phase(self, workload: Workload, nemesis: Nemesis) -> None:
        """Run all clients, with faults until no operation is left."""
        actors = self._actors(workload)
        done: set[str] = set()

        async def act(actor: Actor) -> None:
            await actor.run()
            done.add(actor.client.name)

        async with trio.open_nursery() as clients:
            for actor in actors:
                clients.start_soon(act, actor)
            seconds = FAULTY_SECONDS + FAULTY_SECONDS_PER_OPERATION * self._operations
            await nemesis.run(lambda: self._is_over(workload), seconds)
            clients.cancel_scope.deadline = trio.current_time() + CALM_SECONDS
        stuck = [each.client.name for each in actors if each.client.name not in done]
        if stuck:
            self.note("stuck", f"{stuck} did not end within {CALM_SECONDS} s after healing")

    def _actors(self, workload: Workload) -> list[Actor]:
        """Return all clients, including those that faults of the plan need."""
        actors = make_actors(workload, self._rng, self._source)
        if self.plan.pipelines.compacts:
            actors.append(Compacter(workload, "compacter", "compacted"))
        if self.plan.static.static:
            actors.append(StaticKeeper(workload, "static keeper"))
            actors.append(DefaultsChanger(workload, "defaults changer"))
        if "store.delete_error" in self.plan.kinds:
            actors.append(Admin(workload, "sweeper", 0.6))
        if draws_hostile(self._seed):
            actors += hostile_clients(workload)
        if self.plan.malformed.is_on:
            actors.append(Careless(workload, "careless"))
        if self.plan.zones.is_probed:
            actors.append(ZoneProber(workload, "zone prober"))
        if DRAIN_KIND in self.plan.kinds:
            actors.append(DrainProber(workload, "drain prober"))
            if may_stay(self.plan.kinds):
                actors += steady_members(workload)
        return actors

    def _is_over(self, workload: Workload) -> bool:
        """Return whether the run is over; add operations while a promised fault has not landed."""
        is_missing, late = bool(self._strikes.missing()), workload.world.late
        self._operations_done = self._asked - workload.operations_left
        if late.is_set() and not is_missing:
            left = max(0, self._operations - self._operations_done)
            workload.operations_left = min(workload.operations_left, left)
        if workload.operations_left < MORE_OPERATIONS and is_missing:
            workload.operations_left += MORE_OPERATIONS
            self._asked += MORE_OPERATIONS
            late.set()
        return workload.operations_left <= 0


def _text(errors: BaseExceptionGroup[BaseException]) -> str:
    return "".join(traceback.format_exception(errors))


@contextmanager
def _captured_logs(run: _Run) -> Generator[None]:
    """Show no logs; an unexpected exception in a gateway's log is a violation."""
    before = structlog.get_config()

    def capture(logger: Any, method: str, event: EventDict) -> EventDict:
        if event.get("exc_info") and method in ("error", "exception"):
            run.note("internal error", f"{event['event']}: {traceback.format_exc()}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    try:
        yield
    finally:
        structlog.configure(**before)
