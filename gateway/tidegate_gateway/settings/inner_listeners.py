"""The listeners for other gateways and for operators, not for clients of Kafka.

Their ssl.* settings are found by their names, as for a listener of clients, such as
listener.name.peer.ssl.keystore.location.
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.forwarding.leaders import PEER_LISTENER as PEER
from tidegate_coordination.logs import forward
from tidegate_runtime.addresses import host_port
from tidegate_runtime.settings_texts import SettingsError

from .broker_settings import BrokerSettings
from .listener_settings import SSL, is_this_machine, listen_addresses, tls_listeners

ADMIN_LISTENER: Final = "ADMIN"
_ALLOWED: Final = "set allow.plaintext.listeners=true if its network is private"
_PROTOCOLS: Final = {PEER: "peer.security.protocol", ADMIN_LISTENER: "admin.security.protocol"}


def inner_tls_listeners(settings: BrokerSettings) -> tuple[str, ...]:
    """Return the names of the inner listeners with TLS.

    A gateway without peer.listener also needs the settings of `peer`, to send requests to other
    gateways.

    Raises:
      SettingsError: a listener of clients has the same name.
    """
    found = tuple(name for name, setting in _PROTOCOLS.items() if settings.text(setting) == SSL)
    for each in listen_addresses(settings):
        if each.name.upper() in found:
            raise SettingsError(
                f"listener {each.name} has the name of the gateway's own, which has settings"
                f" listener.name.{each.name.lower()}.ssl.*, too: give it another name"
            )
    return found


def has_tls(settings: BrokerSettings) -> bool:
    """Return whether a listener speaks TLS; raises SettingsError."""
    return bool(tls_listeners(settings) or inner_tls_listeners(settings))


def refuse_token_in_clear(settings: BrokerSettings) -> None:
    """Check that secrets do not leave this machine without TLS.

    Raises:
      SettingsError: a secret would, and allow.plaintext.listeners does not allow it.
    """
    if settings.bool("allow.plaintext.listeners"):
        return
    for name, setting in _PROTOCOLS.items():
        listener, token = f"{name.lower()}.listener", f"{name.lower()}.token"
        address = settings.text(listener)
        if not settings.secret(token) or settings.text(setting) == SSL:
            continue
        # A gateway without a peer.listener still sends the token to the peer listeners of other
        # gateways.
        is_near = is_this_machine(host_port(listener, address)[0]) if address else name != PEER
        if not is_near:
            raise SettingsError(
                f"{token} would leave this machine without TLS: set {setting}=SSL"
                f" (docs/operations/tls.md), or {_ALLOWED}"
            )
    log = settings.secret("metadata.log").reveal()
    if log.startswith("forward:") and "token-file=" in log and not forward.is_secured(log):
        hosts = [each.rpartition(":")[0].strip("[]") for each in forward.addresses_of(log)]
        if not all(map(is_this_machine, hosts)):
            raise SettingsError(
                "metadata.log=forward: would send its token without TLS: add &ca-file=FILE or"
                f" &tls=on (docs/operations/tls.md), or {_ALLOWED}"
            )
