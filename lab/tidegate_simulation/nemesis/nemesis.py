"""Strikes whole gateways as the plan says, until the world is healed; agenda.py sets the times.

An event that harms connections ends at once if there are none.  Each event counts as landed as soon
as it has had its effect, so that the run is not prolonged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf

import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.log_contract.faulty import LogFaults
from tidegate_coordination.rules.draining import DrainGateway, Marked, ResumeGateway

from ..plans.disk_plan import PREFIX as DISK
from ..plans.gateways.away_plan import AWAY_KIND, MAX_AWAY_SECONDS, MIN_AWAY_SECONDS
from ..plans.gateways.drain_plan import DRAIN_KIND
from ..plans.pipeline_plan import PREFIX
from ..plans.store_faults import StoreFaults
from ..probers.isolation import Isolated
from ..probers.neighbourhood import is_absent
from ..world.faulty.crash_points import PIPELINE_PLACES, PLACES
from ..world.host import Host
from ..world.network import Link
from ..world.node import Node
from ..world.pipelines import Pipeline
from ..world.world import World
from .agenda import Agenda
from .partitions import Partitions
from .refusals import Refusals

_STOP_SHARE = 0.2
_NO_FAULTS = (LogFaults(), StoreFaults())
_LOOK_SECONDS = 0.25
_UP_SECONDS = 30.0
_TASK_SECONDS = 10.0
_HOUR_SECONDS = 3600.0


class Nemesis:
    """The faults of a run that strike whole gateways."""

    def __init__(
        self,
        world: World,
        nodes: list[Node],
        pipelines: Sequence[Pipeline] = (),
        others: Sequence[Host] = (),
    ) -> None:
        self._world = world
        self._nodes = nodes
        self._pipelines = pipelines
        self._hosts: list[Host] = [*nodes, *pipelines, *others]
        self._rng = world.rng("nemesis")
        self._agenda = Agenda(world, nodes, pipelines, self._rng)
        self._lease_seconds = int(world.settings["lease.ms"]) / 1000
        self._host_events: dict[str, Callable[[Host], Awaitable[None]]] = {
            "crash": self._crash,
            "crash_point": self._crash_point,
            "drain": self._drain,
            "stall": self._stall,
            "isolate": self._isolate,
        }
        self._node_events: dict[str, Callable[[Node], Awaitable[None]]] = {
            "crash_all": self._crash_all,
            "restart_storm": self._restart_storm,
            "rolling_restart": self._rolling_restart,
            DRAIN_KIND: self._operator_drain,
            AWAY_KIND: self._stay_away,
            "log_outage": self._log_outage,
            "store_outage": self._store_outage,
            "cut": self._cut,
            "hang": self._hang,
            "half_open": self._half_open,
            "one_way": self._one_way,
            "trickle": self._trickle,
            "partition": self._partition,
            "clock_forward": self._clock_forward,
            "clock_back": self._clock_back,
            "lost_object": self._lost_object,
            "spoilt_object": self._spoilt_object,
            f"{DISK}torn": self._tear,
            f"{DISK}flipped": self._flip,
            f"{DISK}lost": self._lose,
            f"{DISK}full": partial(self._trouble_disk, "full"),
            f"{DISK}broken": partial(self._trouble_disk, "broken"),
            **Partitions(world, nodes).events,
            **Refusals(world, nodes).events,
        }

    async def run(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Trouble the world until is_over() or for that many seconds; then heal it."""
        for host in self._hosts:
            host.set_faults(self._world.plan.log, self._world.plan.store)
        self._world.strikes.turn_on()
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as troubles:
                if self._world.plan.events:
                    troubles.start_soon(self._trouble, troubles)
                while not is_over():  # noqa: ASYNC110 - counted by many
                    await trio.sleep(_LOOK_SECONDS)
                troubles.cancel_scope.cancel()
        self._heal()

    def _heal(self) -> None:
        for host in self._hosts:
            host.set_faults(*_NO_FAULTS)
            host.crash_point.disarm()
        for node in self._nodes:
            node.disk.trouble = ""
            node.away_until = -inf
            for link in node.links:
                link.flow()
            if node.gateway is not None and node.gateway.draining.is_marked:
                node.drain()  # else only the gateway with the wrong clock might serve
        self._world.strikes.turn_off()
        self._world.healed = True
        self._world.history.note("nemesis", "info", "healed", None)

    async def _trouble(self, nursery: trio.Nursery) -> None:
        while True:
            await self._agenda.wait()
            begun = self._agenda.begin()
            if begun is not None:
                nursery.start_soon(self._befall, *begun)

    async def _befall(self, kind: str, host: Host) -> None:
        since = trio.current_time()
        if isinstance(host, Node) and kind in self._node_events:
            await self._node_events[kind](host)
        else:
            await self._host_events[kind.removeprefix(PREFIX)](host)
        await self._agenda.end(kind, trio.current_time() - since)

    async def _up(self, host: Host) -> None:
        """Wait until the host serves, for a limited time."""
        with trio.move_on_after(_UP_SECONDS):
            while not host.is_up:  # noqa: ASYNC110 - it may die again at any moment
                await trio.sleep(_LOOK_SECONDS)

    def _count(self, kind: str, times: int = 1) -> None:
        self._world.strikes.count(kind, times)

    def _strike(self, host: Host, kind: str) -> None:
        """Count an event that is about to strike a host, if the host runs."""
        self._count(f"{host.prefix}{kind}", host.is_up)

    # -- gateways ---------------------------------------------------------------------------------

    async def _crash(self, host: Host) -> None:
        """Crash the host at any checkpoint of a burst of work."""
        await self._up(host)
        if isinstance(host, Pipeline):
            with trio.move_on_after(_TASK_SECONDS):
                await host.next_task()
            await self._up(host)
        for _ in range(self._rng.randrange(100)):
            await trio.lowlevel.checkpoint()
        self._strike(host, "crash")
        host.crash()

    async def _crash_point(self, host: Host) -> None:
        await trio.lowlevel.checkpoint()
        places = PIPELINE_PLACES if isinstance(host, Pipeline) else PLACES
        host.crash_point.arm(self._rng.choice(places), self._rng.randint(1, 3))

    async def _stay_away(self, node: Node) -> None:
        await self._up(node)
        if node.gateway is None:
            return
        incarnation, is_noticed = node.gateway.coordinator.incarnation, False
        node.away_until = trio.current_time() + self._rng.uniform(
            MIN_AWAY_SECONDS, MAX_AWAY_SECONDS
        )
        node.crash()
        self._agenda.is_awaited = AWAY_KIND in self._world.strikes.missing()
        while trio.current_time() < node.away_until:
            await trio.sleep(_LOOK_SECONDS)
            if not is_noticed and is_absent(incarnation, self._nodes):
                is_noticed, self._agenda.is_awaited = True, False
                self._count(AWAY_KIND)
        self._agenda.is_awaited = False

    async def _crash_all(self, node: Node) -> None:
        for each in self._nodes:
            await self._up(each)
        alive = sum(each.gateway is not None for each in self._nodes)
        self._count("crash_all", alive > 1)
        for host in self._hosts:
            host.crash()

    async def _restart_storm(self, node: Node) -> None:
        await self._up(node)
        deaths = 0
        for _ in range(self._rng.randint(3, 6)):
            deaths += node.has_begun
            node.crash(comes_back_fast=True)
            await trio.sleep(self._rng.uniform(0.1, 1.5))
        self._count("restart_storm", deaths > 1)

    async def _drain(self, host: Host) -> None:
        await self._up(host)
        self._strike(host, "drain")
        host.drain()

    async def _rolling_restart(self, node: Node) -> None:
        """Restart each gateway when the one before it is back; skip a gateway that comes back too
        late.
        """
        stopped = 0
        for each in self._nodes:
            await self._up(each)
            before = each.gateway
            each.drain()
            with trio.move_on_after(3 * _UP_SECONDS):
                while each.gateway in (None, before):  # noqa: ASYNC110 - it may die on the way
                    await trio.sleep(_LOOK_SECONDS)
            stopped += before is not None and each.gateway is not before
            # Two gateways suffice: other faults may keep one down for longer than the wait above.
            self._count("rolling_restart", stopped == 2)

    async def _operator_drain(self, node: Node) -> None:
        """Mark the gateway through any gateway, because the operator may not reach the log."""
        await self._up(node)
        done = await self._mark(DrainGateway(node.node_id, stops=self._rng.random() < _STOP_SHARE))
        self._count(DRAIN_KIND, done)
        await trio.sleep(self._rng.choice((self._rng.uniform(1, 10), self._rng.uniform(20, 60))))
        match self._rng.randrange(3):
            case 0:
                await self._mark(ResumeGateway(node.node_id))
            case 1:
                node.drain()
            case _:
                pass

    async def _mark(self, proposal: DrainGateway | ResumeGateway) -> bool:
        gateways = [each.gateway for each in self._nodes if each.gateway is not None]
        if not gateways:
            return False
        try:
            marked = await self._rng.choice(gateways).coordinator.propose(proposal)
        except (CoordinatorUnavailable, ProposalFailed):
            return False
        return marked is Marked.DONE

    async def _stall(self, host: Host) -> None:
        await self._up(host)
        self._strike(host, "stall")
        host.stall()
        try:
            await trio.sleep(self._rng.choice((self._rng.uniform(1, 5), self._rng.uniform(5, 60))))
        finally:
            host.go_on()

    async def _isolate(self, host: Host) -> None:
        await self._up(host)
        self._strike(host, "isolate")
        since = trio.current_time()
        gateway = host.gateway if isinstance(host, Node) else None
        with host.without_log():
            await trio.sleep(self._lease_seconds * self._rng.uniform(0.2, 3.0))
            if isinstance(host, Node) and gateway is not None:
                await Isolated(self._world, host, gateway, since).judge()

    async def _log_outage(self, node: Node) -> None:
        self._count("log_outage")
        with ExitStack() as outages:
            for each in self._hosts:
                outages.enter_context(each.without_log())
            await trio.sleep(self._rng.uniform(1, 60))

    async def _store_outage(self, node: Node) -> None:
        self._count("store_outage")
        with ExitStack() as outages:
            for each in self._hosts:
                outages.enter_context(each.without_store())
            await trio.sleep(self._rng.uniform(1, 60))

    async def _lost_object(self, node: Node) -> None:
        await trio.lowlevel.checkpoint()
        self._count("lost_object", self._world.hurt.strike("lost_object", self._rng))

    async def _spoilt_object(self, node: Node) -> None:
        await trio.lowlevel.checkpoint()
        self._count("spoilt_object", self._world.hurt.strike("spoilt_object", self._rng))

    # -- connections ------------------------------------------------------------------------------

    async def _cut(self, node: Node) -> None:
        await trio.lowlevel.checkpoint()
        self._count("cut", node.cut())

    async def _hang(self, node: Node) -> None:
        await self._while(node, "hang", Link.hang, self._rng.uniform(0.5, 50.0))

    async def _half_open(self, node: Node) -> None:
        """Hang the links until the run ends, or until a side that probes finds them dead."""
        links = self._links(node, "half_open")
        for link in links:
            link.hang()
        await trio.sleep(_UP_SECONDS if links else 0.0)

    async def _one_way(self, node: Node) -> None:
        direction = self._rng.randrange(2)

        def hang(link: Link) -> None:
            link.wires[direction].hang()

        await self._while(node, "one_way", hang, self._rng.uniform(0.5, 50.0))

    async def _trickle(self, node: Node) -> None:
        await self._while(node, "trickle", Link.trickle, self._rng.uniform(5.0, 50.0))

    async def _while(
        self, node: Node, kind: str, harm: Callable[[Link], None], seconds: float
    ) -> None:
        """Harm the connections that exist now, for that many seconds."""
        links = self._links(node, kind)
        for link in links:
            harm(link)
        await trio.sleep(seconds if links or node.is_unreachable else 0.0)
        for link in links:
            link.flow()

    def _links(self, node: Node, kind: str) -> list[Link]:
        links = list(node.links)
        self._count(kind, len(links))
        return links

    async def _partition(self, node: Node) -> None:
        await self._up(node)
        self._count("partition", node.gateway is not None)
        node.is_unreachable = True
        try:
            await self._while(node, "hang", Link.hang, self._rng.uniform(1.0, 50.0))
        finally:
            node.is_unreachable = False

    # -- disks ------------------------------------------------------------------------------------

    async def _tear(self, node: Node) -> None:
        await self._up(node)
        self._count(f"{DISK}torn", node.disk.tear(self._rng))
        node.crash(comes_back_fast=True)

    async def _flip(self, node: Node) -> None:
        await self._up(node)
        self._count(f"{DISK}flipped", node.disk.flip(self._rng))
        node.crash(comes_back_fast=True)

    async def _lose(self, node: Node) -> None:
        await self._up(node)
        self._count(f"{DISK}lost", node.disk.lose(self._rng))

    async def _trouble_disk(self, trouble: str, node: Node) -> None:
        """Fill or break the disk for a while.

        In a late run write to the disk here, because perhaps no reader does.
        """
        node.disk.trouble = trouble
        with trio.move_on_after(self._rng.uniform(5.0, 60.0)):
            while self._agenda.is_late:
                node.write_to_disk()
                await trio.sleep(1.0)
            await trio.sleep_forever()
        node.disk.trouble = ""

    # -- clocks -----------------------------------------------------------------------------------

    async def _clock_forward(self, node: Node) -> None:
        await self._jump("clock_forward", 1.0)

    async def _clock_back(self, node: Node) -> None:
        await self._jump("clock_back", -1.0)

    async def _jump(self, kind: str, sign: float) -> None:
        """Move the clock of one gateway only: the cluster's time is the median of three."""
        await trio.lowlevel.checkpoint()
        node = self._nodes[-1]
        self._count(kind, node.gateway is not None)
        node.jump_clock(sign * self._rng.choice((1.0, 60.0, _HOUR_SECONDS, 30 * _HOUR_SECONDS)))
