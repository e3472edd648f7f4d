"""Starts a gateway: loads the state, registers an incarnation, and starts the tasks.

A GatewayBuilder is a gateway that serves nothing yet.  Its start() returns the complete Gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.decider import Decider
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.coordinator.route import DecidesHere, Route
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.contention import Contention
from tidegate_coordination.forwarding.forwarder import Forwarder
from tidegate_coordination.forwarding.leaders import ONLY_FORWARDS_LISTENER
from tidegate_coordination.log_move.watch import LogMoveWatch
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.stores.counting_store import CountingStore, RequestSums

from .cost.ledger import CostLedger
from .environment import Environment, Identity
from .gateway import Gateway
from .peers.peer_listener import Forwarding, forwarding
from .security.sealing import refuse_missing_keys, sealing_of
from .settings.broker_settings import BrokerSettings
from .settings.listener_settings import with_advertised
from .startup import register, tell_settings
from .upkeep.cost_files import Books
from .upkeep.patience import propose_patiently
from .upkeep.prefixes import own_prefix, see_prefix
from .zones.zone_settings import check_listeners, zone_maps

LOAD_SECONDS = 120.0
# Half of the shortest session timeout of a group member: see the coordinator's docstring.
AWAY_SECONDS = 3.0


async def _do_nothing(_coordinator: Coordinator) -> None:
    await trio.lowlevel.checkpoint()


class GatewayBuilder:
    """A gateway before its start.

    gateway: None before start() has made it.

    Raises:
      ValueError: the zone settings and the listeners do not agree.
      SettingsError: a key of metadata.secret.* cannot be one.
    """

    def __init__(
        self, identity: Identity, settings: BrokerSettings, environment: Environment
    ) -> None:
        self.identity = identity
        self.gateway: Gateway | None = None
        self._settings = with_advertised(settings, identity.endpoints)
        ledger = CostLedger(environment.now_ms, self._topic_name, self._log_requests)
        self._books = Books(ledger, CountingStore(environment.store, ledger), environment.store)
        self._environment = replace(environment, store=self._books.store)
        self._zone_maps = zone_maps(settings)
        listeners = [each.listener for each in identity.endpoints]
        check_listeners(self._zone_maps, settings, listeners)
        self._sealing = sealing_of(settings, environment.random_bytes)
        self._disk_cache = self._make_disk_cache()
        self._joined: Coordinator | None = None
        self._state: ClusterState | None = None

    async def start(
        self,
        nursery: trio.Nursery,
        before_joining: Callable[[Coordinator], Awaitable[None]] = _do_nothing,
    ) -> Gateway:
        """Load, register and start all tasks; return the gateway, which serves connections.

        Args:
          before_joining: called with a coordinator that has read the log.  At this time the gateway
            has written nothing to the log, so no other gateway knows it.

        Raises:
          NodeIdInUse, StoreMisconfigured, LogMisconfigured, ReleaseTooOld: with what to do.
          SettingsError: SCRAM credentials are sealed with a key that this gateway lacks.
        """
        state = self._state = await self._load()
        coordinator = self._make_coordinator(state)
        nursery.start_soon(coordinator.run)
        log = self._environment.log
        if isinstance(log, MovableLog):
            nursery.start_soon(LogMoveWatch(coordinator, log).run)
        await before_joining(coordinator)
        await self._join(coordinator)
        me, store = self.identity, self._environment.store
        cluster = ClusterSettings(coordinator.state, Own(me.node_id, self._settings.static))
        await tell_settings(coordinator, cluster)
        await own_prefix(store, coordinator, me.node_id, version=me.software_version)
        self.gateway = Gateway(
            me,
            self._settings,
            self._environment,
            coordinator,
            cluster,
            zone_maps=self._zone_maps,
            disk_cache=self._disk_cache,
            sealing=self._sealing,
            books=self._books,
        )
        self.gateway.start_tasks(nursery)
        return self.gateway

    async def give_up(self) -> None:
        """End the incarnation of a start that failed, or of a gateway that serves no client.

        Otherwise other gateways would send clients here until the lease expires.  The caller has a
        deadline.
        """
        if self._joined is not None and not self._joined.has_left:
            await propose_patiently(self._joined.leave)

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._state.topics.by_id.get(topic_id) if self._state is not None else None
        return topic.name if topic is not None else None

    def _log_requests(self) -> RequestSums | None:
        log = self._environment.log
        return log.requests if isinstance(log, MovableLog) else None

    async def _load(self) -> ClusterState:
        state = await load_state(
            self._environment.log,
            deadline_seconds=LOAD_SECONDS,
            highest_version=self.identity.highest_version,
        )
        state = await see_prefix(
            self._environment.store,
            self._environment.log,
            state,
            self.identity.node_id,
            deadline_seconds=LOAD_SECONDS,
        )
        check_cluster(state, self._settings.text("cluster.id"))
        refuse_missing_keys(self._sealing, state.scram)
        return state

    async def _join(self, coordinator: Coordinator) -> None:
        await register(coordinator, self._registration())
        self._joined = coordinator

    def _make_disk_cache(self) -> DiskCache | None:
        disk = self._environment.cache_disk
        if disk is None:
            return None
        return DiskCache(disk, self._settings.int("disk.cache.max.bytes"))

    def _make_coordinator(self, state: ClusterState) -> Coordinator:
        environment = self._environment
        return Coordinator(
            environment.log,
            state,
            rng=environment.rng,
            wall_clock=environment.wall_clock,
            away_seconds=AWAY_SECONDS,
            route=self._route,
        )

    def _route(self, decider: Decider) -> Route:
        environment = self._environment
        when = forwarding(self._settings, environment.log)
        if environment.peers is None or when is Forwarding.NEVER:
            return DecidesHere(decider)
        races = Contention(environment.after_lost_races)
        contention = None if when is Forwarding.ALWAYS else races
        forwarder = Forwarder(decider, environment.peers, contention=contention)
        for hook in environment.leadership_hooks:
            forwarder.leadership.listen(hook)
        return forwarder

    def _registration(self) -> Register:
        me = self.identity
        return Register(
            me.node_id,
            me.instance_key,
            me.zone,
            self._endpoints(),
            me.software_version,
            me.cluster_id,
            self._settings.int("lease.ms"),
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        peer = self.identity.peer
        if peer is None:
            return self.identity.endpoints
        if not self._environment.log.capabilities.can_append:
            peer = Endpoint(ONLY_FORWARDS_LISTENER, peer.host, peer.port)
        return (*self.identity.endpoints, peer)
