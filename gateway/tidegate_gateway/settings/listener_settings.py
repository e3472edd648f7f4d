"""Reads addresses from `listeners` and `advertised.listeners`: Kafka's `NAME://host:port`.

With an empty host a gateway listens on all addresses and advertises this machine's name, as in
Kafka.  With 0.0.0.0 or [::] it also listens on all addresses.  No client can connect to these two,
so such a listener needs an advertised address.  In Kafka, the listeners in
controller.listener.names are only for controllers, not for clients.  A gateway has no controller,
and skips these listeners.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Final, NamedTuple

from tidegate_coordination.events.cluster import Endpoint
from tidegate_runtime.addresses import MAX_PORT, ListenerAddress
from tidegate_runtime.settings_texts import SettingsError

from .broker_settings import BrokerSettings

# Kafka's default listens on all addresses.  This default does not, since no login is configured
# yet.
DEFAULT_LISTENERS: Final = "PLAINTEXT://127.0.0.1:9092"


class Protection(NamedTuple):
    """The protection that a security protocol gives: TLS, a login, both, or neither."""

    is_tls: bool
    is_sasl: bool


PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final[Mapping[str, Protection]] = {
    PLAINTEXT: Protection(is_tls=False, is_sasl=False),
    SSL: Protection(is_tls=True, is_sasl=False),
    SASL_PLAINTEXT: Protection(is_tls=False, is_sasl=True),
    SASL_SSL: Protection(is_tls=True, is_sasl=True),
}
"""The security protocols that are served."""

_ADDRESS = re.compile(
    r"(?P<name>[A-Za-z0-9_]+)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/]*):(?P<port>\d+)"
)
_EVERYWHERE = ("0.0.0.0", "::")


def listen_addresses(settings: BrokerSettings) -> tuple[ListenerAddress, ...]:
    """Return the addresses on which this gateway listens.

    Raises:
      SettingsError: names the wrong item.
    """
    addresses = _without_controllers(settings, "listeners")
    if not addresses:
        apart = " without those of controller.listener.names" if settings.text("listeners") else ""
        raise SettingsError(
            f"listeners is empty{apart}: a gateway needs one, such as PLAINTEXT://:9092"
        )
    for each in addresses:
        security_protocol(settings, each.name)
    return addresses


def advertised_hosts(settings: BrokerSettings) -> list[str]:
    """Return the hosts that listeners and advertised.listeners name; "" for all interfaces.

    Raises:
      SettingsError: names the wrong item.
    """
    names = ("listeners", "advertised.listeners")
    return [each.host for name in names for each in _without_controllers(settings, name)]


def security_protocol(settings: BrokerSettings, listener: str) -> str:
    """Return the protocol of a listener: one of PROTOCOLS.

    Raises:
      SettingsError: the listener has another protocol, or none.
    """
    protocol = _protocols(settings).get(listener, "")
    if protocol not in PROTOCOLS:
        raise SettingsError(
            f"listener {listener} asks for {protocol or 'no known protocol'}; this release serves"
            f" {', '.join(PROTOCOLS)} (see listener.security.protocol.map)"
        )
    return protocol


def tls_listeners(settings: BrokerSettings) -> tuple[str, ...]:
    """Return the names of the listeners that speak TLS.

    Raises:
      SettingsError: names the wrong item.
    """
    names = (each.name for each in _without_controllers(settings, "listeners"))
    return tuple(each for each in names if PROTOCOLS[security_protocol(settings, each)].is_tls)


def refuse_open_listeners(settings: BrokerSettings, addresses: Iterable[ListenerAddress]) -> None:
    """Check that only this machine can reach listeners without TLS and without a login.

    Raises:
      SettingsError: others can reach one, and allow.plaintext.listeners does not allow it.
    """
    if settings.bool("allow.plaintext.listeners"):
        return
    for each in addresses:
        is_open = security_protocol(settings, each.name) == PLAINTEXT
        if is_open and not is_this_machine(each.host):
            raise SettingsError(
                f"listener {each.name} is PLAINTEXT and not only on this machine, so every client"
                " that reaches it may do everything: secure it (docs/security.md), or set"
                " allow.plaintext.listeners=true if its network is private"
            )


def is_this_machine(host: str) -> bool:
    """Return whether only this machine reaches a listener on that host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def advertised_endpoints(
    settings: BrokerSettings, bound: Iterable[ListenerAddress], host_name: str
) -> tuple[Endpoint, ...]:
    """Return the endpoints that Metadata names to clients.

    Args:
      bound: the addresses that this gateway has bound.
      host_name: the name of this machine, for listeners without a host.

    Raises:
      SettingsError: clients cannot connect to a listener, or advertised.listeners names an unknown
        one.
    """
    listening = {each.name: each for each in bound}
    advertised = {
        each.name: each for each in _without_controllers(settings, "advertised.listeners")
    }
    for name in advertised.keys() - listening.keys():
        raise SettingsError(f"advertised.listeners names {name}, which is not in listeners")
    return tuple(
        _endpoint(advertised.get(each.name, each), each, host_name) for each in listening.values()
    )


