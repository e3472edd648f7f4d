"""The process: everything a gateway is made of is chosen, opened and closed here, and only here.

Start: sockets first (a port in use is known at once), then store and log, then the gateway loads
its state and registers; accepting begins last.  Stop, on SIGINT or SIGTERM: drain, accept no
more, close what is still connected, exit 0.  A second signal ends it at once, with exit code 1.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import structlog
import trio

from tidegate_coordination.events import Endpoint
from tidegate_coordination.http.server import serve_http
from tidegate_coordination.http.tcp import tcp_connector
from tidegate_coordination.load import OpenLog, open_log
from tidegate_coordination.metadata_log import MetadataLog
from tidegate_coordination.movable_log import MovableLog
from tidegate_storage.disk import Disk
from tidegate_storage.load import open_store
from tidegate_storage.real_disk import RealDisk, RealDiskSteps

from .admin import serve_admin
from .admin_pages import AdminPages
from .blocking import InThread
from .broker_settings import BrokerSettings
from .gateway import Gateway, Identity
from .instance import (
    CacheFolder,
    DataFolder,
    hold_cache_folder,
    hold_data_folder,
    new_cluster_id,
    new_instance_key,
)
from .listener_settings import (
    ListenerAddress,
    advertised_endpoints,
    host_port,
    listen_addresses,
    url_host,
)
from .name_lookups import NameLookups
from .peer_listener import open_to_anyone, peer_address, peer_endpoint
from .peer_service import MAX_BODY_BYTES
from .peers import HttpPeers
from .segment_disk import MAX_OPEN_FILES
from .server import ConnectionSlots, Listener, accept_forever, open_listener, open_listeners
from .startup import open_patiently, see_compare_and_set
from .transport import SocketTransport

_log = structlog.get_logger("tidegate.app")

# A gateway without a zone of its own; the name is part of its objects' keys.
NO_ZONE: Final = "default"
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_PEER_CONNECTIONS: Final = 256
# Files, threads and sockets that are not connections.
SPARE_DESCRIPTORS: Final = 128
CACHE_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Running:
    """What a gateway that serves can say of itself.  admin_url: None without an admin listener."""

    version: str
    endpoints: tuple[Endpoint, ...]
    admin_url: str | None
    cluster_id: str
    settings: BrokerSettings
    data: Path | None
    peer: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    gateway: Gateway
    log: MetadataLog
    listeners: tuple[Listener, ...]
    admin: Listener | None
    peer: Listener | None
    data: Path | None


async def run_gateway(
    settings: BrokerSettings, data: Path | None, announce: Callable[[Running], None]
) -> int:
    """Run a gateway until it is told to stop; return the exit code.

    Args:
      data: folder for what this gateway keeps; None for one that keeps nothing.
      announce: called once, when clients may connect.

    Raises:
      Exception: see refusals_to_start.py for those that are a person's to mend, perhaps in groups.
    """
    for name in settings.meaningless:
        _log.info("a setting of Kafka's has no meaning here", setting=name)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with _opened(settings, data, signals) as parts:
            if parts is None:
                return 0
            return await _Process(parts, settings, announce).run(signals)


class _Process:
    """One life of the process."""

    def __init__(
        self, parts: _Parts, settings: BrokerSettings, announce: Callable[[Running], None]
    ) -> None:
        self._parts = parts
        self._gateway = parts.gateway
        self._settings = settings
        self._announce = announce
        self._stop = trio.Event()
        self._exit_code = 0

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Start, serve, stop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_signals, signals, nursery.cancel_scope)
            if self._parts.admin is not None:
                nursery.start_soon(self._serve_admin, self._parts.admin)
            if await self._started(nursery):
                await self._serve_until_stopped()
            nursery.cancel_scope.cancel()
        return self._exit_code

    async def _heed_signals(
        self, signals: AsyncIterator[int], everything: trio.CancelScope
    ) -> None:
        async for number in signals:
            if self._stop.is_set():
                _log.warning("stopping at once", signal=signal.Signals(number).name)
                self._exit_code = 1
                everything.cancel()
                return
            _log.info("stopping", signal=signal.Signals(number).name)
            self._stop.set()

    async def _heed_operators(self) -> None:
        await self._gateway.draining.stop_asked.wait()
        _log.info("stopping, as an operator asked")
        self._stop.set()

    async def _started(self, nursery: trio.Nursery) -> bool:
        """Start the gateway; False when told to stop before it was ready."""
        async with trio.open_nursery() as starting:

            async def give_up() -> None:
                await self._stop.wait()
                starting.cancel_scope.cancel()

            starting.start_soon(give_up)
            await self._gateway.start(nursery)
            position = self._gateway.coordinator.state.position
            if self._parts.log.capabilities.can_append:
                await see_compare_and_set(self._parts.log, position)
            starting.cancel_scope.cancel()
        _calm_collector()
        return self._gateway.is_ready

    async def _serve_until_stopped(self) -> None:
        slots = self._connection_slots()
        async with trio.open_nursery() as nursery:
            for listener in self._parts.listeners:
                nursery.start_soon(self._serve_listener, listener, slots)
            if self._parts.peer is not None:
                nursery.start_soon(self._serve_peers, self._parts.peer)
            self._announce(self._running())
            nursery.start_soon(self._heed_operators)
            await self._stop.wait()
            await self._drain()
            nursery.cancel_scope.cancel()

    def _connection_slots(self) -> ConnectionSlots:
        return ConnectionSlots(
            min(self._settings.int("max.connections"), self._most_connections()),
            self._settings.int("max.connections.per.ip"),
        )

    def _most_connections(self) -> int:
        # What is being sent from a file keeps it open beside those of the cache.
        files = 2 * _max_open_files() if self._gateway.disk_cache is not None else 0
        return max(_raised_descriptor_limit() - SPARE_DESCRIPTORS - files, 1)

    async def _serve_listener(self, listener: Listener, slots: ConnectionSlots) -> None:
        name = listener.address.name

        async def serve(accepted: socket.socket) -> None:
            try:
                transport = SocketTransport(accepted)
            except OSError:
                return  # gone before it was greeted
            await self._gateway.serve(transport, name)

        await accept_forever(listener, serve, slots)

    async def _serve_admin(self, listener: Listener) -> None:
        pages = AdminPages(self._gateway, version("tidegate"))
        slots = ConnectionSlots(MAX_ADMIN_CONNECTIONS, MAX_ADMIN_CONNECTIONS)
        await accept_forever(listener, lambda accepted: serve_admin(accepted, pages), slots)

    def _stop_listening(self) -> None:
        for listener in self._parts.listeners:
            listener.close()

    async def _serve_peers(self, listener: Listener) -> None:
        service = self._gateway.peer_service
        assert service is not None, "it has started"

        async def serve(accepted: socket.socket) -> None:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
            await serve_http(stream, service.handle, max_body_bytes=MAX_BODY_BYTES)

        slots = ConnectionSlots(MAX_PEER_CONNECTIONS, MAX_PEER_CONNECTIONS)
        await accept_forever(listener, serve, slots)

    async def _drain(self) -> None:
        with trio.move_on_after(self._settings.int("drain.timeout.ms") / 1000) as waited:
            await self._gateway.drain(self._stop_listening)
        self._stop_listening()
        if waited.cancelled_caught:
            _log.warning("stopped before everything was drained; see drain.timeout.ms")

    def _running(self) -> Running:
        admin = self._parts.admin
        return Running(
            version=version("tidegate"),
            endpoints=self._gateway.identity.endpoints,
            admin_url=_url(admin.address) if admin is not None else None,
            cluster_id=self._gateway.coordinator.state.cluster_id,
            settings=self._settings,
            data=self._parts.data,
            peer=self._gateway.identity.peer,
        )


@asynccontextmanager
async def _opened(
    settings: BrokerSettings, data: Path | None, signals: AsyncIterator[int]
) -> AsyncGenerator[_Parts | None, None]:
    """Open everything a gateway needs; close it again in the opposite order.

    None if it was told to stop meanwhile.
    """
    async with AsyncExitStack() as stack:
        listeners = open_listeners(listen_addresses(settings))
        for listener in listeners:
            stack.callback(listener.close)
        admin = _open_admin(settings)
        if admin is not None:
            stack.callback(admin.close)
        peer = _open_peer(settings)
        if peer is not None:
            stack.callback(peer.close)
        if danger := open_to_anyone(settings):
            _log.warning(danger)
        folder = hold_data_folder(data) if data is not None else None
        if folder is not None:
            stack.callback(folder.close)
        store = open_store(settings.text("object.store"))
        stack.push_async_callback(store.aclose)
        log = await _opened_log(settings.text("metadata.log"), signals)
        if log is None:
            yield None
            return
        log = MovableLog(log, _next_log_opener(settings))
        stack.push_async_callback(log.aclose)
        peers = HttpPeers(tcp_connector, settings.text("peer.token"))
        stack.push_async_callback(peers.aclose)
        cache = _hold_cache_folder(settings)
        if cache is not None:
            stack.callback(cache.close)
        gateway = Gateway(
            _identity(settings, listeners, peer, folder),
            settings,
            store=store,
            log=log,
            rng=random.Random(os.urandom(32)),
            wall_clock=time.time,
            blocking=InThread(),
            peers=peers,
            dial=NameLookups().dial,
            cache_disk=_cache_disk(cache),
            max_open_files=_max_open_files(),
        )
        yield _Parts(gateway, log, listeners, admin, peer, data)


def _next_log_opener(settings: BrokerSettings) -> OpenLog:
    async def open_next(url: str) -> MetadataLog:
        return await open_log(settings.text("metadata.log.next") or url)

    return open_next


async def _opened_log(url: str, signals: AsyncIterator[int]) -> MetadataLog | None:
    """Wait for the log; None if a signal comes first."""
    opened: list[MetadataLog] = []
    numbers: list[int] = []
    async with trio.open_nursery() as nursery:

        async def heed_signal() -> None:
            numbers.append(await anext(signals))
            nursery.cancel_scope.cancel()

        nursery.start_soon(heed_signal)
        opened.append(await open_patiently(partial(open_log, url)))
        nursery.cancel_scope.cancel()
    if not numbers:
        return opened[0]
    _log.info("stopping", signal=signal.Signals(numbers[0]).name)
    for each in opened:
        await each.aclose()
    return None


def _hold_cache_folder(settings: BrokerSettings) -> CacheFolder | None:
    """A disk that cannot be used costs the cache, not the gateway; another's folder is refused."""
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


def _max_open_files() -> int:
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


def _open_peer(settings: BrokerSettings) -> Listener | None:
    address = peer_address(settings)
    return open_listener(address) if address is not None else None


def _open_admin(settings: BrokerSettings) -> Listener | None:
    text = settings.text("admin.listener")
    if not text:
        return None
    host, port = host_port("admin.listener", text)
    return open_listener(ListenerAddress("ADMIN", host, port))


def _url(address: ListenerAddress) -> str:
    return f"http://{url_host(address.host or socket.getfqdn())}:{address.port}"


def _raised_descriptor_limit() -> int:
    """Raise the limit on open files as far as it goes; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _calm_collector() -> None:
    """What was made at the start lives on, and requests leave few cycles: look for them rarely.

    A profile of ingest in 16 KiB batches had a tenth of all CPU in the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
