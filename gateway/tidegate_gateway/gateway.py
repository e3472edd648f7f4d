"""One gateway: all parts put together, none of them chosen here.

The store, the log, the clocks and the randomness are passed in, so that the same class runs on
sockets and disks (app.py) and in the simulated world.  start() loads the state, registers an
incarnation and starts the tasks in the caller's nursery; serve() is one connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.coordinator.decider import Decider
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.coordinator.route import DecidesHere, Route
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.forwarding.contention import ENOUGH, Contention
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.forwarding.hooks import Hook
from tidegate_coordination.forwarding.leaders import ONLY_FORWARDS_LISTENER
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.log_move.watch import LogMoveWatch
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.objects.wal import WalIdentity
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.files.steps import Disk
from tidegate_storage.stores.object_store import ObjectStore

from .blocking import Blocking
from .cut_off import tell_of_cuts, to_avoid
from .dispatch import Dispatcher
from .draining import Draining
from .fetch.fetch_plan import MIN_FILE_BYTES, FetchSettings
from .fetch.log_reader import LogReader
from .fetch.object_lender import ObjectLender
from .fetch.read_ahead import MAX_BYTES as READ_AHEAD_BYTES
from .fetch.read_ahead import ReadAhead
from .fetch.segment_disk import MAX_OPEN_FILES
from .fetch.zone_reads import ZoneReads
from .gateway_counters import GatewayCounters
from .gateway_watch import GatewayWatch
from .groups.group_manager import GroupManager
from .handlers import make_handlers
from .network.arenas import ArenaPool
from .network.call import Peer
from .network.connection import Connection, ReplyFlusher
from .network.inflow import Inflow
from .network.large_requests import LargeRequests
from .network.proxied import source_of
from .network.receiver import PATIENCE_STEP_SECONDS
from .network.reply_memory import reply_memory
from .network.transport import Transport
from .part_settings import (
    connection_limits,
    group_settings,
    housekeeper_settings,
    wal_settings,
    with_advertised,
)
from .peers.neighbours import Neighbours
from .peers.peer_listener import Forwarding, forwarding
from .peers.peer_service import PeerService
from .peers.peers import Dial, GatewayPeers
from .produce.produce_deadlines import ProduceDeadlines
from .produce.record_checks import RecordChecks
from .produce.wal_writer import WalWriter
from .refused_features import RefusedFeatures
from .requests.records.produce import Produce
from .requests.records.produce_fast_path import PlainProducePath
from .settings.broker_settings import BrokerSettings
from .startup import register, tell_settings
from .upkeep.backup_schedule import BackupSchedule
from .upkeep.housekeeper import Housekeeper
from .upkeep.prefixes import own_prefix, see_prefix
from .upkeep.upkeep import Upkeep
from .zones.cluster_view import ClusterView
from .zones.read_steering import ReadSteering
from .zones.zone_finder import ZoneFinder
from .zones.zone_settings import check_listeners, proxied_listeners, zone_maps
from .zones.zone_traffic import ZoneTraffic

_log = structlog.get_logger("tidegate.gateway")

LOAD_SECONDS = 120.0
# Half of the shortest session of a group's member: see the coordinator's head.
AWAY_SECONDS = 3.0
SAY_AGAIN_SECONDS = 0.5
LAST_COPY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this gateway is.

    instance_key: the same for every life of it.  cluster_id: used if the log is empty.  peer: where
    other gateways reach it; None for nowhere.  highest_version: the metadata.version up to which it
    reads; lower than the release's in the simulated world only.
    """

    node_id: int
    instance_key: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    cluster_id: str
    peer: Endpoint | None = None
    highest_version: int = NEWEST


