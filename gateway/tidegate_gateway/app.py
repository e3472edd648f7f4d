"""The process: starts a gateway, serves its listeners, and stops it as signals and operators ask.

Start: the process binds its ports first, so that a port in use shows at once.  It then opens the
store and the log.  The gateway loads its state and registers.  The listeners for clients open last.
The peer listener opens before the gateway registers: from its registration on other gateways
connect to it, and they wait a second or two at most.

Stop: on SIGINT or SIGTERM the gateway drains and accepts no more; the process closes the remaining
connections and exits with code 0.  A second signal ends it at once, with exit code 1.  If an
operator has asked for the stop in the log, the first signal comes from the service manager and
changes nothing.

If a listener has TLS, SIGHUP makes the process look for new certificates.  Otherwise SIGHUP ends
the process.
"""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_runtime.addresses import ListenerAddress, machine_names, url_host
from tidegate_runtime.collector import calm_collector
from tidegate_runtime.doors.slots import Visitor
from tidegate_runtime.listening import Listener, accept_forever
from tidegate_runtime.service_manager import ServiceManager, of_this_process

from .admin.admin_pages import AdminPages
from .admin.admin_server import admin_slots, serve_admin
from .client_door import max_connections
from .gateway import Gateway
from .network.transport import SocketTransport
from .opening import Parts, max_open_files, opened, serve_peers
from .settings.broker_settings import BrokerSettings
from .settings.inner_listeners import ADMIN_LISTENER, has_tls
from .settings.known_hosts import known_hosts
from .settings.listener_settings import controller_listeners
from .startup import see_compare_and_set
from .tls.tls_listeners import TlsListeners
from .upkeep.upkeep import Upkeep

_log = structlog.get_logger("tidegate.app")

# Descriptors for files, threads and sockets that are not connections.
SPARE_DESCRIPTORS: Final = 128
# How long a gateway whose start failed tries to leave the cluster.  After that its lease expires.
GIVE_UP_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Running:
    """Facts about a gateway that serves.  admin_url: None without an admin listener."""

    version: str
    endpoints: tuple[Endpoint, ...]
    admin_url: str | None
    cluster_id: str
    settings: BrokerSettings
    data: Path | None
    peer: Endpoint | None = None


async def run_gateway(
    settings: BrokerSettings, data: Path | None, announce: Callable[[Running], None]
) -> int:
    """Run a gateway until a signal or an operator stops it; return the exit code.

    Args:
      data: the gateway's data folder; None for a gateway that keeps nothing.
      announce: called once, when clients may connect.

    Raises:
      Exception: refusals_to_start.py names the errors that an operator must fix.  They may come in
        groups.
    """
    for name in settings.meaningless:
        _log.info("a setting of Kafka's has no meaning here", setting=name)
    for name in settings.removed:
        _log.warning("a setting was removed and has no effect", setting=name)
    for name in controller_listeners(settings):
        _log.info("a listener of Kafka's controllers is not served", listener=name)
    manager, looks = of_this_process(), CertificateLooks()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.feed)
            if has_tls(settings):
                await nursery.start(looks.run)
            async with opened(settings, data, signals) as parts:
                code = 0
                if parts is not None:
                    looks.tls = parts.tls
                    code = await Process(parts, settings, announce, manager).run(signals)
            nursery.cancel_scope.cancel()
    return code


