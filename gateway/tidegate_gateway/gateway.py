"""A running gateway: puts all parts together, for any environment.

The store, the log, the clocks and the randomness are passed in (environment.py), so the same class
runs on sockets and disks (app.py) and in the simulated world.  builder.py starts it.  The modules
in parts/ make groups of parts.  A list of features (feature.py) says what the gateway does with
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_storage.disk.cache import DiskCache

from .client_door import CLIENTS, client_door, connections_feature
from .counting.loop_watch import LoopWatch
from .cut_off import to_avoid
from .dispatch import Dispatcher
from .draining import draining_of
from .environment import Environment, Identity
from .feature import AnyRow, Feature, Ground
from .gateway_counters import gateway_counters
from .guarded import authority_on, guards_of
from .network.connection import Connection
from .network.large_requests import LargeRequests
from .parts.groups import group_manager
from .parts.keepers import keeper_parts
from .parts.links import link_parts
from .parts.logins import login_parts
from .parts.peers import peers_feature
from .parts.process import audit_feature, loop_feature
from .parts.quotas import quota_parts
from .parts.reads import disk_cache_feature, read_parts
from .parts.view import view_parts
from .parts.writes import write_parts
from .peers.peer_service import PeerService
from .requests.acls.feature import acls_feature
from .requests.cluster.feature import cluster_feature, with_api_versions
from .requests.configs.feature import configs_feature
from .requests.groups.feature import groups_feature
from .requests.quotas.feature import quotas_feature
from .requests.records.feature import records_feature
from .requests.scram.feature import scram_feature
from .requests.telemetry.feature import telemetry_feature, telemetry_of
from .requests.tokens.feature import tokens_feature
from .requests.topics.feature import topics_feature
from .requests.transactions.feature import transaction_steps, transactions_feature
from .security.sealing import Sealing
from .security.tokens.secrets import TokenSecrets
from .settings.broker_settings import BrokerSettings
from .settings.listener_settings import tls_listeners
from .upkeep.cost_files import Books
from .upkeep.patience import propose_patiently
from .upkeep.upkeep import Upkeep
from .zones.zone_settings import ZoneMaps


class Gateway:
    """A gateway that has joined the cluster.  Its parts are public, since admin pages read them.

    Args:
      settings: include the listeners that the gateway advertises.
      coordinator: has read the log and registered this gateway; its task is running.
      cluster: the settings of all gateways.
      disk_cache: None without a disk cache.  books: count the requests to the environment's store.
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
        self.sealing = sealing
        self.audit = environment.audit
        self.pools = environment.pools
        self.tls = environment.tls
        assert all(each in self.tls for each in tls_listeners(settings)), "else it is plaintext"
        self.counters = gateway_counters(coordinator.state, settings)
        self.loop_watch = LoopWatch(environment.used_seconds)
        self.connections: set[Connection] = set()
        self.upkeep = Upkeep()
        self.large_requests = LargeRequests()
        self.is_stopping = False
        self._ground = Ground(
            identity, settings, environment, coordinator, cluster, self.upkeep, self.counters
        )
        self._build_paths(zone_maps, books)
        self._build_limits()
        self.peer_service = PeerService(
            coordinator,
            environment.log,
            settings.secret("peer.token"),
            self.reads.lender,
            self.limits.quota_shares,
        )
        dispatcher = Dispatcher(
            self.writes.flusher,
            self.counters,
            self.limits.throttling,
            self.large_requests,
            guards_of(self._ground, self.authority),
            self.audit,
        )
        self.logins = login_parts(
            self._ground, sealing, self.token_secrets, dispatcher, self.counters.count
        )
        self.features = self._make_features()
        dispatcher.serve(self.rows)
        self.door = client_door(
            self._ground,
            self.connections,
            self.reads,
            self.writes,
            self.view,
            self.logins,
            self.limits.connection_rates,
            self.telemetry,
        )
        self.doors = {CLIENTS: self.door.slots}

    def _build_paths(self, zone_maps: ZoneMaps, books: Books) -> None:
        """Make the parts that read and write records, and the parts for upkeep."""
        ground = self._ground
        self.reads = read_parts(ground, zone_maps, self.disk_cache)
        self.writes = write_parts(ground, self.reads, books.ledger, lambda: self.is_cut_off)
        self.groups = group_manager(ground, lambda: self.absent)
        self.draining = draining_of(ground, self.groups, self.connections)
        self.keepers = keeper_parts(ground, self.reads, books, self._booked_groups)
        self.transactions = transaction_steps(ground)
        self.forwarding = link_parts(ground, self.reads, self.writes)
        self.links = self.forwarding.links
        self.view = view_parts(
            ground,
            zone_maps,
            books.ledger,
            lambda: self.absent,
            lambda: (each.peer for each in self.connections),
        )

    def _build_limits(self) -> None:
        """Make the parts for the rights and quotas of clients."""
        self.authority = authority_on(self._ground)
        self.limits = quota_parts(
            self._ground, lambda: self.view.unheard, lambda: self.is_draining, self.connections
        )
        self.token_secrets = TokenSecrets(self.settings.secret("delegation.token.secret.key"))
        self.telemetry = telemetry_of(self._ground)

    def _make_features(self) -> list[Feature]:
        """Make the gateway's features; see feature.py.  Their tasks start in this order."""
        ground, view, links = self._ground, self.view.cluster_view, self.forwarding
        may_expire = self.keepers.housekeeper.may_expire_here
        return [
            records_feature(
                ground, self.reads, self.writes, links, self.view, self.limits, self.authority
            ),
            connections_feature(self.connections, self.limits.throttling, self.draining),
            *self.writes.features,
            self.reads.feature,
            loop_feature(ground, self.loop_watch),
            self.logins.feature,
            disk_cache_feature(self.disk_cache),
            cluster_feature(ground, view),
            topics_feature(ground, view),
            configs_feature(ground),
            groups_feature(ground, self.groups, links.group_forwards, view),
            self.draining.feature,
            self.keepers.housekeeping,
            transactions_feature(ground, self.groups, links, self.transactions, may_expire),
            acls_feature(ground, has_authorizer=self.authority is not None),
            tokens_feature(ground, self.token_secrets, may_expire),
            telemetry_feature(self.telemetry),
            links.feature,
            peers_feature(self.coordinator, self.peer_service, self.reads.zone_reads),
            self.view.feature,
            quotas_feature(ground, self.limits),
            self.keepers.backups,
            scram_feature(ground, self.sealing),
            audit_feature(self.audit),
        ]

    @property
    def rows(self) -> list[AnyRow]:
        """Return the rows of all APIs."""
        rows = (row for feature in self.features for row in feature.rows)
        return with_api_versions(rows, self.coordinator.state)

    def start_tasks(self, nursery: trio.Nursery) -> None:
        """Start all tasks but the coordinator's, which is already running."""
        nursery.start_soon(self.writes.writer.run)
        for feature in self.features:
            for task in feature.tasks:
                nursery.start_soon(self.upkeep.keep_running, task.what, task.run)

    @property
    def absent(self) -> frozenset[int]:
        """The incarnations to which no client is sent; also this gateway's while it is cut off."""
        return to_avoid(self.coordinator, self.view.unheard, self.writes.store_watch.avoided)

    @property
    def is_cut_off(self) -> bool:
        """Whether the log has not answered for so long that other gateways serve instead."""
        return self.coordinator.is_stale

    @property
    def is_draining(self) -> bool:
        """Whether the gateway takes no new work."""
        return self.is_stopping or self.draining.is_marked

    def _booked_groups(self) -> Iterator[tuple[str, str]]:
        """Book the bytes of open connections, then return the groups and their clients."""
        self.view.book()
        return self.groups.client_ids()

    async def drain(self, stop_listening: Callable[[], None] = lambda: None) -> None:
        """Send clients to other gateways, answer requests in flight, commit, and leave the cluster.

        New clients may connect until stop_listening is called: they get metadata that names the
        other gateways.  While the log does not answer, drain() does not return, so the caller needs
        a deadline (drain.timeout.ms).
        """
        self.is_stopping = True
        self.limits.throttling.end_if_draining()
        await propose_patiently(self.draining.begin)
        stop_listening()
        self.keepers.cost_files.note_groups()
        await propose_patiently(self.groups.hand_over)
        await self.forwarding.forwards.all_drained()
        await self.writes.writer.drain()
        await self.writes.mover.finish()
        await propose_patiently(self.coordinator.leave)
        await self.keepers.leave()
