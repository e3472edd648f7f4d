"""A frame as lines of text, at most as wide and high as the terminal.  Pure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..output.table import printable, sized
from .rates import KINDS, MB, Row

COLUMNS: Final = 80
_NAME_COLUMNS: Final = 9
_WORDS: Final = frozenset({"zone", "state"})
_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_STORE_LINES: Final = 6
_SECTIONS: Final = 3
_FIXED_LINES: Final = _STORE_LINES + 3 * _SECTIONS
"""The store, and of each table a blank line, its title and its columns."""


def text_of(report: Row, *, height: int | None = None, columns: int = COLUMNS) -> list[str]:
    """Return the lines.  height: None for all rows."""
    tables = [report["gateways"], report["topics"], report["groups"]]
    counts = [len(each) for each in tables]
    lines = _head(report)
    if height is not None:
        counts = shares(max(height - _FIXED_LINES - len(lines), 0), counts)
    makers = (_gateways, _topics, _groups)
    for name, rows, count, make in zip(
        ("GATEWAYS", "TOPICS", "GROUPS"), tables, counts, makers, strict=True
    ):
        lines += ["", _title(name, len(rows), count), *_aligned(make(rows[:count]), columns)]
    lines += ["", *_store(report["store"], columns)]
    return [_cut(each, columns) for each in lines[:height]]


def shares(room: int, wanted: Sequence[int]) -> list[int]:
    """Return how many rows each table gets: equal shares; unused rows go to other tables."""
    found = [0] * len(wanted)
    while room > 0 and (open_ := [at for at, most in enumerate(wanted) if found[at] < most]):
        for at in open_[:room]:
            found[at] += 1
        room -= len(open_)
    return found


def _head(report: Row) -> list[str]:
    clock = time.strftime("%H:%M:%S", time.gmtime(report["time_ms"] / 1000))
    cluster = printable(", ".join(report["clusters"])) or "no cluster"
    told = f"{report['answered']} of {report['asked']} gateways answered"
    lines = [f"{clock} UTC  {told}  {cluster}"]
    if len(report["clusters"]) > 1:
        lines.append("these gateways are of several clusters: the sums are over all of them")
    elif not report["answered"] and report["problems"]:
        lines.append(printable(report["problems"][0]["why"]))
    return lines


def _title(name: str, count: int, shown: int) -> str:
    return f"{name}  {count:,}" if shown >= count else f"{name}  {shown:,} of {count:,}"


def _gateways(rows: Iterable[Row]) -> Iterable[list[str]]:
    yield ["id", "zone", "state", "in MB/s", "out MB/s", "req/s", "p99 ms", "busy", "conns"]
    for each in rows:
        node_id = each["node_id"]
        yield [
            str(node_id) if node_id is not None else printable(each["admin"]),
            _cut(printable(each["zone"]), 14),
            each["state"],
            _rate(each["in_bytes_per_second"], MB),
            _rate(each["out_bytes_per_second"], MB),
            _rate(each["requests_per_second"]),
            _number(each["produce_p99_ms"], ".0f"),
            _number(each["loop_busy"], ".0%"),
            _number(each["connections"], ",d"),
        ]


def _topics(rows: Iterable[Row]) -> Iterable[list[str]]:
    yield ["topic", "in MB/s", "out MB/s", "records/s", "partitions"]
    for each in rows:
        yield [
            printable(each["name"]),
            _rate(each["in_bytes_per_second"], MB),
            _rate(each["out_bytes_per_second"], MB),
            _rate(each["records_per_second"]),
            _number(each["partitions"], ",d"),
        ]


def _groups(rows: Iterable[Row]) -> Iterable[list[str]]:
    yield ["group", "state", "members", "lag", "lag s", "headroom", "beyond end"]
    for each in rows:
        yield [
            printable(each["name"]),
            each["state"],
            _number(each["members"], ",d"),
            _number(each["lag"], ",d"),
            _number(each["lag_seconds"], ",.0f"),
            _number(each["headroom"], ".0%"),
            _number(each["beyond_end"], ",d"),
        ]


def _store(store: Row, columns: int) -> Iterator[str]:
    prices = store["prices"]
    yield f"STORE  prices of {printable(prices['region'])}, {printable(prices['date'])}"
    rates = [f"{store['requests_per_second'][kind]:,.2f}/s" for kind in KINDS]
    crossed = f"{store['crossed_bytes_per_second'] / MB:,.1f} MB/s"
    yield from _aligned(
        [
            ["", *map(str.upper, KINDS), "crossed", "kept", "total"],
            ["now", *rates, crossed, sized(store["kept_bytes"], _SIZES, 1000), ""],
            ["$/h", *(f"{each:,.4f}" for each in _money(store["money_per_hour"]))],
            ["$/month", *(f"{each:,.2f}" for each in _money(store["money_per_month"]))],
        ],
        columns,
    )


def _money(money: Mapping[str, float]) -> list[float]:
    return [money[each] for each in (*KINDS, "crossed", "kept", "total")]


def _aligned(rows: Iterable[Sequence[str]], columns: int) -> Iterable[str]:
    """Yield lines: a name, cut if too long, then words aligned left, and numbers aligned right."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rest = sum(width + 2 for width in widths[1:])
    widths[0] = min(widths[0], max(columns - rest, _NAME_COLUMNS))
    for row in table:
        others = (
            each.ljust(width) if name in _WORDS else each.rjust(width)
            for name, each, width in zip(table[0][1:], row[1:], widths[1:], strict=True)
        )
        cells = [_cut(row[0], widths[0]).ljust(widths[0]), *others]
        yield "  ".join(cells).rstrip()


def _rate(value: float | None, unit: int = 1) -> str:
    if value is None:
        return "-"
    value /= unit
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
