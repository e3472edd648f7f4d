"""The report about zones for operators: the clients that cross zones, each with advice.

The figures are those of one gateway, since it started.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import combinations

from ..network.client_zone import Source
from .zone_traffic import OTHERS, ClientTraffic, Kind, ZoneTraffic


def zone_report(
    traffic: ZoneTraffic, zones: Collection[str], *, moved: int, without_gateway: int
) -> dict[str, object]:
    """Return the report as builtins.

    Args:
      zones: the zones with a gateway that takes new work.
      moved: the number of fetched partitions that were answered with a gateway of the client's
        zone.
      without_gateway: the number of answers to clients whose zone has no gateway.
    """
    clients = sorted(traffic.clients.values(), key=ClientTraffic.crossing, reverse=True)
    return {
        "zone": traffic.own_zone,
        "zones": sorted(zones),
        "produced": _by_kind(traffic.totals.produced),
        "fetched": _by_kind(traffic.totals.fetched),
        "moved_fetches": moved,
        "answers_without_gateway_in_zone": without_gateway,
        "clients": [
            {
                "client_id": each.client_id,
                "zone": each.zone.zone,
                "told_by": each.zone.source.value,
                "produced": _by_kind(each.bytes.produced),
                "fetched": _by_kind(each.bytes.fetched),
                "advice": advice(each, zones, traffic.own_zone),
            }
            for each in clients
        ],
    }


def advice(client: ClientTraffic, zones: Collection[str], own_zone: str) -> str:
    """Return how to keep a client's traffic in its zone; "" if it stays there already."""
    produced, fetched = client.bytes.produced, client.bytes.fetched
    zone, source = client.zone
    if client.client_id == OTHERS:
        return "There are too many client ids to tell apart; give clients of one program one id."
    if not zone and len(zones) <= 1:
        return ""  # there is no other zone to which traffic could cross
    if not zone:
        return (
            "Its zone is not known: add ,zone=<its zone> to its client.id, or set client.rack if it"
            " only reads, or name its addresses in zone.cidr.map."
        )
    if not produced[Kind.CROSS] and not fetched[Kind.CROSS]:
        return ""
    if zone not in zones:
        return _nearest(zone, zones) + (
            f"Zone {zone} has no gateway that takes new work. If all of its gateways drain, wait"
            f" until that ends. If it has none, run one there with broker.rack={zone}; if it is"
            " another name of a zone that has one, map it in zone.id.map."
        )
    if source is Source.RACK and produced[Kind.CROSS]:
        return (
            f"It produces before its rack is known: add ,zone={zone} to its client.id, which every"
            " request carries."
        )
    if source is Source.RACK and fetched[Kind.CROSS]:
        return (
            "Its client.rack alone moves it only where topics have a replica in every zone: raise"
            f" their replication factor (a label here), or add ,zone={zone} to its client.id."
        )
    if zone == own_zone:
        return "It crossed zones before its present zone was known, and no longer does."
    return (
        f"It knows gateways of zone {zone} from its next metadata on. If it still crosses zones"
        f" then, it reaches none of them: check their advertised.listeners from zone {zone}."
    )


def _nearest(zone: str, zones: Collection[str]) -> str:
    near = get_close_matches(zone, zones, n=1)
    return f"Did you mean {near[0]}? " if near else ""


def look_alikes(zones: Collection[str]) -> list[tuple[str, str]]:
    """Return pairs of zones whose names differ only in case and punctuation."""
    pairs = combinations(sorted(zones), 2)
    return [(one, other) for one, other in pairs if _letters(one) == _letters(other)]


def _letters(zone: str) -> str:
    return "".join(filter(str.isalnum, zone)).casefold()


def _by_kind(counts: dict[Kind, int]) -> dict[str, int]:
    return {kind.value: count for kind, count in counts.items()}
