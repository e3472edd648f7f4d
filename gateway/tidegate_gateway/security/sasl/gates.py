"""The gates of a gateway: which of its listeners have a gate, and which mechanisms they offer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from math import inf
from typing import NamedTuple

import trio

from ...audit import Audit
from ...network.connection import FrameHandler
from ...network.receiver import ConnectionLimits
from ...settings.broker_settings import BrokerSettings
from ...settings.listener_settings import uses_sasl
from .authentications import Authentications
from .gate import AUTHENTICATION_SECONDS, SaslGate
from .listeners import Credentials, SaslListener, sasl_listener


class Entrance(NamedTuple):
    """The parts of a new connection.

    ready_seconds: how long the client may take to authenticate.
    """

    handler: FrameHandler
    limits: ConnectionLimits
    ready_seconds: float = inf


class SaslGates:
    """tally: the counts of all listeners.

    Args:
      listeners: names of all listeners for clients.
      dispatcher, limits: for clients that are authenticated, or need no login.
      count: called with the API key of each request that a gate answers.
      audit: records logins; None without an audit log.

    Raises:
      SettingsError: the settings of a SASL listener are missing or wrong.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        listeners: Iterable[str],
        credentials: Credentials,
        dispatcher: FrameHandler,
        limits: ConnectionLimits,
        count: Callable[[int], None],
        audit: Audit | None = None,
    ) -> None:
        self.tally = Authentications(trio.current_time, audit)
        self._dispatcher = dispatcher
        self._limits = limits
        self._count = count
        self._offers = _offers(settings, listeners, credentials)

    @property
    def listeners(self) -> Collection[str]:
        """The names of the SASL listeners."""
        return self._offers.keys()

    def of(self, listener: str, on_known: Callable[[], object] = lambda: None) -> Entrance:
        """Return the entrance of a new connection.

        on_known: called when the client has authenticated; called at once if the listener needs no
        login.
        """
        offer = self._offers.get(listener)
        if offer is None:
            on_known()
            return Entrance(self._dispatcher, self._limits)
        gate = SaslGate(offer, self._dispatcher, self._limits, self.tally, self._count, on_known)
        size = offer.max_token_bytes
        strange = replace(
            self._limits, max_frame_bytes=size, max_control_frame_bytes=size, is_strange=True
        )
        return Entrance(gate, strange, AUTHENTICATION_SECONDS)


def check_sasl(settings: BrokerSettings, listeners: Iterable[str]) -> None:
    """Check the settings of SASL listeners; a gateway does so before it binds its listeners.

    Raises:
      SettingsError: settings are missing or wrong.
    """
    _offers(settings, listeners, Credentials(lambda _mechanism, _user: None, bytes, b""))


def _offers(
    settings: BrokerSettings, listeners: Iterable[str], credentials: Credentials
) -> dict[str, SaslListener]:
    return {
        each: sasl_listener(settings, each, credentials)
        for each in listeners
        if uses_sasl(settings, each)
    }
