"""How long clients waited, and during which fault.  No I/O here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from faults.ledger import Progress
from faults.plan import Fault


@dataclass(slots=True)
class Happened:
    """A fault that lasted from begin_ms to end_ms.  until_ms: the beginning of the next one."""

    fault: Fault
    begin_ms: int
    end_ms: int
    until_ms: int = 0


def longest_gap(times: Sequence[int], begin: int, until: int) -> int:
    """The longest time without an event of `times` (rising) between `begin` and `until`.

    Waiting before `begin` and after `until` does not count.
    """
    inner = times[bisect_right(times, begin) : bisect_left(times, until)]
    edges = [begin, *inner, until]
    return max(after - before for before, after in pairwise(edges))


def stall(by_partition: Mapping[Any, Sequence[int]], happened: Happened) -> int:
    """The longest gap of any partition during a fault and the recovery from it, in ms."""
    gaps = [
        longest_gap(times, happened.begin_ms, happened.until_ms) for times in by_partition.values()
    ]
    return max(gaps, default=happened.until_ms - happened.begin_ms)


@dataclass(slots=True)
class Seen:
    """The effect of one kind of fault on one family.  Stalls are the longest ones, in ms."""

    acknowledgement_stall_ms: int = 0
    consumption_stall_ms: int = 0
    failed_records: int = 0
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class KindFigures:
    """All faults of one kind; `families` by name."""

    count: int = 0
    longest_fault_ms: int = 0
    families: dict[str, Seen] = field(default_factory=dict)


def by_kind(happened: Iterable[Happened], families: Sequence[Progress]) -> dict[str, KindFigures]:
    """Return the figures by kind of fault."""
    kinds: dict[str, KindFigures] = {}
    for each in happened:
        kind = kinds.setdefault(each.fault.kind, KindFigures())
        kind.count += 1
        kind.longest_fault_ms = max(kind.longest_fault_ms, each.end_ms - each.begin_ms)
        for family in families:
            _add(kind.families.setdefault(family.name, Seen()), family, each)
    return kinds


def _add(seen: Seen, family: Progress, happened: Happened) -> None:
    acknowledged = stall(family.acknowledged_at, happened)
    consumed = stall(family.consumed_at, happened)
    seen.acknowledgement_stall_ms = max(seen.acknowledgement_stall_ms, acknowledged)
    seen.consumption_stall_ms = max(seen.consumption_stall_ms, consumed)
    for told in family.told:
        if happened.begin_ms <= told.at_ms < happened.until_ms:
            seen.failed_records += "failed:" in told.error
            seen.errors[told.error] += 1
