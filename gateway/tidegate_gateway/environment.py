"""The identity of a gateway, and its interfaces to the outside world."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.dialling import Dial as SourceDial
from tidegate_coordination.client.wire.dialling import dial_of
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.forwarding.contention import ENOUGH
from tidegate_coordination.forwarding.hooks import Hook
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_runtime.log_levels import LogLevels
from tidegate_storage.stores.files.steps import Disk
from tidegate_storage.stores.object_store import ObjectStore

from .fetch.fetch_plan import MIN_FILE_BYTES
from .fetch.segment_disk import MAX_OPEN_FILES
from .peers.peers import Dial, GatewayPeers
from .security.audit_log import AuditLog
from .security.oauth.key_place import read_keys
from .security.oauth.key_source import ReadKeys
from .tls.tls_listeners import TlsListeners
from .work.pools import Pools


@dataclass(frozen=True, slots=True)
class Identity:
    """The facts by which the cluster knows a gateway.

    instance_key: the same for every incarnation of one gateway.  cluster_id: used if the log is
    empty.  peer: the listener for other gateways; None if it has none.  highest_version: the
    highest metadata.version that the gateway reads; only tests in the simulated world set it below
    the release's version.
    """

    node_id: int
    instance_key: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    cluster_id: str
    peer: Endpoint | None = None
    highest_version: int = NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The store, the log, the clocks and the randomness of a gateway.

    wall_clock: seconds since 1970.  peers: asks other gateways; None for a gateway that asks none.
    dial: probes whether other gateways accept clients; None for no probes.  cache_disk: keeps parts
    of segments; None for no disk cache.  max_open_files: how many of these files may be open.
    min_file_bytes: the smallest part that the kernel sends from its file.  step_time: seconds of a
    monotonic clock that runs while the event loop is busy.  used_seconds: CPU time of the calling
    thread; None if the event loop is not watched, as in the simulated world.  after_lost_races:
    after this many lost appends in a row, another gateway appends for this one.  source_dial: see
    links.py.  random_bytes: unpredictable; for nonces.  tls: the listeners with TLS.  read_keys:
    reads the keys of identity providers.  audit: None without an audit log.  log_levels: of this
    gateway's log lines; Kafka clients may change them.
    """

    store: ObjectStore
    log: MetadataLog
    rng: Random
    wall_clock: Callable[[], float]
    pools: Pools
    peers: GatewayPeers | None = None
    dial: Dial | None = None
    cache_disk: Disk | None = None
    max_open_files: int = MAX_OPEN_FILES
    min_file_bytes: int = MIN_FILE_BYTES
    step_time: Callable[[], float] = perf_counter
    used_seconds: Callable[[], float] | None = None
    after_lost_races: int = ENOUGH
    leadership_hooks: Sequence[Hook] = ()
    source_dial: Callable[[ClientProperties], SourceDial] = dial_of
    audit: AuditLog | None = None
    random_bytes: Callable[[int], bytes] = os.urandom
    tls: TlsListeners = field(default_factory=TlsListeners)
    read_keys: ReadKeys = read_keys
    log_levels: LogLevels = field(default_factory=LogLevels)

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970."""
        return int(self.wall_clock() * 1000)
