"""Settings of the listener for other gateways, and of the forwarding of proposals."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog
from tidegate_coordination.logs import forward
from tidegate_runtime.addresses import ListenerAddress, host_port, url_host
from tidegate_runtime.settings_texts import SettingsError

from ..settings.broker_settings import BrokerSettings
from ..settings.listener_settings import is_this_machine

ALWAYS: Final = "on"
NEVER: Final = "off"
EVERYWHERE: Final = ("", "0.0.0.0", "::")
# For a listener's host, further hosts by which the same machine reaches the listener.
_OF_IPV4: Final = ("127.0.0.1", "localhost")
_OF_BOTH: Final = (*_OF_IPV4, "[::1]")
_OTHER_NAMES: Final = {
    "": _OF_BOTH,
    "::": _OF_BOTH,
    "localhost": _OF_BOTH,
    "0.0.0.0": _OF_IPV4,
    "127.0.0.1": ("localhost",),
    "::1": ("localhost",),
}


class Forwarding(Enum):
    """When a gateway forwards its proposals; CONTENDED: see forwarding/contention.py."""

    ALWAYS = auto()
    CONTENDED = auto()
    NEVER = auto()


def forwarding(settings: BrokerSettings, log: MetadataLog) -> Forwarding:
    """Return when this gateway forwards its proposals to a leader.

    Raises:
      LogMisconfigured: forwarding=off, and this gateway cannot append to the log.
    """
    wanted = settings.text("forwarding")
    if wanted == NEVER and not log.capabilities.can_append:
        raise LogMisconfigured(
            "this metadata log can only be read, so forwarding=off leaves no way to write: remove"
            " forwarding=off, or give metadata.log the address of the log itself"
        )
    if wanted == NEVER:
        return Forwarding.NEVER
    is_always = wanted == ALWAYS or log.capabilities.forward_to_leader
    return Forwarding.ALWAYS if is_always else Forwarding.CONTENDED


def peer_address(settings: BrokerSettings) -> ListenerAddress | None:
    """Return the address to listen at for other gateways; None if there is none.

    Raises:
      SettingsError: the setting is not host:port.
    """
    text = settings.text("peer.listener")
    return ListenerAddress(PEER_LISTENER, *host_port("peer.listener", text)) if text else None


def refuse_own_address(settings: BrokerSettings) -> None:
    """Check that this gateway does not read the metadata log from itself.

    Raises:
      SettingsError: metadata.log=forward: names this gateway's own peer.listener.
    """
    url, address = settings.secret("metadata.log").reveal(), peer_address(settings)
    if not url.startswith("forward:") or address is None:
        return
    hosts = {url_host(address.host), *_OTHER_NAMES.get(address.host, ())}
    own = {settings.text("peer.advertised.listener"), *(f"{each}:{address.port}" for each in hosts)}
    for each in forward.addresses_of(url):
        if each and each in own:
            raise SettingsError(
                f"metadata.log=forward: names this gateway itself ({each} is its peer.listener):"
                " name gateways that reach the log"
            )


def open_to_anyone(settings: BrokerSettings) -> str:
    """Return a warning if peer.listener is open to other machines without a token; else "".

    Raises:
      SettingsError: as peer_address().
    """
    address = peer_address(settings)
    if address is None or settings.secret("peer.token") or is_this_machine(address.host):
        return ""
    return (
        "any client that reaches peer.listener may read all records and change the cluster, since"
        " peer.token is empty: give all gateways the same peer.token"
    )


def peer_endpoint(
    settings: BrokerSettings, bound: ListenerAddress | None, host_name: str
) -> Endpoint | None:
    """Return the address that this gateway advertises to other gateways.

    bound: the address at which it listens; None if it does not listen.

    Raises:
      SettingsError: the advertised address is not host:port, or peer.listener is not set.
    """
    text = settings.text("peer.advertised.listener")
    if bound is None:
        if text:
            raise SettingsError("peer.advertised.listener needs peer.listener=host:port")
        return None
    if not text:
        host = host_name if bound.host in EVERYWHERE else bound.host
        return Endpoint(PEER_LISTENER, host, bound.port)
    host, port = host_port("peer.advertised.listener", text)
    return Endpoint(PEER_LISTENER, host, port or bound.port)
