"""The sum of several gateways' reports, for `tidegate zones`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..zones.zone_traffic import Kind

Report = Mapping[str, Any]


def summed(reports: Sequence[Report]) -> Report:
    """Return the sums, by client; a single report unchanged.

    Other columns of a client: from the gateway with most of this client's cross-zone bytes.
    """
    if len(reports) == 1:
        return reports[0]
    by_client: defaultdict[str, list[Report]] = defaultdict(list)
    for report in reports:
        for each in report["clients"]:
            by_client[each["client_id"]].append(each)
    clients = [_client(rows) for rows in by_client.values()]
    return {
        "gateways": len(reports),
        "zone": ", ".join(sorted({each["zone"] for each in reports})),
        "zones": sorted({zone for each in reports for zone in each["zones"]}),
        **_bytes(reports),
        **{
            name: sum(each[name] for each in reports)
            for name in ("moved_fetches", "answers_without_gateway_in_zone")
        },
        "clients": sorted(clients, key=_crossing, reverse=True),
    }


def _client(rows: Sequence[Report]) -> Report:
    worst = max(rows, key=_crossing)
    return {**worst, **_bytes(rows)}


def _bytes(rows: Sequence[Report]) -> dict[str, dict[str, int]]:
    return {
        name: {kind.value: sum(each[name][kind.value] for each in rows) for kind in Kind}
        for name in ("produced", "fetched")
    }


def _crossing(client: Report) -> tuple[int, int]:
    crossing, unknown = (
        client["produced"][kind.value] + client["fetched"][kind.value]
        for kind in (Kind.CROSS, Kind.UNKNOWN)
    )
    return crossing, unknown
