"""The door of Kafka's clients: accepts connections, and serves each until it closes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.security.quotas import normal_address
from tidegate_runtime.doors.slots import ConnectionSlots, Visitor
from tidegate_runtime.settings_texts import SettingsError

from .draining import Draining
from .feature import Feature, Ground, Task
from .network.call import ANONYMOUS, Peer
from .network.connection import Connection
from .network.proxied import source_of
from .network.receiver import PATIENCE_STEP_SECONDS, QUIET_SECONDS
from .network.reply_memory import ReplyMemory
from .network.transport import Transport
from .parts.logins import LoginParts
from .parts.reads import ReadParts
from .parts.view import ViewParts
from .parts.writes import WriteParts
from .quotas.connection_rates import ConnectionRates
from .quotas.throttling import Throttling
from .settings.broker_settings import BrokerSettings
from .telemetry.telemetry import Telemetry
from .tls.tls_listeners import TlsListeners
from .zones.zone_settings import proxied_listeners

CLIENTS: Final = "CLIENTS"
"""The door's name in metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDoor:
    """See the module's head.

    connections: the open connections.  proxied: the listeners behind a proxy.
    """

    connections: set[Connection]
    slots: ConnectionSlots
    proxied: frozenset[str]
    tls: TlsListeners
    writes: WriteParts
    reply_memory: ReplyMemory
    view: ViewParts
    logins: LoginParts
    rates: ConnectionRates
    telemetry: Telemetry

    def is_open(self, listener: str) -> bool:
        """Return whether a listener has no TLS, no SASL and no proxy."""
        secured = self.tls, self.logins.gates.listeners, self.proxied
        return not any(listener in each for each in secured)

    async def let_in(self, transport: Transport, listener: str) -> None:
        """Serve a connection that does not come from a socket; see serve()."""
        await self.slots.wait_free()
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
        """Serve one connection until it closes; the caller then removes the visitor."""
        source = transport.peer
        if listener in self.proxied:
            named = await source_of(transport)
            if named is None:
                transport.close()
                return
            source = named
            visitor.comes_from(source[0])
        if await self.rates.holds(source[0]):
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
        origin = self.view.zones.origin_of(listener, source[0])
        peer = Peer(*source, listener, origin=origin, principal=principal)
        handler, limits, ready_seconds = self.logins.gates.of(listener, visitor.known)
        connection = Connection(
            transport,
            peer,
            self.writes.pool,
            handler,
            limits,
            self.writes.inflow,
            self.reply_memory,
        )
        connection.allow_seconds(ready_seconds)
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)
            self.telemetry.left(peer)
            self.view.traffic.book(peer)
            self.view.zones.racks.forget(peer)


def client_door(
    ground: Ground,
    connections: set[Connection],
    reads: ReadParts,
    writes: WriteParts,
    view: ViewParts,
    logins: LoginParts,
    rates: ConnectionRates,
    telemetry: Telemetry,
) -> ClientDoor:
    """Make the door of a gateway."""
    settings = ground.settings
    return ClientDoor(
        connections=connections,
        slots=ConnectionSlots(
            settings.int("max.connections"),
            settings.int("max.connections.per.ip"),
            connection_overrides(settings),
        ),
        proxied=proxied_listeners(settings),
        tls=ground.environment.tls,
        writes=writes,
        reply_memory=reads.reply_memory,
        view=view,
        logins=logins,
        rates=rates,
        telemetry=telemetry,
    )


def connections_feature(
    connections: Collection[Connection], throttling: Throttling, draining: Draining
) -> Feature:
    """Return the feature that closes connections whose clients are silent for too long."""

    async def watch() -> None:
        while True:
            await trio.sleep(PATIENCE_STEP_SECONDS)
            # After a pause of this process, let the connections first receive the bytes that have
            # arrived.
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            throttling.end_if_draining()
            for connection in tuple(connections):
                connection.check_patience(now, draining.idle_seconds)
            if draining.hurries:
                await trio.sleep(QUIET_SECONDS)
                for connection in tuple(connections):
                    connection.close_between_requests()

    return Feature("connections", tasks=(Task("watch connections", watch),))


def max_connections(settings: BrokerSettings, most: int) -> int:
    """Return how many connections the gateway accepts.

    Args:
      most: how many connections the process can have open.
    """
    return min(settings.int("max.connections"), most)


def connection_overrides(settings: BrokerSettings) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides: ADDRESS:COUNT,... with the most connections of each.

    Raises:
      SettingsError: the setting has another form.
    """
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for item in filter(None, map(str.strip, settings.text(name).split(","))):
        host, _, count = item.rpartition(":")
        address = normal_address(host.strip().strip("[]"))
        if address is None or not count.strip().isdecimal():
            raise SettingsError(f"{name}: {item!r} is not ADDRESS:COUNT")
        found[address] = int(count)
    return found
