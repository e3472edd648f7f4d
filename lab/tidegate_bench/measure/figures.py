"""From the samples of single runs to the figures of a row.  Pure.

CPU is user and system time of one process, in seconds; MB are 10^6 bytes of payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from typing import Final

GIB: Final = 1 << 30


def _no_figures() -> dict[str, float]:
    return {}


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured run; None: not measured.  more: further figures by name."""

    payload_bytes: int = 0
    seconds: float = 0.0
    server_cpu: float | None = None
    store_cpu: float | None = None
    requests: float | None = None
    puts: float | None = None
    gets: float | None = None
    rss_bytes: int | None = None
    more: Mapping[str, float] = field(default_factory=_no_figures)


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some runs, with the smallest and the largest."""

    median: float
    low: float
    high: float


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` (0 to 1) of all values do not exceed.

    Raises:
      ValueError: there are none.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def latency_figures(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p99 and p99.9 in ms."""
    shares = {"p50 ms": 0.5, "p99 ms": 0.99, "p99.9 ms": 0.999}
    return {name: percentile(seconds, share) * 1e3 for name, share in shares.items()}


def figures_of(seen: Observation) -> dict[str, float]:
    """Return the figures of one run, as far as its samples allow."""
    megabytes, gibibytes = seen.payload_bytes / 1e6, seen.payload_bytes / GIB
    found = {
        "cpu ms/MB": _ratio(_ms(seen.server_cpu), megabytes),
        "MB/s": _ratio(megabytes, seen.seconds),
        "req/s": _ratio(seen.requests, seen.seconds),
        "PUT/GiB": _ratio(seen.puts, gibibytes),
        "GET/GiB": _ratio(seen.gets, gibibytes),
        "store ms/MB": _ratio(_ms(seen.store_cpu), megabytes),
        "RSS MB": _ratio(seen.rss_bytes, 1e6),
    }
    return {name: value for name, value in found.items() if value is not None} | dict(seen.more)


def spreads_of(runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Return the spread of each figure over the runs, in the order of their first appearance."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: _spread([run[name] for run in runs if name in run]) for name in names}


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _ratio(value: float | None, base: float) -> float | None:
    return value / base if value is not None and base else None
