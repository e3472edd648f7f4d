"""A running gateway: it joins all parts, and chooses none of them.

The store, the log, the clocks and the randomness are passed in (environment.py), so the same class
runs on sockets and disks (app.py) and in the simulated world.  builder.py starts it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.scram import ScramCredential
from tidegate_coordination.state.switches import Fence
from tidegate_runtime.doors.slots import ConnectionSlots, Visitor
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.objects.wal import WalIdentity
from tidegate_storage.range_cache import RangeCache

from .counting.loop_watch import LoopWatch
from .counting.slow_requests import SlowRequests, seconds_of
from .counting.topic_counters import TopicCounters
from .counting.topic_series import MAX_TOPIC_SERIES, TopicSeries
from .cut_off import tell_of_cuts, to_avoid
from .dispatch import Dispatcher
from .draining import Draining
from .environment import Environment, Identity
from .fetch.fetch_plan import FetchSettings
from .fetch.log_reader import LogReader
from .fetch.object_lender import ObjectLender
from .fetch.read_ahead import MAX_BYTES as READ_AHEAD_BYTES
from .fetch.read_ahead import ReadAhead
from .fetch.zone_reads import ZoneReads
from .gateway_counters import GatewayCounters
from .groups.group_manager import GroupManager
from .handlers import make_handlers
from .links.fence_watch import FenceWatch
from .links.forwards import Forwards
from .links.group_fence_watch import GroupFenceWatch
from .links.group_forwards import GroupForwards
from .links.links import Links
from .links.source_ends import SourceEnds
from .links.transaction_forwards import TransactionForwards
from .network.arenas import ArenaPool
from .network.call import ANONYMOUS, Peer
from .network.connection import Connection, ReplyFlusher
from .network.inflow import Inflow
from .network.large_requests import LargeRequests
from .network.proxied import source_of
from .network.receiver import PATIENCE_STEP_SECONDS, QUIET_SECONDS
from .network.reply_memory import reply_memory
from .network.transport import Transport
from .part_settings import (
    connection_limits,
    connection_overrides,
    cost_settings,
    group_settings,
    housekeeper_settings,
    link_settings,
    quota_windows,
    token_times,
    transaction_intervals,
    wal_settings,
)
from .peers.neighbours import Neighbours
from .peers.peer_service import PeerService
from .produce.produce_deadlines import ProduceDeadlines
from .produce.record_checks import RecordChecks
from .produce.wal_writer import WalWriter
from .quotas.client_quotas import ClientQuotas
from .quotas.connection_rates import ConnectionRates
from .quotas.sharing.exchange import ShareExchange
from .quotas.sharing.scope import Scope, asks_for_shares
from .quotas.sharing.shares import QuotaShares
from .quotas.throttling import Throttling
from .requests.cluster.delegation_tokens import TokenParts
from .requests.records.produce import Produce
from .requests.records.produce_fast_path import PlainProducePath
from .requests.records.produce_forwarding import ProduceForwarding
from .requests.records.turned_back import TurnedBack
from .requests.refused_features import RefusedFeatures
from .security.authorizer_settings import authority_of
from .security.guarded import Guards
from .security.oauth.key_source import KeySources
from .security.sasl.gates import SaslGates
from .security.sasl.listeners import Credentials, secret_of
from .security.sealing import Sealing
from .security.tokens.logins import TokenLogins
from .security.tokens.secrets import TokenSecrets
from .settings.broker_settings import BrokerSettings
from .settings.listener_settings import tls_listeners
from .store_way.store_proof import StoreProof
from .store_way.store_watch import StoreWatch
from .store_way.store_way import StoreWay
from .telemetry.telemetry import Telemetry
from .topics.internal_topics import INTERNAL_TOPICS
from .transactions.producer_ids import ProducerIds, hold_seconds
from .transactions.steps import TransactionSteps
from .upkeep.backup_schedule import BackupSchedule
from .upkeep.cost_files import Books, CostFiles
from .upkeep.gateway_watch import GatewayWatch
from .upkeep.housekeeper import Housekeeper
from .upkeep.patience import SAY_AGAIN_SECONDS, propose_patiently
from .upkeep.resealing import Resealer
from .upkeep.token_upkeep import TokenUpkeep
from .upkeep.transaction_upkeep import TransactionUpkeep
from .upkeep.transaction_watch import TransactionWatch
from .upkeep.upkeep import Upkeep
from .zones.cluster_view import ClusterView
from .zones.read_steering import ReadSteering
from .zones.zone_finder import ZoneFinder
from .zones.zone_settings import ZoneMaps, proxied_listeners
from .zones.zone_traffic import ZoneTraffic

_log = structlog.get_logger("tidegate.gateway")

LAST_COPY_SECONDS = 5.0
LAST_COST_SECONDS = 5.0

# The door of all listeners for Kafka's clients.
CLIENTS: Final = "CLIENTS"


class Gateway:
    """A gateway that has joined the cluster.  Its parts are public for the admin pages: read only.

    Args:
      settings: with the listeners that the gateway advertises.
      coordinator: has read the log and registered this gateway; its task runs.
      cluster: the settings of all gateways.
      disk_cache: None without one.
      books: of the environment's store.
    """

    def __init__(
        self,
        identity: Identity,
        settings: BrokerSettings,
        environment: Environment,
        coordinator: Coordinator,
        cluster: ClusterSettings,
        *,
        zone_maps: ZoneMaps,
        disk_cache: DiskCache | None,
        sealing: Sealing,
        books: Books,
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.coordinator = coordinator
        self.cluster_settings = cluster
        self.disk_cache = disk_cache
        self.counters = GatewayCounters(TopicCounters(coordinator.state.topics.by_name))
        self.topic_series = TopicSeries(
            self.counters.topics, INTERNAL_TOPICS.__contains__, MAX_TOPIC_SERIES
        )
        self.slow_requests = SlowRequests(seconds_of(settings.int("slow.request.log.ms")))
        self.loop_watch = LoopWatch(environment.used_seconds)
        self.connections: set[Connection] = set()
        self.slots = ConnectionSlots(
            settings.int("max.connections"),
            settings.int("max.connections.per.ip"),
            connection_overrides(settings),
        )
        self.doors = {CLIENTS: self.slots}
        self.upkeep = Upkeep()
        self.large_requests = LargeRequests()
        self.is_stopping = False
        self._environment = environment
        self.audit = environment.audit
        self.pools = environment.pools
        self._zone_maps = zone_maps
        self.books = books
        self._proxied = proxied_listeners(settings)
        self.tls = environment.tls
        assert all(each in self.tls for each in tls_listeners(settings)), "else it is plaintext"
        self._limits = connection_limits(settings)
        self._build_readers()
        self._build_writer()
        self._build_keepers()
        self._build_view()
        self.authority = authority_of(
            settings, coordinator.state.acls, trio.current_time, environment.audit
        )
        if self.authority is not None:
            coordinator.limit_staleness(settings.int("authorizer.max.staleness.ms") / 1000)
        self._build_quotas()
        self.sealing = sealing
        self.token_secrets = TokenSecrets(settings.secret("delegation.token.secret.key"))
        self.token_parts = TokenParts(
            coordinator,
            self.token_secrets,
            token_times(settings),
            environment.random_bytes,
            environment.wall_clock,
        )
        self.telemetry = Telemetry(
            coordinator.state.configs,
            settings.int("telemetry.max.bytes"),
            environment.random_bytes,
            self.pools.telemetry,
        )
        self._dispatcher = self._make_dispatcher()
        self.provider_keys = KeySources(environment.read_keys)
        self.gates = self._make_gates()
        self.peer_service = PeerService(
            coordinator,
            environment.log,
            settings.secret("peer.token"),
            self.lender,
            self.quota_shares,
        )

    def start_tasks(self, nursery: trio.Nursery) -> None:
        """Start all tasks but the coordinator's, which runs."""
        nursery.start_soon(self.writer.run)
        for what, run in self._upkeep_tasks():
            nursery.start_soon(self.upkeep.keep_running, what, run)

    def _upkeep_tasks(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield the background tasks, each with its name in logs and metrics."""
        yield "time produce requests out", self.produce_deadlines.run
        yield "watch connections", self._watch_connections
        yield "tell of cuts", partial(tell_of_cuts, self.coordinator)
        yield "watch the way to the object store", self.store_watch.run
        yield "read ahead", self.read_ahead.run
        if self._environment.used_seconds is not None:
            yield "watch the event loop", self.loop_watch.run
        if len(self.tls):
            yield "look for new certificates", self.tls.run
        if len(self.provider_keys):
            yield "read the keys of identity providers", self.provider_keys.run
        if self.disk_cache is not None:
            yield "write to the disk cache", self.disk_cache.run
        yield "serve the timers of groups", self.groups.run
        yield "heed operators", self.draining.run
        yield "keep house", self.housekeeper.run
        yield "time transactions out", self.transaction_upkeep.run
        yield "remove expired delegation tokens", self.token_upkeep.run
        yield "mirror topics", self.links.run
        yield "forward writes", self.forwards.run
        yield "reach fences", self.fences.run
        yield "reach fences of groups", self.group_fences.run
        if self.neighbours is not None:
            yield "look whether gateways answer", self.neighbours.run
        if self.share_exchange is not None:
            yield "share quotas", self.share_exchange.run
        yield "back the metadata log up", self.backup.run
        yield "write what this gateway cost", self.cost_files.run
        yield "seal SCRAM credentials", Resealer(self.coordinator, self.sealing).run
        if self.audit is not None:
            yield "write the audit log", self.audit.run

    def _build_readers(self) -> None:
        """Make the parts that read objects, and those that bound the memory of reads."""
        settings, store = self.settings, self._environment.store
        self.store_way = StoreWay()
        self.cache: RangeCache[object] = RangeCache(settings.int("fetch.cache.bytes"))
        self.reply_memory = reply_memory(self.cache.max_bytes)
        lender = ObjectLender(store, self.cache)
        self.lender = lender if settings.text("zone.reads") == "on" else None
        self.zone_reads = self._make_zone_reads()
        self.reader = LogReader(
            self.coordinator,
            store,
            self.cache,
            settings=FetchSettings(max_bytes=settings.int("fetch.max.bytes")),
            disk=self.disk_cache,
            max_open_files=self._environment.max_open_files,
            zone=self.zone_reads,
            way=self.store_way,
        )
        self.read_ahead = ReadAhead(
            self.reader,
            max_bytes=min(READ_AHEAD_BYTES, self.cache.max_bytes // 4),
            room_bytes=self.cache.max_bytes // 2,
            upkeep=self.upkeep,
        )

    def _build_writer(self) -> None:
        """Make the parts that write objects, and those that answer producers."""
        self.flusher = ReplyFlusher()
        self.produce_deadlines = ProduceDeadlines(self.flusher.flush, lambda: self.is_cut_off)
        self._inflow = Inflow()
        self.pool = ArenaPool(self.settings.int("buffered.bytes.max"))
        self.writer = WalWriter(
            self._environment.store,
            self.coordinator,
            wal_settings(self.settings),
            node_id=self.identity.node_id,
            inflow=self._inflow,
            key_of=self._wal_key,
            is_append_time=lambda topic: self.cluster_settings.of(topic).timestamp_type_is_append,
            on_stored=self.reader.adopt,
            on_batches=self.books.ledger.wrote_batches,
            after_answers=self.flusher.flush,
            upkeep=self.upkeep,
            way=self.store_way,
        )
        self.store_watch = StoreWatch(
            self.coordinator,
            self.store_way,
            StoreProof(
                self._environment.store,
                self.coordinator,
                self.writer.next_identity,
                self._wal_key,
            ),
            self.writer,
            self._environment.store,
            self.upkeep,
        )

    def _build_keepers(self) -> None:
        """Make the parts that serve groups, drain, back up the log, and maintain the cluster."""
        settings = self.settings
        self.groups = GroupManager(
            self.coordinator,
            group_settings(settings),
            rng=self._environment.rng,
            absent=lambda: self.absent,
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
        self.cost_files = self._make_cost_files()
        hold = hold_seconds(settings.int("producer.id.expiration.ms"))
        self.transactions = TransactionSteps(self.coordinator, ProducerIds(self.coordinator, hold))
        self.transaction_upkeep = self._make_transaction_upkeep()
        self.token_upkeep = self._make_token_upkeep()
        self.transaction_watch = TransactionWatch(self.coordinator)
        self.links = Links(
            self.coordinator,
            self.writer,
            self.reader,
            link_settings(settings),
            self._environment.source_dial,
            blocking=self.pools.files,
            pool=self.pools.records,
            rng=self._environment.rng,
            upkeep=self.upkeep,
            without_store=lambda: self.store_watch.avoided,
        )
        self.forwards = Forwards(
            self.coordinator, self.links, settings.int("link.forward.bytes.max")
        )
        self.source_ends = SourceEnds(self.coordinator.state, self.links.running)
        self.group_forwards = GroupForwards(self.coordinator, self.links.running)
        self.transaction_forwards = TransactionForwards(self.coordinator, self.links.running)
        self.group_fences = GroupFenceWatch(
            self.coordinator,
            self.group_forwards,
            self.transaction_forwards,
            self.forwards,
            self.links.on_fence,
        )
        self.fences = FenceWatch(self.coordinator, self._drained, self.links.on_fence)

    async def _drained(self, fence: Fence) -> None:
        """Wait until no batch to the topics of a fence lacks an answer; none begins any more."""
        if fence.is_back:
            await self.writer.drain()
        else:
            await self.forwards.drained(fence.limits.keys())

    def _build_view(self) -> None:
        """Make the parts that show clients the cluster."""
        state = self.coordinator.state
        self.zones = ZoneFinder(self._zone_maps, state.gateways)
        self.neighbours = self._make_neighbours()
        self.cluster_view = ClusterView(
            state,
            self.zones,
            lambda: self.absent,
            farewell_seconds=self.settings.int("drain.grace.ms") / 1000,
        )
        self.coordinator.listen(self.cluster_view.look)
        self.steering = ReadSteering(self.cluster_view, self.identity.node_id, self.identity.zone)
        self.traffic = ZoneTraffic(self.zones, self.identity.zone, self.books.ledger.crossed)

    def _build_quotas(self) -> None:
        """Make the parts that hold clients to their quotas."""
        state, asks = self.coordinator.state, asks_for_shares(self.settings)
        self.quota_shares = QuotaShares(self.coordinator, lambda: self._unheard, asks=asks)
        peers = self._environment.peers
        self.share_exchange = (
            ShareExchange(self.quota_shares, peers) if asks and peers is not None else None
        )
        self.quotas = ClientQuotas(
            state.quotas,
            quota_windows(self.settings),
            quota_windows(self.settings, "controller."),
            self.quota_shares,
            Scope(state, own=asks).of_cluster,
        )
        self.throttling = Throttling(
            self.quotas,
            self._environment.step_time,
            lambda: self.is_draining,
            lambda: self.connections,
        )
        self.coordinator.listen(self.throttling.on_change)
        self.connection_rates = ConnectionRates(
            state.quotas,
            self.quotas.windows,
            self.settings.int("max.connection.creation.rate"),
        )

    def _make_neighbours(self) -> Neighbours | None:
        if self._environment.dial is None:
            return None
        # A probe sends no PROXY header, so a listener behind a proxy would refuse it.
        names = (each.listener for each in self.identity.endpoints)
        asked = [each for each in names if each not in self._proxied]
        state, me = self.coordinator.state, self.coordinator.incarnation
        return Neighbours(state.gateways, me, asked, self._environment.dial)

    @property
    def absent(self) -> frozenset[int]:
        """The incarnations that no client is sent to; this gateway's own while it is cut off."""
        return to_avoid(self.coordinator, self._unheard, self.store_watch.avoided)

    @property
    def _unheard(self) -> frozenset[int]:
        """The incarnations that do not answer this gateway."""
        return self.neighbours.absent if self.neighbours is not None else frozenset[int]()

    @property
    def is_cut_off(self) -> bool:
        """Whether the log has not answered for so long that other gateways serve instead."""
        return self.coordinator.is_stale

    def _make_zone_reads(self) -> ZoneReads | None:
        if self.lender is None or self._environment.peers is None:
            return None
        return ZoneReads(
            self.coordinator,
            self.identity.zone,
            self.lender,
            self._environment.peers,
            zone_id_of=self._zone_maps.id_of,
        )

    def _make_housekeeper(self) -> Housekeeper:
        return Housekeeper(
            self.coordinator,
            self._environment.log,
            self._environment.store,
            housekeeper_settings(self.settings),
            cluster=self.cluster_settings,
            check_owner=self.backup.check_owner,
            copied_log_time_ms=lambda: self.backup.copied_log_time_ms,
            see_copied=self.backup.cover,
            is_cut_off=lambda: self.store_way.is_cut_off,
            wall_clock=self._environment.wall_clock,
            upkeep=self.upkeep,
        )

    def _make_cost_files(self) -> CostFiles:
        return CostFiles(
            self.coordinator,
            self.identity.node_id,
            self.books,
            cost_settings(self.settings),
            groups=self._booked_groups,
            is_housekeeper=self.housekeeper.may_expire_here,
            is_elsewhere=self.housekeeper.is_elsewhere,
            check_owner=self.backup.check_owner,
            wall_clock=self._environment.wall_clock,
            upkeep=self.upkeep,
        )

    def _booked_groups(self) -> Iterator[tuple[str, str]]:
        """Return the groups and their clients, once the bytes of open connections are booked."""
        self.traffic.book_all(each.peer for each in self.connections)
        return self.groups.client_ids()

    def _make_transaction_upkeep(self) -> TransactionUpkeep:
        return TransactionUpkeep(
            self.transactions,
            self.cluster_settings,
            self.housekeeper.may_expire_here,
            self.upkeep,
            *transaction_intervals(self.settings),
        )

    def _make_token_upkeep(self) -> TokenUpkeep:
        return TokenUpkeep(
            self.coordinator,
            self.housekeeper.may_expire_here,
            self.upkeep,
            self.settings.int("delegation.token.expiry.check.interval.ms") / 1000,
        )

    def _make_backup(self) -> BackupSchedule:
        settings = self.settings
        return BackupSchedule(
            self.coordinator.state,
            self._environment.log,
            self._environment.store,
            interval_seconds=settings.int("log.backup.interval.ms") / 1000,
            check_seconds=settings.int("housekeeping.interval.ms") / 1000,
            snapshot_entries=settings.int("snapshot.interval.entries"),
            wall_clock=self._environment.wall_clock,
            upkeep=self.upkeep,
        )

    def _make_dispatcher(self) -> Dispatcher:
        environment = self._environment
        handlers = make_handlers(
            self.coordinator,
            self.reader,
            self.read_ahead,
            self.reply_memory,
            self.groups,
            self.group_forwards,
            self.transaction_forwards,
            self.transactions,
            self.settings,
            cluster=self.cluster_settings,
            view=self.cluster_view,
            steering=self.steering,
            source_ends=self.source_ends,
            log_levels=environment.log_levels,
            rng=environment.rng,
            now_ms=environment.now_ms,
            pool=self.pools.records,
            min_file_bytes=environment.min_file_bytes,
            sealing=self.sealing,
            tokens=self.token_parts,
            telemetry=self.telemetry,
            counters=self.counters,
            authority=self.authority,
        )
        checks = RecordChecks(
            self.settings.text("record.validation") == "full",
            self.pools.records,
            environment.now_ms,
            self.settings.int("record.decompressed.max.bytes"),
        )
        refused = RefusedFeatures(trio.current_time)
        mirrored = ProduceForwarding(
            self.coordinator.state.topics,
            self.forwards,
            self.transaction_forwards,
            self.flusher,
            self.cluster_settings.of,
        )
        produce = Produce(
            self.coordinator,
            self.writer,
            self.flusher,
            self.cluster_settings.of,
            environment.now_ms,
            checks,
            self.produce_deadlines,
            self.counters,
            refused,
            mirrored,
            TurnedBack(
                mirrored,
                self.coordinator.state.topics,
                self.writer,
                self.settings.int("link.forward.bytes.max"),
            ),
            self.authority,
            self.slow_requests,
        )
        return Dispatcher(
            PlainProducePath(produce),
            produce,
            handlers,
            self.flusher,
            self.counters,
            refused,
            self.throttling,
            self.large_requests,
            self._make_guards(),
            environment.audit,
            self.slow_requests,
        )

    def _make_guards(self) -> Guards | None:
        if self.authority is None:
            return None
        creates_topics = self.settings.bool("auto.create.topics.enable")
        return Guards(self.authority, self.coordinator, creates_topics=creates_topics)

    def _make_gates(self) -> SaslGates:
        environment, state = self._environment, self.coordinator.state
        secret = secret_of(state.cluster_id, self.settings.secret("peer.token"))
        self.token_logins = TokenLogins(
            self.coordinator,
            self.token_secrets,
            secret,
            environment.pools.logins,
            environment.wall_clock,
        )
        return SaslGates(
            self.settings,
            [each.listener for each in self.identity.endpoints],
            Credentials(
                self._scram_credential,
                environment.random_bytes,
                secret,
                self.provider_keys,
                environment.wall_clock,
                self.token_logins.begin,
            ),
            self._dispatcher,
            self._limits,
            self.counters.count,
            environment.audit,
        )

    def _scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        kept = self.coordinator.state.scram.by_sasl_name(mechanism, user)
        return None if kept is None else self.sealing.opened(kept)

    def _wal_key(self, identity: WalIdentity) -> str:
        return object_key(self.coordinator.state, WalName(identity.incarnation, identity.counter))

    def is_open(self, listener: str) -> bool:
        """Return whether no client of a listener has to show who it is."""
        return not any(listener in each for each in (self.tls, self.gates.listeners, self._proxied))

    async def let_in(self, transport: Transport, listener: str) -> None:
        """Serve one connection that comes by no socket; see serve()."""
        host, is_known = transport.peer[0], self.is_open(listener)
        visitor = self.slots.enter(host, transport.close, is_known=is_known)
        if visitor is None:
            transport.close()
            return
        try:
            await self.serve(transport, listener, visitor)
        finally:
            visitor.leave()

    async def serve(self, transport: Transport, listener: str, visitor: Visitor) -> None:
        """Serve one connection until it closes; the caller lets the visitor leave."""
        source = transport.peer
        if listener in self._proxied:
            named = await source_of(transport)
            if named is None:
                transport.close()
                return
            source = named
            visitor.comes_from(source[0])
        if await self.connection_rates.holds(source[0]):
            transport.close()
            return
        await self._serve(transport, listener, source, visitor)

    async def _serve(
        self,
        transport: Transport,
        listener: str,
        source: tuple[str, int],
        visitor: Visitor,
    ) -> None:
        principal = ANONYMOUS
        if listener in self.tls:
            secured = await self.tls.secure(transport, source, listener)
            if secured is None:
                transport.close()
                return
            transport, principal = secured
        origin = self.zones.origin_of(listener, source[0])
        peer = Peer(*source, listener, origin=origin, principal=principal)
        handler, limits, ready_seconds = self.gates.of(listener, visitor.known)
        connection = Connection(
            transport,
            peer,
            self.pool,
            handler,
            limits,
            self._inflow,
            self.reply_memory,
        )
        connection.allow_seconds(ready_seconds)
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)
            self.telemetry.left(peer)
            self.traffic.book(peer)
            self.zones.racks.forget(peer)

    async def _watch_connections(self) -> None:
        """Close connections whose clients are silent for too long; forever."""
        while True:
            await trio.sleep(PATIENCE_STEP_SECONDS)
            # After a pause of this process, the connections first receive the bytes that arrived.
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            self.throttling.end_if_draining()
            for connection in tuple(self.connections):
                connection.check_patience(now, self.draining.idle_seconds)
            if self.draining.hurries:
                await trio.sleep(QUIET_SECONDS)
                for connection in tuple(self.connections):
                    connection.close_between_requests()

    @property
    def is_draining(self) -> bool:
        """Whether the gateway takes no new work."""
        return self.is_stopping or self.draining.is_marked

    async def drain(self, stop_listening: Callable[[], None] = lambda: None) -> None:
        """Send clients away, answer what is in flight, commit, and leave the cluster.

        Until stop_listening is called, new clients may connect: they must still get metadata that
        names the other gateways.  While the log does not answer, drain() does not return; the
        caller has a deadline (drain.timeout.ms).
        """
        self.is_stopping = True
        self.throttling.end_if_draining()
        await propose_patiently(self.draining.begin)
        stop_listening()
        self.cost_files.note_groups()
        await propose_patiently(self.groups.hand_over)
        await self.forwards.all_drained()
        await self.writer.drain()
        await propose_patiently(self.coordinator.leave)
        with trio.move_on_after(LAST_COPY_SECONDS):
            await self._copy_last()
        with trio.move_on_after(LAST_COST_SECONDS):
            await self.upkeep.attempt("write what this gateway cost", self.cost_files.write)

    async def _copy_last(self) -> None:
        copy = partial(self.backup.look_and_copy, even_if_others_do=True)
        while True:
            if await self.upkeep.attempt("back the metadata log up", copy):
                return
            await trio.sleep(SAY_AGAIN_SECONDS)