class CertificateLooks:
    """Looks for new certificates at SIGHUP.

    The handler is in place for the whole life of the process.  Otherwise a SIGHUP would end the
    process, and systemd takes that for a clean end.

    tls: None until the listeners with TLS exist.
    """

    def __init__(self) -> None:
        self.tls: TlsListeners | None = None
        self._upkeep = Upkeep()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look for new certificates at each SIGHUP, forever."""
        with trio.open_signal_receiver(signal.SIGHUP) as hangups:
            task_status.started()
            async for _ in hangups:
                if self.tls is not None:
                    await self._upkeep.attempt("look for new certificates", self.tls.look)


class Process:
    """One run of the process."""

    def __init__(
        self,
        parts: Parts,
        settings: BrokerSettings,
        announce: Callable[[Running], None],
        manager: ServiceManager,
    ) -> None:
        self._parts = parts
        self._builder = parts.builder
        self._settings = settings
        self._announce = announce
        self._manager = manager
        self._stop = trio.Event()
        self._exit_code = 0
        self._log_is_seen = False
        self._admin_slots = admin_slots()

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Start, serve, stop."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_signals, signals, nursery.cancel_scope)
            if self._parts.admin is not None:
                self._parts.admin.listen()
                nursery.start_soon(self._serve_admin, self._parts.admin)
            gateway = await self._listening(nursery)
            if gateway is not None:
                await self._serve_until_stopped(gateway)
            nursery.cancel_scope.cancel()
        _log.info("stopped", exit_code=self._exit_code)
        return self._exit_code

    async def _heed_signals(
        self, signals: AsyncIterator[int], everything: trio.CancelScope
    ) -> None:
        is_second = False
        async for number in signals:
            if is_second:
                _log.warning("stopping at once", signal=signal.Signals(number).name)
                self._exit_code = 1
                everything.cancel()
                return
            is_second = True
            _log.info("stopping", signal=signal.Signals(number).name)
            self._begin_to_stop()

    async def _heed_operators(self, gateway: Gateway) -> None:
        await gateway.draining.stop_asked.wait()
        _log.info("stopping, as an operator asked")
        self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        self._manager.stopping("draining")
        self._stop.set()

    async def _listening(self, nursery: trio.Nursery) -> Gateway | None:
        """Start the gateway and open its listeners; return None if a signal came first."""
        is_listening = False
        try:
            gateway = await self._started(nursery)
            if gateway is not None:
                for listener in self._parts.listeners:
                    listener.listen()
                is_listening = True
            return gateway
        finally:
            if not is_listening:
                # Otherwise gateways would send clients here until the lease expires.
                with trio.move_on_after(GIVE_UP_SECONDS):
                    await self._builder.give_up()

    async def _started(self, nursery: trio.Nursery) -> Gateway | None:
        """Start the gateway; return None if a signal came first."""
        gateway: Gateway | None = None
        async with trio.open_nursery() as starting:

            async def give_up() -> None:
                await self._stop.wait()
                starting.cancel_scope.cancel()

            starting.start_soon(give_up)
            gateway = await self._builder.start(nursery, self._before_joining)
            if not self._log_is_seen:
                # The log had no entry before this gateway's own first one.  If that entry is
                # already trimmed, another gateway trimmed it, and has checked the log at its start.
                await self._see_log(gateway.coordinator)
            starting.cancel_scope.cancel()
        calm_collector()
        return None if self._stop.is_set() else gateway

    async def _before_joining(self, coordinator: Coordinator) -> None:
        # Check before the first write: a bad log would let it overwrite another gateway's entry.
        await self._see_log(coordinator)
        if self._parts.peer is not None:
            self._parts.peer.listen()

    async def _see_log(self, coordinator: Coordinator) -> None:
        log, position = self._parts.log, coordinator.state.position
        if not log.capabilities.can_append:
            self._log_is_seen = True
        elif position:
            self._log_is_seen = await see_compare_and_set(log, position)

    async def _serve_until_stopped(self, gateway: Gateway) -> None:
        most = self._most_connections(gateway)
        gateway.door.slots.maximum = max_connections(self._settings, most)
        gateway.doors[ADMIN_LISTENER] = self._admin_slots
        async with trio.open_nursery() as nursery:
            for listener in self._parts.listeners:
                nursery.start_soon(self._serve_listener, gateway, listener)
            if self._parts.peer is not None:
                nursery.start_soon(serve_peers, gateway, self._parts.peer)
            self._announce(self._running(gateway))
            if not self._stop.is_set():
                self._manager.ready("serving clients")
            _log.info("ready", node_id=gateway.identity.node_id)
            nursery.start_soon(self._heed_operators, gateway)
            await self._stop.wait()
            await self._drain(gateway)
            nursery.cancel_scope.cancel()

    def _most_connections(self, gateway: Gateway) -> int:
        # The open files of the cache, and as many files that the cache has closed and that are
        # still being sent.
        files = 2 * max_open_files() if gateway.disk_cache is not None else 0
        return max(_raised_descriptor_limit() - SPARE_DESCRIPTORS - files, 1)

    async def _serve_listener(self, gateway: Gateway, listener: Listener) -> None:
        name = listener.address.name

        async def serve(accepted: socket.socket, visitor: Visitor) -> None:
            try:
                transport = SocketTransport(accepted)
            except OSError:
                return  # the client has already disconnected
            await gateway.door.serve(transport, name, visitor)

        pause, is_open = gateway.limits.connection_rates.pause, gateway.door.is_open(name)
        await accept_forever(listener, serve, gateway.door.slots, pause, is_open=is_open)

    async def _serve_admin(self, listener: Listener) -> None:
        builder = self._builder
        pages = AdminPages(
            builder.identity, lambda: builder.gateway, version("tidegate"), self._settings
        )
        tls, token = self._parts.tls.inner(ADMIN_LISTENER), self._settings.secret("admin.token")
        hosts = known_hosts(self._settings, *machine_names())
        await serve_admin(listener, pages, tls, token, self._admin_slots, hosts)

    def _stop_listening(self) -> None:
        for listener in self._parts.listeners:
            listener.close()

    async def _drain(self, gateway: Gateway) -> None:
        with trio.move_on_after(self._settings.int("drain.timeout.ms") / 1000) as waited:
            await gateway.drain(self._stop_listening)
        self._stop_listening()
        if waited.cancelled_caught:
            _log.warning("stopped before everything was drained; see drain.timeout.ms")

    def _admin_url(self, address: ListenerAddress) -> str:
        scheme = "http" if self._parts.tls.inner(ADMIN_LISTENER) is None else "https"
        return f"{scheme}://{url_host(address.host or socket.getfqdn())}:{address.port}"

    def _running(self, gateway: Gateway) -> Running:
        admin = self._parts.admin
        return Running(
            version=version("tidegate"),
            endpoints=gateway.identity.endpoints,
            admin_url=self._admin_url(admin.address) if admin is not None else None,
            cluster_id=gateway.coordinator.state.cluster_id,
            settings=self._settings,
            data=self._parts.data,
            peer=gateway.identity.peer,
        )


def _raised_descriptor_limit() -> int:
    """Raise the process's limit on open files to the hard limit; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
