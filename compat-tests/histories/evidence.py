"""The facts at the end of a run: the clients' histories, and all records.  No I/O here."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from histories.history import COMMITTED, History, Transaction, transaction_of

# By place: the value at each offset, with rising offsets.
Sweep = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Window:
    """The time of a fault.  hurts_clients: it delays or repeats requests, or stops clients."""

    begin_ms: int
    end_ms: int
    hurts_clients: bool = False


class Calm:
    """A clock that stops during faults."""

    def __init__(self, windows: Sequence[Window]) -> None:
        rows = sorted((each.begin_ms, each.end_ms) for each in windows)
        self._begins = [begin for begin, _ in rows]
        self._ends = [end for _, end in rows]
        self._lost = [0, *accumulate(end - begin for begin, end in rows)]

    def at(self, ms: int) -> int:
        """Return its time at a time of the wall clock."""
        after = bisect_right(self._begins, ms)
        in_last = max(0, self._ends[after - 1] - ms) if after else 0
        return ms - self._lost[after] + in_last


@dataclass
class Evidence:
    """committed, all_records: what the two isolation levels show at the end, from the start."""

    histories: Sequence[History]
    committed: Sweep
    all_records: Sweep
    windows: Sequence[Window] = ()

    @cached_property
    def transactions(self) -> Mapping[str, Transaction]:
        """Return all transactions whose end was asked for, by name."""
        return {name: it for each in self.histories for name, it in each.transactions.items()}

    @cached_property
    def visible(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return by transaction the (place:offset, value) that read_committed readers can see."""
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for place, values in self.committed.items():
            for offset, value in values.items():
                found[transaction_of(value)].append((f"{place}:{offset}", value))
        return found

    @cached_property
    def first_seen_ms(self) -> Mapping[str, int]:
        """Return when a reader of committed records first got some of a transaction."""
        first: dict[str, int] = {}
        for each in self.histories:
            for name, at_ms in each.first_seen_ms.items():
                first[name] = min(at_ms, first.get(name, at_ms))
        return first

    @cached_property
    def calm(self) -> Calm:
        """Return the clock of the run."""
        return Calm(self.windows)

    @cached_property
    def _offsets(self) -> Mapping[tuple[str, bool], array[int]]:
        levels = ((True, self.committed), (False, self.all_records))
        return {
            (place, is_committed): array("q", values)
            for is_committed, sweep in levels
            for place, values in sweep.items()
        }

    def expected(self, place: str, level: str, begin: int, last: int) -> array[int]:
        """Return the offsets of a place that a pass from begin to last must get."""
        offsets = self._offsets.get((place, level == COMMITTED), array("q"))
        return offsets[bisect_left(offsets, begin) : bisect_right(offsets, last)]
