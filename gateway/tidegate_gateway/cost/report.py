"""The report about costs, as dicts and lists of numbers and texts.  Pure.

It has the summed requests and bytes, what they cost, and advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from tidegate_storage.objects.cost_sums import PARTS, PIPELINE, CostSums, Use, merged

from .advice import advice
from .bill import Prices, money_of

Report: TypeAlias = dict[str, Any]
TABLES: Final = {"topic": "topics", "client": "clients", "group": "groups"}


def cost_report(
    each: Sequence[CostSums],
    prices: Prices,
    kept_bytes: Mapping[str, int] | None = None,
    recent: Sequence[CostSums] | None = None,
) -> Report:
    """Return the report.

    Args:
      each: the sums of intervals and gateways.
      kept_bytes: the stored bytes now, by topic; by default those in the sums.
      recent: the sums for the advice; by default `each`.
    """
    sums = merged(each)
    kept = sums.kept_bytes if kept_bytes is None else kept_bytes
    hours = sums.kept_byte_hours
    money = money_of(sums, prices)
    pipelines = merged(one for one in each if one.node_id == PIPELINE)
    return {
        "since_ms": sums.begin_ms,
        "until_ms": sums.end_ms,
        "node_ids": sorted({one.node_id for one in each} - {PIPELINE}),
        "prices": {"region": prices.region, "date": prices.date},
        "requests": dict(sorted(sums.requests.items())),
        "stored_bytes": sums.stored_bytes,
        "got_bytes": sums.got_bytes,
        "inlined": {"objects": sums.inlined_objects, "bytes": sums.inlined_bytes},
        "crossed_bytes": sums.crossed_bytes,
        "kept_bytes": sum(kept.values()),
        "pipeline": {
            "requests": pipelines.requests,
            "stored_bytes": pipelines.stored_bytes,
            "got_bytes": pipelines.got_bytes,
            "money": prices.of_requests(pipelines.requests),
        },
        "money": {**money, "total": sum(money.values())},
        "topics": _table(sums.topics, prices, kept, hours),
        "clients": _table(sums.clients, prices),
        "groups": _table(sums.by_group(), prices),
        "advice": advice(each if recent is None else recent, prices),
    }


def _table(
    uses: Mapping[str, Use],
    prices: Prices,
    kept: Mapping[str, int] | None = None,
    hours: Mapping[str, int] | None = None,
) -> list[Report]:
    """Return the rows, the most expensive first.  kept, hours: bytes and byte-hours of topics."""
    rows: list[Report] = []
    for name in {*uses, *(kept or ()), *(hours or ())}:
        use = uses.get(name) or Use()
        row: Report = {"name": name, **msgspec.structs.asdict(use)}
        row["puts"], row["gets"] = use.puts / PARTS, use.gets / PARTS
        if kept is not None:
            row["kept_bytes"] = kept.get(name, 0)
        row["money"] = prices.of_use(use, (hours or {}).get(name, 0))
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["money"], row["name"]))
