"""Opens all parts of a gateway, and closes them again in the opposite order."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import structlog
import trio

from tidegate_coordination.forwarding.hooks import load_hooks
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.log.load import OpenLog, open_log
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_runtime.addresses import ListenerAddress, host_port, machine_names
from tidegate_runtime.doors.slots import HTTP_STRANGERS, ConnectionSlots, Visitor
from tidegate_runtime.listening import (
    Listener,
    accept_forever,
    bind_listener,
    bind_listeners,
    stream_of,
)
from tidegate_runtime.log_lines import PROCESS_LEVELS
from tidegate_runtime.name_lookups import NameLookups
from tidegate_runtime.secret import Secret
from tidegate_storage.stores.files.real_disk import RealDisk, RealDiskSteps
from tidegate_storage.stores.files.steps import Disk
from tidegate_storage.stores.load import open_store

from .builder import GatewayBuilder
from .environment import Environment, Identity
from .fetch.segment_disk import MAX_OPEN_FILES
from .gateway import Gateway
from .instance import (
    CacheFolder,
    DataFolder,
    hold_cache_folder,
    hold_data_folder,
    new_cluster_id,
    new_instance_key,
)
from .peers.peer_listener import open_to_anyone, peer_address, peer_endpoint, refuse_own_address
from .peers.peers import HttpPeers
from .quotas.sharing.scope import refuse_scope_without_peers
from .security.audit_log import AuditLog, open_audit_log
from .security.audit_thread import AuditThread
from .security.sasl.gates import check_sasl
from .security.sealing import sealing_of
from .settings.broker_settings import BrokerSettings
from .settings.inner_listeners import refuse_token_in_clear
from .settings.known_hosts import known_hosts
from .settings.listener_settings import (
    advertised_endpoints,
    listen_addresses,
    refuse_open_listeners,
)
from .startup import open_patiently
from .tls.streams import dialled_by_tls, has_certificate, secured
from .tls.tls_listeners import TlsListeners, open_tls_listeners
from .work.pools import thread_pools

_log = structlog.get_logger("tidegate.app")

# The zone of a gateway without broker.rack.  The keys of its objects contain this name.
NO_ZONE: Final = "default"
MAX_PEER_CONNECTIONS: Final = 256
CACHE_THREADS: Final = 4
LAST_AUDIT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a gateway.  admin, peer, data: None if the gateway does not have them.

    The listeners are bound, but do not listen yet.
    """

    builder: GatewayBuilder
    log: MetadataLog
    listeners: tuple[Listener, ...]
    admin: Listener | None
    peer: Listener | None
    data: Path | None
    tls: TlsListeners = field(default_factory=TlsListeners)


@asynccontextmanager
async def opened(
    settings: BrokerSettings, data: Path | None, signals: AsyncIterator[int]
) -> AsyncGenerator[Parts | None, None]:
    """Open all parts of a gateway; close them again in the opposite order.

    Yield None if a signal comes first.
    """
    async with AsyncExitStack() as stack:
        addresses = listen_addresses(settings)
        _check(settings, addresses)
        listeners = bind_listeners(addresses)
        for listener in listeners:
            stack.callback(listener.close)
        admin = _closed_by(stack, _bind_admin(settings))
        peer = _closed_by(stack, _bind_peer(settings))
        refuse_own_address(settings)
        if danger := open_to_anyone(settings):
            _log.warning(danger)
        pools = thread_pools()
        names = [each.address.name for each in listeners]
        tls = open_tls_listeners(settings, names, time.time, pools.files)
        folder = hold_data_folder(data) if data is not None else None
        if folder is not None:
            stack.callback(folder.close)
        audit = await _opened_audit_log(settings, stack)
        store = open_store(settings.secret("object.store").reveal())
        stack.push_async_callback(store.aclose)
        log = await _opened_log(settings.secret("metadata.log"), signals)
        if log is None:
            yield None
            return
        log = MovableLog(log, _next_log_opener(settings))
        stack.push_async_callback(log.aclose)
        dial = NameLookups().dial
        peer_tls = tls.inner(PEER_LISTENER)
        peer_dial = dialled_by_tls(dial, peer_tls) if peer_tls is not None else dial
        peers = HttpPeers(peer_dial, settings.secret("peer.token"))
        stack.push_async_callback(peers.aclose)
        cache = _hold_cache_folder(settings)
        if cache is not None:
            stack.callback(cache.close)
        environment = Environment(
            store=store,
            log=log,
            rng=random.Random(os.urandom(32)),
            wall_clock=time.time,
            pools=pools,
            peers=peers,
            dial=dial,
            cache_disk=_cache_disk(cache),
            max_open_files=max_open_files(),
            leadership_hooks=load_hooks(),
            tls=tls,
            audit=audit,
            log_levels=PROCESS_LEVELS,
            used_seconds=time.thread_time,
        )
        identity = _identity(settings, listeners, peer, folder)
        builder = GatewayBuilder(identity, settings, environment)
        yield Parts(builder, log, listeners, admin, peer, data, tls)


