"""The names by which this gateway's HTTP listeners are known; see http.allowed.hosts."""

from __future__ import annotations

from typing import Final

from tidegate_runtime.addresses import host_port
from tidegate_runtime.http.hosts import KnownHosts

from .broker_settings import BrokerSettings
from .listener_settings import advertised_hosts

ALLOWED: Final = "http.allowed.hosts"
ADVICE: Final = (
    "use an IP address, or a name that listeners or advertised.listeners have, or add the name to"
    f" {ALLOWED}"
)
_ADDRESSES: Final = ("admin.listener", "peer.listener", "peer.advertised.listener")


def known_hosts(settings: BrokerSettings, *machine: str) -> KnownHosts:
    """Return the hosts that need no token. machine: the names of this machine.

    Raises:
      SettingsError: a text is not an address.
    """
    names = [*settings.items(ALLOWED), *machine, *advertised_hosts(settings)]
    for each in _ADDRESSES:
        if text := settings.text(each):
            names.append(host_port(each, text)[0])
    return KnownHosts(names, ADVICE)