def controller_listeners(settings: BrokerSettings) -> tuple[str, ...]:
    """Return the names of the listeners for Kafka's controllers, which a gateway skips.

    Raises:
      SettingsError: names the wrong item.
    """
    addresses = _parse_all("listeners", settings.items("listeners"))
    return tuple(each.name for each in addresses if each.name in _controllers(settings))


def _endpoint(wanted: ListenerAddress, bound: ListenerAddress, host_name: str) -> Endpoint:
    if wanted.host in _EVERYWHERE:
        raise SettingsError(
            f"listener {wanted.name} would tell clients to connect to {wanted.host}, which they"
            f" cannot; set advertised.listeners={wanted.name}://<host clients reach>:{bound.port}"
        )
    # Port 0 means the bound port, also in advertised.listeners.
    return Endpoint(wanted.name, wanted.host or host_name, wanted.port or bound.port)


def _without_controllers(settings: BrokerSettings, name: str) -> tuple[ListenerAddress, ...]:
    controllers = _controllers(settings)
    addresses = _parse_all(name, settings.items(name))
    return tuple(each for each in addresses if each.name not in controllers)


def _controllers(settings: BrokerSettings) -> set[str]:
    return {name.upper() for name in settings.items("controller.listener.names")}


def _parse_all(setting: str, items: Iterable[str]) -> tuple[ListenerAddress, ...]:
    addresses = tuple(_parse(setting, item) for item in items)
    names = [each.name for each in addresses]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{setting} names {name} twice; every listener has its own name")
    return addresses


def _parse(setting: str, item: str) -> ListenerAddress:
    found = _ADDRESS.fullmatch(item)
    if found is None or int(found["port"]) > MAX_PORT:
        raise SettingsError(f"{setting}: {item!r} is not NAME://host:port")
    return ListenerAddress(found["name"].upper(), found["host"].strip("[]"), int(found["port"]))


def _protocols(settings: BrokerSettings) -> dict[str, str]:
    text = settings.text("listener.security.protocol.map")
    pairs = (item.partition(":") for item in text.split(","))
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}


def uses_sasl(settings: BrokerSettings, listener: str) -> bool:
    """Return whether clients of a listener authenticate by SASL."""
    return security_protocol(settings, listener).startswith("SASL_")


def with_advertised(settings: BrokerSettings, endpoints: tuple[Endpoint, ...]) -> BrokerSettings:
    """Return the settings with the endpoints that Metadata names as advertised.listeners."""
    advertised = ",".join(f"{each.listener}://{_in_url(each)}" for each in endpoints)
    return replace(settings, static={**settings.static, "advertised.listeners": advertised})


def _in_url(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