def _check(settings: BrokerSettings, addresses: Sequence[ListenerAddress]) -> None:
    refuse_open_listeners(settings, addresses)
    refuse_token_in_clear(settings)
    refuse_scope_without_peers(settings)
    check_sasl(settings, [each.name for each in addresses])
    sealing_of(settings, os.urandom)


async def serve_peers(gateway: Gateway, listener: Listener) -> None:
    """Answer other gateways, forever."""
    tls, service = gateway.tls.inner(PEER_LISTENER), gateway.peer_service
    hosts = known_hosts(gateway.settings, *machine_names())

    async def serve(accepted: socket.socket, visitor: Visitor) -> None:
        stream = stream_of(accepted)
        if tls is None:
            await service.serve(stream, visitor, hosts)
        elif (found := await secured(stream, tls)) is not None:
            is_known = has_certificate(found)
            await service.serve(found, visitor, hosts, has_certificate=is_known)

    slots = ConnectionSlots(MAX_PEER_CONNECTIONS, beside=HTTP_STRANGERS)
    gateway.doors[PEER_LISTENER] = slots
    await accept_forever(listener, serve, slots)


async def _opened_audit_log(settings: BrokerSettings, stack: AsyncExitStack) -> AuditLog | None:
    """Open the audit log, which outlives all parts that write to it; return None without one."""
    path = settings.text("audit.log.file")
    if not path:
        return None
    now_ms, thread = partial(_now_ms, time.time), AuditThread()
    audit = await thread.run(partial(open_audit_log, path, thread, now_ms))
    stack.callback(audit.close)
    audit.note("started", node_id=settings.int("node.id"), version=version("tidegate"))
    await audit.flush()

    async def end() -> None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_AUDIT_SECONDS):
            await audit.end()

    stack.push_async_callback(end)
    return audit


def _now_ms(wall_clock: Callable[[], float]) -> int:
    return int(wall_clock() * 1000)


def _next_log_opener(settings: BrokerSettings) -> OpenLog:
    async def open_next(url: str) -> MetadataLog:
        return await open_log(settings.secret("metadata.log.next").reveal() or url)

    return open_next


async def _opened_log(url: Secret, signals: AsyncIterator[int]) -> MetadataLog | None:
    """Wait for the log to open; return None if a signal comes first."""
    opened: list[MetadataLog] = []
    numbers: list[int] = []
    async with trio.open_nursery() as nursery:

        async def heed_signal() -> None:
            numbers.append(await anext(signals))
            nursery.cancel_scope.cancel()

        nursery.start_soon(heed_signal)
        opened.append(await open_patiently(partial(open_log, url.reveal())))
        nursery.cancel_scope.cancel()
    if not numbers:
        return opened[0]
    _log.info("stopping", signal=signal.Signals(numbers[0]).name)
    for each in opened:
        await each.aclose()
    return None


def _hold_cache_folder(settings: BrokerSettings) -> CacheFolder | None:
    """Lock the cache's folder; return None without a cache.

    If the disk cannot be used, the gateway runs without the cache.

    Raises:
      DataFolderUnusable: another gateway uses the folder.
    """
    folder = settings.text("disk.cache.dir")
    if not folder or not settings.int("disk.cache.max.bytes"):
        return None
    try:
        return hold_cache_folder(Path(folder))
    except OSError as error:
        _log.warning(
            "nothing is cached on disk; see disk.cache.dir", folder=folder, error=str(error)
        )
        return None


def _cache_disk(folder: CacheFolder | None) -> Disk | None:
    if folder is None:
        return None
    return RealDisk(RealDiskSteps(str(folder.path)), max_threads=CACHE_THREADS)


def max_open_files() -> int:
    """Return how many files the disk cache may keep open: an eighth of the hard limit at most."""
    return max(min(MAX_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8), 1)


def _identity(
    settings: BrokerSettings,
    listeners: tuple[Listener, ...],
    peer: Listener | None,
    folder: DataFolder | None,
) -> Identity:
    bound = [each.address for each in listeners]
    kept_key = folder.instance_key if folder is not None else new_instance_key()
    return Identity(
        node_id=settings.int("node.id"),
        instance_key=settings.text("instance.key") or kept_key,
        zone=settings.text("broker.rack") or NO_ZONE,
        endpoints=advertised_endpoints(settings, bound, socket.getfqdn()),
        software_version=version("tidegate"),
        cluster_id=settings.text("cluster.id") or new_cluster_id(),
        peer=peer_endpoint(settings, peer.address if peer else None, socket.getfqdn()),
    )


def _closed_by(stack: AsyncExitStack, listener: Listener | None) -> Listener | None:
    if listener is not None:
        stack.callback(listener.close)
    return listener


def _bind_peer(settings: BrokerSettings) -> Listener | None:
    address = peer_address(settings)
    return bind_listener(address) if address is not None else None


def _bind_admin(settings: BrokerSettings) -> Listener | None:
    text = settings.text("admin.listener")
    if not text:
        return None
    host, port = host_port("admin.listener", text)
    return bind_listener(ListenerAddress("ADMIN", host, port))
