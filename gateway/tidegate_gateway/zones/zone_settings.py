"""The settings that map clients to zones: zone.id.map, zone.listener.map, zone.cidr.map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from tidegate_runtime.settings_texts import SettingsError

from ..settings.broker_settings import BrokerSettings

CIDR_MAP: Final = "zone.cidr.map"
ID_MAP: Final = "zone.id.map"
LISTENER_MAP: Final = "zone.listener.map"
PROXIED: Final = "proxy.protocol.listeners"
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_CIDR_EXAMPLE: Final = "us-east-1a@10.0.0.0/19,10.0.32.0/19<>us-east-1b@10.0.64.0/19"

Network: TypeAlias = IPv4Network | IPv6Network


class CidrMap:
    """Maps addresses to zones.

    If a network is inside another, both have the same zone: see _check_overlaps().
    """

    def __init__(self, zones: Mapping[Network, str]) -> None:
        """Group the networks by prefix length: a lookup costs one step for each length."""
        tables: defaultdict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        for network, zone in zones.items():
            key = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
            tables[network.version, network.prefixlen][key] = zone
        self.zones = frozenset(zones.values())
        self._tables = sorted(tables.items(), key=lambda item: -item[0][1])

    def zone_of(self, host: str) -> str:
        """Return the zone of an address; "" if no network holds it, or it is not an address."""
        try:
            address = ip_address(host)
        except ValueError:
            return ""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            # a dual-stack socket shows IPv4 clients with mapped addresses
            address = address.ipv4_mapped
        number, bits = int(address), address.max_prefixlen
        for (family, length), zones in self._tables:
            if family == address.version and (zone := zones.get(number >> (bits - length))):
                return zone
        return ""


@dataclass(frozen=True, slots=True)
class ZoneMaps:
    """ids: zone name -> zone id.  by_listener: listener -> zone id."""

    ids: Mapping[str, str]
    by_listener: Mapping[str, str]
    by_address: CidrMap

    def id_of(self, zone: str) -> str:
        """Return the id of a zone; a name without an id is its own id."""
        return self.ids.get(zone, zone)


def zone_maps(settings: BrokerSettings) -> ZoneMaps:
    """Read the settings.

    Raises:
      SettingsError: names the setting and the wrong item.
    """
    ids = _pairs(ID_MAP, settings.items(ID_MAP), "=", "us-east-1a=use1-az4")
    for name, zone_id in ids.items():
        if ids.get(zone_id, zone_id) != zone_id:
            raise SettingsError(
                f"{ID_MAP}: {zone_id} is the id of {name} and has an id of its own,"
                f" {ids[zone_id]}; map every name to its id directly"
            )

    def id_of(zone: str) -> str:
        return ids.get(zone, zone)

    # As in Kafka, listener names are not case-sensitive.
    items = (_with_upper_name(each) for each in settings.items(LISTENER_MAP))
    listeners = _pairs(LISTENER_MAP, items, ":", "CLIENTS_A:us-east-1a")
    by_listener = {name: id_of(zone) for name, zone in listeners.items()}
    networks = _networks(settings.text(CIDR_MAP), id_of)
    return ZoneMaps(ids, by_listener, CidrMap(networks))


def check_listeners(maps: ZoneMaps, settings: BrokerSettings, listeners: Collection[str]) -> None:
    """Check that the listeners that settings name exist.

    Raises:
      SettingsError: names the setting and the missing listener.
    """
    named = [(LISTENER_MAP, each) for each in maps.by_listener]
    named += [(PROXIED, each) for each in sorted(proxied_listeners(settings))]
    for setting, name in named:
        if name not in listeners:
            raise SettingsError(
                f"{setting} names {name}, which is not in listeners ({', '.join(listeners)})"
            )


def proxied_listeners(settings: BrokerSettings) -> frozenset[str]:
    """Return the listeners whose connections begin with a PROXY header."""
    return frozenset(each.upper() for each in settings.items(PROXIED))


def _with_upper_name(item: str) -> str:
    name, found, zone = item.partition(":")
    return f"{name.upper()}{found}{zone}"


def _pairs(setting: str, items: Iterable[str], separator: str, example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, found, value = (each.strip() for each in item.partition(separator))
        if not (name and found and value):
            raise SettingsError(f"{setting}: {item!r} is not like {example}")
        if pairs.setdefault(name, value) != value:
            raise SettingsError(
                f"{setting} says both {name}{separator}{pairs[name]} and"
                f" {name}{separator}{value}; keep one of them"
            )
    return pairs


def _networks(text: str, id_of: Callable[[str], str]) -> dict[Network, str]:
    """Read `zone@cidr,cidr<>zone@cidr`, a notation that other products use for such a map."""
    zones: dict[Network, str] = {}
    for part in filter(None, (each.strip() for each in text.split("<>"))):
        name, found, cidrs = part.partition("@")
        if not (name.strip() and found and cidrs.strip()):
            raise SettingsError(f"{CIDR_MAP}: {part!r} is not like {_CIDR_EXAMPLE}")
        zone = id_of(name.strip())
        for cidr in cidrs.split(","):
            network = _network(cidr.strip())
            if zones.setdefault(network, zone) != zone:
                raise SettingsError(
                    f"{CIDR_MAP}: {network} is in zone {zones[network]} and in zone {zone};"
                    " keep one of them"
                )
    _check_overlaps(zones)
    return zones


def _check_overlaps(zones: Mapping[Network, str]) -> None:
    """Refuse a network of one zone inside a network of another.

    If networks are sorted by first address and prefix length, each network comes after all networks
    that contain it.  So one pass is enough, even for thousands of networks.
    """
    around: list[Network] = []  # each network contains the next one
    for network in sorted(zones, key=_place):
        while around and not _holds(around[-1], network):
            around.pop()
        if around and zones[around[-1]] != zones[network]:
            raise SettingsError(
                f"{CIDR_MAP}: {network} of zone {zones[network]} lies in {around[-1]} of zone"
                f" {zones[around[-1]]}; give zones networks that do not overlap"
            )
        around.append(network)


def _place(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


def _holds(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.network_address in outer


def _network(text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise SettingsError(
            f"{CIDR_MAP}: {text!r} is no network: {_what_to_write(text) or error}"
        ) from error
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        length = network.prefixlen - _MAPPED.prefixlen
        inside = IPv4Network((int(network.network_address) & 0xFFFF_FFFF, length))
        raise SettingsError(
            f"{CIDR_MAP}: {text!r} matches no client, since IPv4 clients are known by their IPv4"
            f" addresses; write {inside}"
        )
    return network


def _what_to_write(text: str) -> str:
    """Return how to write the network that was probably meant; "" if the meaning is unclear."""
    if ";" in text or "@" in text:
        return f"networks are divided by commas and zones by <>, as in {_CIDR_EXAMPLE}"
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return ""
    return f"it has bits set after its prefix; write {network}"
