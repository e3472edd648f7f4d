"""A machine that runs a gateway; see host.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import trio
from crc32c import crc32c

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.forwarding.service import ProposalService
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.forward import ForwardLog
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.http.values import HttpAnswer, HttpRequest
from tidegate_storage.disk.cache_files import Place
from tidegate_storage.disk.memory_disk import MemoryDisk
from tidegate_storage.disk.queue import Offer
from tidegate_storage.stores.object_store import ObjectStore

from ..plans.disk_plan import PREFIX as DISK
from ..plans.malformed_plan import NO_THREAD
from ..plans.security import login_plan
from .answer_tally import AnswerTally
from .dials import SimulatedDial, host_of
from .faulty.disks import SimulatedDisk
from .host import Host
from .lending import SimulatedLenders
from .network import Link
from .peers import SimulatedPeers
from .sharing import SimulatedSharers
from .tasks.threads import SimulatedThreads
from .world import NotReachable, World

LISTENER = "PLAINTEXT"
ENOUGH_FILES = 20
_NEXT_SHARE = 0.5
_EARLY_SHARE = 0.1
CLUSTER_ID = "simulated-cluster-0000"


@dataclass(frozen=True, slots=True)
class _Life:
    """The objects that die with a process."""

    gateway: Gateway
    nursery: trio.Nursery
    answers: AnswerTally = field(default_factory=AnswerTally)

    @property
    def is_ending(self) -> bool:
        """Return whether it accepts no new task."""
        return self.nursery.cancel_scope.cancel_called


class Node(Host):
    """See the module's head.

    release: the highest metadata.version that its next lives can read.  secrets: the settings about
    keys of its next lives.  told_secrets: those of its last life; None before its first one.
    """

    def __init__(
        self, world: World, node_id: int, clock_offset_seconds: float, clock_rate: float = 1.0
    ) -> None:
        super().__init__(world, f"node {node_id}", clock_offset_seconds, clock_rate)
        self.node_id = node_id
        self.zone = world.plan.zones.of_gateways[node_id]
        self.links: dict[Link, None] = {}
        self.is_unreachable = False
        self.release = world.plan.versions.first_release
        self.secrets = world.plan.logins.sealing.first_settings
        self.told_secrets: dict[str, str] | None = None
        self.disk = SimulatedDisk(world.wall_clock, self._on_refusal, self._on_written)
        self._life: _Life | None = None

    @property
    def gateway(self) -> Gateway | None:
        """Return the gateway while it serves, else None."""
        return self._life.gateway if self._life is not None else None

    @property
    def is_up(self) -> bool:
        """See Host."""
        return self._life is not None

    def cut(self) -> int:
        """Reset all connections; return their number."""
        count = len(self.links)
        for link in self.links:
            link.reset()
        self.links.clear()
        return count

    def connect(self, process: str, listener: str = LISTENER) -> MemoryTransport:
        """Open a connection to a listener and return the client's end.

        Raises:
          NotReachable: it is down.
        """
        life = self._reachable()
        if not self._world.cuts.connects(process, self.name):
            raise NotReachable(f"{process} does not reach {self.name}")
        link = Link((process, 1), self._rng, self._world.plan.latency_seconds)
        self.links[link] = None
        self._world.nursery.start_soon(self._carry, link)
        life.nursery.start_soon(life.gateway.door.let_in, link.server, listener)
        return link.client

    @property
    def answers(self) -> AnswerTally:
        """Return the tally of answers that clients got from this incarnation.

        Raises:
          NotReachable: it is down.
        """
        return self._reachable().answers

    def miscounted(self) -> str:
        """Return a difference between this incarnation's metrics and its answers; "" if there is
        none.
        """
        life = self._life
        found = life.answers.disagreements(life.gateway) if life is not None else ()
        return "; ".join(f"{self.name}, {each}" for each in found)

    def drop(self, process: str) -> None:
        """See Machine."""
        for link in self.links:
            if link.process == process:
                link.reset()

    def ask(self, request: HttpRequest, answered: Callable[[HttpAnswer], None]) -> None:
        """See Machine."""
        life = self._reachable()
        service = life.gateway.peer_service

        async def answer() -> None:
            answered(await service.handle(request))

        life.nursery.start_soon(answer)

    def _reachable(self) -> _Life:
        life = self._life
        if life is None or life.is_ending or self._scope.cancel_called or self.is_unreachable:
            raise NotReachable(f"{self.name} does not answer")
        return life

    async def _carry(self, link: Link) -> None:
        await link.run()
        self.links.pop(link, None)

    # -- its lives --------------------------------------------------------------------------------

    async def _serve(self, nursery: trio.Nursery) -> None:
        gateway = await self._make().start(nursery)
        self._world.lives += 1
        self._watch(gateway.coordinator)
        if gateway.sealing.seals:
            self._world.watch.sealing.sealers.add(self.node_id)
        self._life = _Life(gateway, nursery)
        nursery.start_soon(self._heed_operators, gateway, self._drain)
        await self._drain.wait()
        await gateway.drain()
        self._count("drained")

    async def _heed_operators(self, gateway: Gateway, stop: trio.Event) -> None:
        await gateway.draining.stop_asked.wait()
        stop.set()

    def _read_object(self, key: str) -> None:
        if "/segments/" in key:
            self._count("fetch.from_segment")

    def _on_refusal(self, trouble: str) -> None:
        self._count(f"{DISK}{trouble}")

    def _on_written(self) -> None:
        """Promise disk faults once there are files, because not every run reads segments."""
        strikes = self._world.strikes
        strikes.count("disk_cache.writes")
        if strikes.landed["disk_cache.writes"] == ENOUGH_FILES and not self._world.healed:
            strikes.promise(self._world.plan.disks.kinds)
        used_bytes, max_bytes = self.disk.used_bytes, self._world.plan.disks.max_bytes
        if used_bytes > max_bytes:
            text = f"{self.name}: {used_bytes} bytes, {max_bytes} allowed"
            self._world.complain("disk cache too large", text)

    def write_to_disk(self) -> None:
        """Make the disk cache write a part that no reader wants."""
        cache = self.gateway.disk_cache if self.gateway is not None else None
        if cache is not None:
            body = f"of second {trio.current_time()}".encode()
            cache.offer(Offer(Place(body.decode(), 0), body, crc32c(body)))

    def count_disk_uses(self) -> None:
        """Count the uses of this life's disk cache."""
        cache = self.gateway.disk_cache if self.gateway is not None else None
        if cache is not None:
            self._count("disk_cache.hits", cache.counters.hits)
            self._count("disk_cache.damaged_files", cache.counters.damaged_files)
            self._count("disk_cache.lost_files", cache.counters.lost_files)
            self._count("disk_cache.sent_bytes", cache.counters.sent_bytes)

    def _forget(self) -> None:
        self.count_disk_uses()
        self._life = None
        self.cut()

    @property
    def proposals(self) -> ProposalService | None:
        """See AskedMachine."""
        return self.gateway.peer_service.proposals if self.gateway is not None else None

    def _has_thread(self, rng: Random) -> bool:
        world = self._world
        if world.healed or rng.random() >= world.plan.malformed.no_thread:
            return True
        self._count(NO_THREAD)
        return False

    def _open_as_told(self) -> tuple[MetadataLog, ObjectStore]:
        """Open the log that this life's settings name, at times the coming log, too early.

        A life with metadata.log.next, the target of the next move, opens the current log.  At the
        end of an older log, readers would take the target for the older log's successor.
        """
        world, plan = self._world, self._world.plan.moves
        self.next_log = ""
        if not world.next_log:
            return self._open()
        if plan.uses_next and self._rng.random() < _NEXT_SHARE:
            self.next_log = world.next_log
        if self._rng.random() < _EARLY_SHARE:
            return self._open(world.next_log)
        return self._open(world.homes[-1] if self.next_log else None)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        own = Endpoint(LISTENER, host_of(self.node_id), 9092)
        if not self._world.plan.logins.is_on:
            return (own,)
        return (own, Endpoint(login_plan.LISTENER, host_of(self.node_id), login_plan.PORT))

    def _make(self) -> GatewayBuilder:
        world = self._world
        log, store = self._open_as_told()
        forwarding = world.plan.forwarding
        only_forwards = self.node_id in forwarding.only_forward
        if only_forwards:
            log = _through_others(log)
        shares_quotas = bool(world.plan.quotas.strikes)
        has_peers = forwarding.is_on or world.plan.zones.lend or shares_quotas
        identity = Identity(
            self.node_id,
            f"key-{self.node_id}",
            self.zone,
            self._endpoints(),
            "0",
            CLUSTER_ID,
            Endpoint(PEER_LISTENER, host_of(self.node_id), 9093) if has_peers else None,
            self.release,
        )
        lenders = SimulatedLenders(world, self.name, self.zone, is_calm=not world.plan.kinds)
        life = f"{self.name}, {world.lives}"
        sharers = SimulatedSharers(world, self, world.rng(f"sharers of {life}"))
        peers = SimulatedPeers(world, self, lenders, sharers, world.rng(f"peers of {life}"))
        has_thread = partial(self._has_thread, world.rng(f"spare threads of {life}"))
        threads = SimulatedThreads(world.nursery, world.rng(f"threads of {life}"), has_thread)
        static = world.plan.static.of(self.node_id)
        is_probed = world.plan.zones.is_probed or shares_quotas
        environment = Environment(
            store=store,
            log=log,
            rng=self._rng,
            wall_clock=self._wall_clock,
            pools=threads.pools(world.complain),
            peers=peers if has_peers else None,
            dial=SimulatedDial(world, self) if is_probed else None,
            cache_disk=MemoryDisk(self.disk) if world.plan.disks.max_bytes else None,
            max_open_files=4,
            min_file_bytes=world.plan.disks.min_send_bytes,
            after_lost_races=world.plan.zones.after_lost_races,
            source_dial=world.source_dial,
            random_bytes=world.rng(f"secrets of {self.name}, {world.lives}").randbytes,
            read_keys=partial(world.provider.read, self.node_id),
        )
        self.told_secrets = self.secrets
        world.provider.forget(self.node_id)
        own = {**static, **self.secrets, "node.id": str(self.node_id)}
        settings = BrokerSettings({**world.settings, **own})
        return GatewayBuilder(identity, settings, environment)


def _through_others(log: MetadataLog) -> ForwardLog:
    """Return the log as a read-only client sees it."""

    async def opened() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return log

    return ForwardLog([opened], log.capabilities)
