"""Where to listen: `host:port` read and written, with IPv6 in brackets."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from .settings_texts import SettingsError

MAX_PORT: Final = 65535

_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/]*):(?P<port>\d+)")


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """An address to listen at or to advertise.  host: "" for all interfaces; without [] for IPv6.
    port: 0 for any free one.
    """

    name: str
    host: str
    port: int


def host_port(name: str, text: str) -> tuple[str, int]:
    """Read `host:port`, the value of the setting `name`.  Raises:
    SettingsError: the text has another form.
    """
    found = _HOST_PORT.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise SettingsError(f"{name}={text} is not host:port, such as 127.0.0.1:9644")
    return found["host"].strip("[]"), int(found["port"])


@cache
def machine_names() -> tuple[str, ...]:
    """Return the names of this machine.  May ask a name server."""
    return (socket.gethostname(), socket.getfqdn())


def url_host(host: str) -> str:
    """Return a host as URLs and bootstrap addresses write it."""
    return f"[{host}]" if ":" in host else host


def with_port(address: ListenerAddress, port: int) -> ListenerAddress:
    """Return the address with its port replaced by the bound one."""
    return replace(address, port=port)