class Gateway:
    """See the module's head.  The parts are public for metrics and the admin server; read only.

    peers: how other gateways are asked; None for a gateway that asks nobody.
    dial: how it looks whether others serve clients; None for not at all.
    cache_disk: where parts of segments are kept; None for nowhere.  max_open_files: of them.
    min_file_bytes: smaller parts are copied, not sent from their file.
    after_lost_races: so many in a row, and another gateway appends for this one.
    """

    def __init__(
        self,
        identity: Identity,
        settings: BrokerSettings,
        *,
        store: ObjectStore,
        log: MetadataLog,
        rng: Random,
        wall_clock: Callable[[], float],
        blocking: Blocking,
        peers: GatewayPeers | None = None,
        dial: Dial | None = None,
        cache_disk: Disk | None = None,
        max_open_files: int = MAX_OPEN_FILES,
        min_file_bytes: int = MIN_FILE_BYTES,
        after_lost_races: int = ENOUGH,
        leadership_hooks: Sequence[Hook] = (),
    ) -> None:
        self.identity = identity
        self.settings = with_advertised(settings, identity.endpoints)
        self.counters = GatewayCounters()
        self.connections: set[Connection] = set()
        self.is_ready = False
        self.upkeep = Upkeep()
        self.large_requests = LargeRequests()
        self.is_stopping = False
        self._has_joined = False
        self._store = store
        self._log = log
        self._rng = rng
        self._wall_clock = wall_clock
        self._blocking = blocking
        self._max_open_files = max_open_files
        self._min_file_bytes = min_file_bytes
        self._after_lost_races = after_lost_races
        self._peers = peers
        self._dial = dial
        self._leadership_hooks = leadership_hooks
        self.peer_service: PeerService | None = None
        self._zone_maps = zone_maps(settings)
        self._proxied = proxied_listeners(settings)
        check_listeners(self._zone_maps, settings, [each.listener for each in identity.endpoints])
        self.disk_cache: DiskCache | None = None
        if cache_disk is not None:
            self.disk_cache = DiskCache(cache_disk, settings.int("disk.cache.max.bytes"))

    async def start(
        self,
        nursery: trio.Nursery,
        before_joining: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        """Load, register and start all tasks; then connections may be served.

        Args:
          before_joining: called when all is well so far, nobody knows of this gateway yet, and it
            has written nothing.

        Raises:
          NodeIdInUse, StoreMisconfigured, LogMisconfigured, ReleaseTooOld: with what to do.
        """
        state = await load_state(
            self._log,
            deadline_seconds=LOAD_SECONDS,
            highest_version=self.identity.highest_version,
        )
        me = self.identity
        state = await see_prefix(
            self._store, self._log, state, me.node_id, deadline_seconds=LOAD_SECONDS
        )
        check_cluster(state, self.settings.text("cluster.id"))
        self.coordinator = self._make_coordinator(state)
        nursery.start_soon(self.coordinator.run)
        if isinstance(self._log, MovableLog):
            nursery.start_soon(LogMoveWatch(self.coordinator, self._log).run)
        await before_joining()
        await register(self.coordinator, self._registration())
        self._has_joined = True
        self.cluster_settings = self._make_cluster_settings()
        await tell_settings(self.coordinator, self.cluster_settings)
        await own_prefix(self._store, self.coordinator, me.node_id, version=me.software_version)
        self._build()
        nursery.start_soon(self.writer.run)
        for what, run in self._upkeep_tasks():
            nursery.start_soon(self.upkeep.keep_running, what, run)
        token = self.settings.text("peer.token")
        self.peer_service = PeerService(self.coordinator, self._log, token, self.lender)
        self.is_ready = True

    def _upkeep_tasks(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield what goes on by itself, with what to say where it could not."""
        yield "time produce requests out", self.produce_deadlines.run
        yield "watch connections", self._watch_connections
        yield "tell of cuts", partial(tell_of_cuts, self.coordinator)
        yield "read ahead", self.read_ahead.run
        if self.disk_cache is not None:
            yield "write to the disk cache", self.disk_cache.run
        yield "serve the timers of groups", self.groups.run
        yield "heed operators", self.draining.run
        yield "keep house", self.housekeeper.run
        if self.neighbours is not None:
            yield "look whether gateways answer", self.neighbours.run
        yield "back the metadata log up", self.backup.run

    def _make_coordinator(self, state: ClusterState) -> Coordinator:
        return Coordinator(
            self._log,
            state,
            rng=self._rng,
            wall_clock=self._wall_clock,
            away_seconds=AWAY_SECONDS,
            route=self._route,
        )

    def _route(self, decider: Decider) -> Route:
        when = forwarding(self.settings, self._log)
        if self._peers is None or when is Forwarding.NEVER:
            return DecidesHere(decider)
        contention = None if when is Forwarding.ALWAYS else self._contention()
        forwarder = Forwarder(decider, self._peers, contention=contention)
        for hook in self._leadership_hooks:
            forwarder.leadership.listen(hook)
        return forwarder

    def _contention(self) -> Contention:
        return Contention(self._after_lost_races)

    def _registration(self) -> Register:
        me = self.identity
        return Register(
            me.node_id,
            me.instance_key,
            me.zone,
            self._endpoints(),
            me.software_version,
            me.cluster_id,
            self.settings.int("lease.ms"),
        )

    def _make_cluster_settings(self) -> ClusterSettings:
        own = Own(self.identity.node_id, self.settings.static)
        return ClusterSettings(self.coordinator.state, own)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        peer = self.identity.peer
        if peer is None:
            return self.identity.endpoints
        if not self._log.capabilities.can_append:
            peer = Endpoint(ONLY_FORWARDS_LISTENER, peer.host, peer.port)
        return (*self.identity.endpoints, peer)

    def _build(self) -> None:
        """Make the parts that need the state.  No I/O."""
        self.counters.topics = self.coordinator.state.topics.by_name
        self._build_readers()
        self._build_writer()
        self._build_keepers()
        self._build_view()
        self._dispatcher = self._make_dispatcher()
        self._limits = connection_limits(self.settings)

    def _build_readers(self) -> None:
        """Make what reads objects, and what bounds the memory that takes."""
        settings = self.settings
        self.cache: RangeCache[object] = RangeCache(settings.int("fetch.cache.bytes"))
        self.reply_memory = reply_memory(self.cache.max_bytes)
        lender = ObjectLender(self._store, self.cache)
        self.lender = lender if settings.text("zone.reads") == "on" else None
        self.zone_reads = self._make_zone_reads()
        self.reader = LogReader(
            self.coordinator,
            self._store,
            self.cache,
            settings=FetchSettings(max_bytes=settings.int("fetch.max.bytes")),
            disk=self.disk_cache,
            max_open_files=self._max_open_files,
            zone=self.zone_reads,
        )
        self.read_ahead = ReadAhead(
            self.reader,
            max_bytes=min(READ_AHEAD_BYTES, self.cache.max_bytes // 4),
            room_bytes=self.cache.max_bytes // 2,
            upkeep=self.upkeep,
        )

    def _build_writer(self) -> None:
        """Make what writes objects, and what answers those who wait for that."""
        self.flusher = ReplyFlusher()
        self.produce_deadlines = ProduceDeadlines(self.flusher.flush, lambda: self.is_cut_off)
        self._inflow = Inflow()
        self.pool = ArenaPool(self.settings.int("buffered.bytes.max"))
        self.writer = WalWriter(
            self._store,
            self.coordinator,
            wal_settings(self.settings),
            node_id=self.identity.node_id,
            inflow=self._inflow,
            key_of=self._wal_key,
            is_append_time=lambda topic: self.cluster_settings.of(topic).timestamp_type_is_append,
            on_stored=self.reader.adopt,
            after_answers=self.flusher.flush,
            upkeep=self.upkeep,
        )

    def _build_keepers(self) -> None:
        """Make what this gateway does for the cluster, and what leaves it to others."""
        settings = self.settings
        self.groups = GroupManager(
            self.coordinator, group_settings(settings), rng=self._rng, absent=lambda: self.absent
        )
        self.draining = Draining(
            self.coordinator,
            self.groups,
            self.connections,
            grace_seconds=settings.int("drain.grace.ms") / 1000,
            timeout_seconds=settings.int("drain.timeout.ms") / 1000,
        )
        watch = GatewayWatch(self.coordinator.state.gateways, self.coordinator.incarnation)
        self.coordinator.listen(watch.on_change)
        self.backup = self._make_backup()
        self.housekeeper = self._make_housekeeper()

    def _build_view(self) -> None:
        """Make what clients are told of the cluster."""
        state = self.coordinator.state
        self.zones = ZoneFinder(self._zone_maps, state.gateways)
        self.neighbours = self._make_neighbours()
        self.cluster_view = ClusterView(state, self.zones, lambda: self.absent)
        self.steering = ReadSteering(self.cluster_view, self.identity.zone)
        self.traffic = ZoneTraffic(self.zones, self.identity.zone)

    def _make_neighbours(self) -> Neighbours | None:
        if self._dial is None:
            return None
        # Whoever connects to one behind a proxy has to begin with the proxy's header.
        names = (each.listener for each in self.identity.endpoints)
        asked = [each for each in names if each not in self._proxied]
        state, me = self.coordinator.state, self.coordinator.incarnation
        return Neighbours(state.gateways, me, asked, self._dial)

    @property
    def absent(self) -> frozenset[int]:
        """Return the incarnations that clients are not sent to; its own while it is cut off."""
        unheard = self.neighbours.absent if self.neighbours is not None else frozenset[int]()
        return to_avoid(self.coordinator, unheard)

    @property
    def is_cut_off(self) -> bool:
        """Whether it does not reach the metadata log for so long that others serve instead."""
        return self.is_ready and self.coordinator.is_cut_off

    def _make_zone_reads(self) -> ZoneReads | None:
        if self.lender is None or self._peers is None:
            return None
        return ZoneReads(
            self.coordinator,
            self.identity.zone,
            self.lender,
            self._peers,
            zone_id_of=self._zone_maps.id_of,
        )

    def _make_housekeeper(self) -> Housekeeper:
        return Housekeeper(
            self.coordinator,
            self._log,
            self._store,
            housekeeper_settings(self.settings),
            cluster=self.cluster_settings,
            check_owner=self.backup.check_owner,
            copied_log_time_ms=lambda: self.backup.copied_log_time_ms,
            see_copied=self.backup.cover,
            wall_clock=self._wall_clock,
            upkeep=self.upkeep,
        )

    def _make_backup(self) -> BackupSchedule:
        settings = self.settings
        return BackupSchedule(
            self.coordinator.state,
            self._log,
            self._store,
            interval_seconds=settings.int("log.backup.interval.ms") / 1000,
            check_seconds=settings.int("housekeeping.interval.ms") / 1000,
            snapshot_entries=settings.int("snapshot.interval.entries"),
            wall_clock=self._wall_clock,
            upkeep=self.upkeep,
        )

    def _make_dispatcher(self) -> Dispatcher:
        handlers = make_handlers(
            self.coordinator,
            self.reader,
            self.read_ahead,
            self.reply_memory,
            self.groups,
            self.settings,
            cluster=self.cluster_settings,
            view=self.cluster_view,
            steering=self.steering,
            rng=self._rng,
            blocking=self._blocking,
            min_file_bytes=self._min_file_bytes,
        )
        refused = RefusedFeatures(trio.current_time)
        produce = Produce(
            self.coordinator,
            self.writer,
            self.flusher,
            self.cluster_settings.of,
            self.now_ms,
            RecordChecks(
                self.settings.text("record.validation") == "full", self._blocking, self.now_ms
            ),
            self.produce_deadlines,
            self.counters.add_bytes_in,
            refused,
        )
        return Dispatcher(
            PlainProducePath(produce),
            produce,
            handlers,
            self.flusher,
            self.counters,
            refused,
            self.large_requests,
        )

    def now_ms(self) -> int:
        """Return the wall clock in ms."""
        return int(self._wall_clock() * 1000)

    def _wal_key(self, identity: WalIdentity) -> str:
        return object_key(self.coordinator.state, WalName(identity.incarnation, identity.counter))

    async def serve(self, transport: Transport, listener: str) -> None:
        """Serve one connection until it closes."""
        source = transport.peer
        if listener in self._proxied:
            named = await source_of(transport)
            if named is None:
                transport.close()
                return
            source = named
        peer = Peer(*source, listener, origin=self.zones.origin_of(listener, source[0]))
        connection = Connection(
            transport,
            peer,
            self.pool,
            self._dispatcher,
            self._limits,
            self._inflow,
            self.reply_memory,
        )
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)
            self.traffic.book(peer)
            self.zones.racks.forget(peer)

    async def _watch_connections(self) -> None:
        """Close connections whose clients are gone without a word; forever."""
        while True:
            await trio.sleep(PATIENCE_STEP_SECONDS)
            # What came while this process stood still is received first.
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            for connection in tuple(self.connections):
                connection.check_patience(now, self.draining.idle_seconds)

    @property
    def is_draining(self) -> bool:
        """Whether it takes no new work."""
        return self.is_stopping or (self.is_ready and self.draining.is_marked)

    async def give_up(self) -> None:
        """Leave the cluster after a start that came to nothing, if it was joined.

        Or clients would be sent here for a lease.  The caller has a deadline.
        """
        if self._has_joined and not self.coordinator.has_left:
            await _say(self.coordinator.leave)

    async def drain(self, stop_listening: Callable[[], None] = lambda: None) -> None:
        """Send clients away, answer what is in flight, commit, and leave the cluster.

        Clients that know nothing yet may connect until stop_listening is called: who is refused a
        connection learns less than who is told where to go.  While the log is away this lasts; the
        caller has a deadline (drain.timeout.ms).
        """
        self.is_stopping = True
        await _say(self.draining.begin)
        stop_listening()
        await _say(self.groups.hand_over)
        await self.writer.drain()
        await _say(self.coordinator.leave)
        with trio.move_on_after(LAST_COPY_SECONDS):
            await self._copy_last()

    async def _copy_last(self) -> None:
        copy = partial(self.backup.look_and_copy, even_if_others_do=True)
        while True:
            if await self.upkeep.attempt("back the metadata log up", copy):
                return
            await trio.sleep(SAY_AGAIN_SECONDS)


async def _say(step: Callable[[], Awaitable[object]]) -> None:
    """Say something in the log, again until it answers."""
    while True:
        try:
            await step()
            return
        except CoordinatorUnavailable:
            await trio.sleep(SAY_AGAIN_SECONDS)
        except ProposalFailed as error:
            _log.warning("left without saying so", error=str(error))
            return
