"""`tidegate cost`: shows requests to the object store, for whom they were, and their costs."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegate_coordination.existing import open_existing_store
from tidegate_runtime.settings_texts import SettingsError

from ..cost.bill import Prices, prices_of
from ..cost.reading import Found, read_sums
from ..cost.report import TABLES, Report, cost_report
from .dev.pipeline import default_store
from .existing_cluster import NOT_TOLD, run_told
from .output.table import counted, printable, sized

COLUMNS: Final = 80
SHOWN: Final = 20
_UNITS: Final = {"h": 3_600, "d": 86_400, "w": 604_800}
_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP: Final = 1000


@dataclass(frozen=True, slots=True)
class CostOptions:
    """The options as typed."""

    data: Path
    object_store: str | None
    since: str
    by: str
    prices: Path | None


def run_cost(options: CostOptions, *, as_json: bool) -> int:
    """Print the report; return the exit code."""
    try:
        since_ms = round((time.time() - seconds_of(options.since)) * 1000)
        prices = prices_of(options.prices)
        if options.by not in TABLES:
            raise SettingsError(f"--by {options.by}: write {', '.join(TABLES)}")
    except SettingsError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_TOLD

    async def work() -> int:
        store = open_existing_store(options.object_store or default_store(options.data))
        try:
            found = await read_sums(store, since_ms)
        finally:
            await store.aclose()
        report = _report(found, prices)
        print(json.dumps(report) if as_json else text_of(report, options.by))
        return 0

    return run_told(work)


def _report(found: Found, prices: Prices) -> Report:
    report = cost_report(found.each, prices, recent=found.recent())
    return {**report, "intervals": len(found.each), "unread": found.unread}


def seconds_of(text: str) -> int:
    """Return the seconds of a span such as 7d.

    Raises:
      SettingsError: the text is not such a span.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})([hdw])", text)
    if found is None:
        raise SettingsError(f"--since {text}: write a number and h, d or w, such as 7d")
    return int(found[1]) * _UNITS[found[2]]


def text_of(report: Report, by: str) -> str:
    """Return the report for a person, in COLUMNS."""
    if not report["intervals"]:
        return (
            "No gateway wrote what it cost in that time: each does at its end, and every\n"
            "cost.interval.ms (an hour). Until then /v1/cost at the admin.listener of a\n"
            "gateway shows what that asked of the store in the interval that has not ended."
        )
    lines = [*_head(report), "", *_causes(report), "", *_rows(report, by)]
    for each in report["advice"]:
        lines += ["", *textwrap.wrap(printable(each), COLUMNS)]
    if report["unread"]:
        many = counted(len(report["unread"]), "object")
        lines += ["", f"{many} of sums cannot be read; --json names them."]
    return "\n".join(lines)


def _head(report: Report) -> list[str]:
    nodes = len(report["node_ids"])
    prices = report["prices"]
    return textwrap.wrap(
        f"{_time(report['since_ms'])} to {_time(report['until_ms'])} UTC,"
        f" {counted(nodes, 'gateway')}; prices of {printable(prices['region'])},"
        f" {printable(prices['date'])}",
        COLUMNS,
    )


def _causes(report: Report) -> list[str]:
    requests: dict[str, int] = report["requests"]
    rows = [["", "requests", "bytes", "money"]]
    for kind in ("put", "get", "list", "delete"):
        count = sum(each for name, each in requests.items() if name.startswith(f"{kind} "))
        sizes = {"put": report["stored_bytes"], "get": report["got_bytes"]}.get(kind)
        size = _size(sum(sizes.values())) if sizes is not None else ""
        money = report["money"][f"{kind} requests"]
        rows.append([f"{kind} requests", f"{count:,}", size, _money(money)])
    if report["inlined"]["objects"]:
        objects, size_bytes = report["inlined"]["objects"], report["inlined"]["bytes"]
        rows.append(["in the log, not stored", f"{objects:,}", _size(size_bytes), ""])
    for cause, size in (
        ("storage", report["kept_bytes"]),
        ("bytes across zones", report["crossed_bytes"]),
    ):
        rows.append([cause, "", _size(size), _money(report["money"][cause])])
    if pipeline := report["pipeline"]["requests"]:
        sizes = (
            *report["pipeline"]["stored_bytes"].values(),
            *report["pipeline"]["got_bytes"].values(),
        )
        money = _money(report["pipeline"]["money"])
        rows.append(
            ["of these the pipeline", f"{sum(pipeline.values()):,}", _size(sum(sizes)), money]
        )
    rows.append(["total", "", "", _money(report["money"]["total"])])
    return _aligned(rows)


def _rows(report: Report, by: str) -> list[str]:
    table: list[dict[str, Any]] = report[TABLES[by]]
    last = ("kept", "kept_bytes") if by == "topic" else ("crossed", "crossed_bytes")
    rows = [[by, "PUTs", "stored", "GETs", "got", last[0], "money"]]
    for each in table[:SHOWN]:
        rows.append(
            [
                printable(each["name"]) or f"(no {by} id)",
                f"{each['puts']:,.0f}",
                _size(each["put_bytes"]),
                f"{each['gets']:,.0f}",
                _size(each["get_bytes"]),
                _size(each[last[1]]),
                _money(each["money"]),
            ]
        )
    lines = _aligned(rows)
    if len(table) > SHOWN:
        lines.append(f"and {len(table) - SHOWN} more; --json shows all")
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of at most COLUMNS with a name and numbers; long names are cut."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], COLUMNS - sum(width + 2 for width in widths[1:]))
    return [
        "  ".join(
            [
                _cut(row[0], widths[0]).ljust(widths[0]),
                *map(str.rjust, row[1:], widths[1:]),
            ]
        ).rstrip()
        for row in rows
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _time(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(ms / 1000))


def _money(money: float) -> str:
    return f"${money:,.2f}"


def _size(count: float) -> str:
    return sized(count, _SIZES, _STEP)
