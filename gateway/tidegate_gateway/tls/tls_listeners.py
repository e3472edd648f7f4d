"""All listeners that speak TLS: they negotiate with clients, and take over new certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import structlog
import trio

from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_runtime.said_again import SaidAgain
from tidegate_runtime.settings_texts import SettingsError
from tidegate_runtime.tls.bad_store import BadStore
from tidegate_runtime.tls.certificate import read_certificate
from tidegate_runtime.tls.der import BadDer
from tidegate_runtime.tls.distinguished_names import java_name

from ..network.call import ANONYMOUS
from ..network.tls_transport import HandshakeFailed, TlsTransport
from ..network.transport import Transport, TransportBroken
from ..peers.answering import PROBE
from ..settings.broker_settings import BrokerSettings
from ..settings.inner_listeners import inner_tls_listeners
from ..settings.listener_settings import tls_listeners
from ..work.blocking import Blocking
from .principal_rules import NoPrincipal
from .server_context import is_allowed_suite
from .tls_listener import TlsListener, day_of
from .tls_settings import (
    TlsSettings,
    inner_tls_settings,
    refuse_principal_builder,
    tls_settings,
)

_log = structlog.get_logger("tidegate.tls", STRANGERS_LINES)

HANDSHAKE_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 10.0
_DAY_SECONDS: Final = 86_400.0
WARN_SECONDS: Final = 30 * _DAY_SECONDS


class Secured(NamedTuple):
    """A connection after its TLS handshake.  principal: see Peer."""

    transport: Transport
    principal: str


class TlsListeners:
    """See the module's head.

    Args:
      listeners, inner: the listeners for clients of Kafka, and those of inner_listeners.py.
      wall_clock: returns seconds since 1970.
      blocking: runs the reads of files.
    """

    def __init__(
        self,
        listeners: Iterable[TlsListener] = (),
        *,
        inner: Iterable[TlsListener] = (),
        wall_clock: Callable[[], float] = lambda: 0.0,
        blocking: Blocking | None = None,
    ) -> None:
        self._by_name = {each.name: each for each in listeners}
        self._inner = {each.name: each for each in inner}
        self._wall_clock = wall_clock
        self._blocking = blocking
        self._said = {each.name: SaidAgain() for each in self}
        self._warned_at: dict[str, float] = {}
        self._handshake_turn = trio.Lock()

    def __contains__(self, listener: str) -> bool:
        """Return whether a listener for clients of Kafka speaks TLS."""
        return listener in self._by_name

    def __iter__(self) -> Iterator[TlsListener]:
        """Iterate over all of them."""
        return chain(self._by_name.values(), self._inner.values())

    def __len__(self) -> int:
        return len(self._by_name) + len(self._inner)

    def inner(self, name: str) -> TlsListener | None:
        """Return one of the inner listeners; None if it does not speak TLS."""
        return self._inner.get(name)

    # -- connections ------------------------------------------------------------------------------

    async def secure(
        self, transport: Transport, source: tuple[str, int], listener: str
    ) -> Secured | None:
        """Negotiate; return None if the caller must close the connection.

        A failure is logged, unless it is a TransportBroken.

        Args:
          source: the client's address, for the log.
        """
        tls = self._by_name[listener]
        secured = TlsTransport(transport, tls.current.context, PROBE)
        try:
            with trio.fail_after(HANDSHAKE_SECONDS):
                await secured.handshake(self._handshake_turn)
            if not is_allowed_suite(secured.cipher_suite(), tls.settings.suites):
                raise HandshakeFailed("its cipher suite is none of ssl.cipher.suites")
            return Secured(secured, _principal(secured, tls))
        except TransportBroken:
            return None
        except trio.TooSlowError:
            reason = f"no TLS handshake within {HANDSHAKE_SECONDS:g} s"
        except (HandshakeFailed, NoPrincipal) as error:
            reason = str(error)
        tls.failed_handshakes += 1
        host, port = source
        _log.warning("closed a connection", peer=f"{host}:{port}", listener=listener, reason=reason)
        return None

    # -- certificates -----------------------------------------------------------------------------

    def seconds_left(self, tls: TlsListener) -> float:
        """Return the seconds until a certificate of a listener expires; negative after that."""
        return tls.current.expires_at - self._wall_clock()

    async def run(self) -> None:
        """Look for new certificates every LOOK_SECONDS, forever."""
        while True:
            await self.look()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read changed files; a listener whose files cannot be used keeps its present context."""
        for each in self:
            await self._look_at(each)
            self._warn_of_expiry(each)

    async def _look_at(self, tls: TlsListener) -> None:
        assert self._blocking is not None, "only a collection without listeners has none"
        try:
            found = await self._blocking.run(partial(tls.look, self._wall_clock()))
        except BadStore as error:
            tls.failed_reloads += 1
            if self._said[tls.name].is_due(str(error), trio.current_time()):
                _log.error(
                    "new certificates cannot be used; the listener goes on with the old ones",
                    listener=tls.name,
                    reason=str(error),
                    expires=day_of(tls.current.expires_at),
                )
            return
        if found is not None:
            tls.replace(found)
            self._warned_at.pop(tls.name, None)
            expires = day_of(tls.current.expires_at)
            _log.info("new certificates are in use", listener=tls.name, expires=expires)

    def _warn_of_expiry(self, tls: TlsListener) -> None:
        """Log once a day that a certificate expires soon, or has expired."""
        left, now = self.seconds_left(tls), self._wall_clock()
        warned_at = self._warned_at.get(tls.name)
        if left >= WARN_SECONDS or (warned_at is not None and now - warned_at < _DAY_SECONDS):
            return
        self._warned_at[tls.name] = now
        what = "a certificate expires soon" if left > 0 else "a certificate is expired"
        _log.warning(what, listener=tls.name, expires=day_of(tls.current.expires_at))


def open_tls_listeners(
    settings: BrokerSettings,
    names: Iterable[str],
    wall_clock: Callable[[], float],
    blocking: Blocking,
) -> TlsListeners:
    """Read the stores of the listeners that speak TLS. Blocks.

    Args:
      names: the names of all listeners.

    Raises:
      SettingsError: a setting is wrong, or a store cannot be used.
    """
    for name in names:
        refuse_principal_builder(settings, name)
    opened = [
        _opened(each, tls_settings(settings, each), dials=False) for each in tls_listeners(settings)
    ]
    inner = [
        _opened(each, inner_tls_settings(settings, each), dials=each == PEER_LISTENER)
        for each in inner_tls_listeners(settings)
    ]
    now = wall_clock()
    for each in (*opened, *inner):
        for problem in each.problems(now):
            _log.warning("a listener with TLS has a problem", listener=each.name, reason=problem)
    return TlsListeners(opened, inner=inner, wall_clock=wall_clock, blocking=blocking)


def _opened(name: str, settings: TlsSettings, *, dials: bool) -> TlsListener:
    try:
        return TlsListener(name, settings, dials=dials)
    except BadStore as error:
        raise SettingsError(f"listener {name}: {error}") from None


def _principal(secured: TlsTransport, tls: TlsListener) -> str:
    """Return the principal of a client's certificate.

    Raises:
      NoPrincipal: the certificate gives no principal.
    """
    certificate = secured.client_certificate()
    if certificate is None or tls.settings.has_sasl:
        return ANONYMOUS
    try:
        subject = java_name(read_certificate(certificate).subject)
    except BadDer as error:
        raise NoPrincipal(f"its certificate cannot be read: {error}") from None
    return tls.settings.rules.principal_of(subject)
