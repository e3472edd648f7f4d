"""Compaction beside Apache Kafka's own log cleaner: the same records must remain.

    compat-tests/run compaction --seed 1

The same random records with keys go to Apache Kafka and to a gateway with `tidegate pipeline run`,
so they have the same offsets.  When both have compacted them, the remaining records (offset, key,
value, headers, time stamp) are compared with each other and with an independent model.  Kafka never
cleans its newest segment.  So a last record begins a new segment, and only the records before it
are compared.  A cleaner removes tombstones in a later round than the one that saw them first, so
there are several rounds.  Exit status 1 when there is a difference.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from runner.options import option
from runner.result import Result
from runner.shared import Seeded

from compaction.sides import Side, both_sides, create, read, set_policy, write
from compaction.workloads import (
    FILLER_KEY,
    LEAP_MS,
    Placed,
    Row,
    Workload,
    all_workloads,
    filler,
    survivors,
)

AT_ONCE: Final = 8
CLEANED_SECONDS: Final = 180.0
# The first round sees the tombstones; they may go in the next.
ROUNDS: Final = 3
BETWEEN_SECONDS: Final = 0.5
# Long enough for a side to compact where it must not.
IDLE_SECONDS: Final = 3.0
DAY_MS: Final = 86_400_000
TITLES: Final = (
    "workload",
    "phase",
    "written",
    "keys",
    "tombstones",
    "Kafka",
    "Tidegate",
    "verdict",
)


@dataclass(slots=True)
class Written:
    """The records that were written to a topic: one for each offset."""

    workload: Workload
    rows: list[Row] = field(default_factory=list[Row])

    @property
    def next_ms(self) -> int:
        """Return a time stamp that begins another segment."""
        return self.rows[-1].timestamp_ms + LEAP_MS


class Oracle:
    """See the module's head.  differences: sentences."""

    def __init__(self, sides: Sequence[Side], workloads: Sequence[Workload], start_ms: int) -> None:
        self._sides = sides
        self._topics = [Written(each) for each in workloads]
        self._start_ms = start_ms
        self._fillers = count(1)
        self.lines: list[tuple[object, ...]] = []
        self.differences: list[str] = []

    def run(self) -> None:
        """Write, wait, compare."""
        switched = [each for each in self._topics if each.workload.is_switched]
        for side in self._sides:
            create(side, [each.workload for each in self._topics])
        self._write_part(self._topics, 0)
        self._switch(switched, "compact")
        self._let_clean(self._topics)
        self._compare(self._topics, "compacted", {})
        below = {each.workload.name: len(each.rows) for each in switched}
        self._switch(switched, "delete")
        self._write_part(switched, 1)
        time.sleep(IDLE_SECONDS)
        self._compare(switched, "delete again", below)
        self._switch(switched, "compact")
        self._let_clean(switched)
        self._compare(switched, "compact again", {})

    def _switch(self, topics: Sequence[Written], policy: str) -> None:
        for side in self._sides:
            set_policy(side, [each.workload.name for each in topics], policy)

    def _write_part(self, topics: Sequence[Written], part: int) -> None:
        self._append(
            (each, each.workload.rows(part, each.next_ms if each.rows else self._start_ms))
            for each in topics
        )

    def _append(self, parts: Iterable[tuple[Written, Sequence[Row]]]) -> None:
        """Write records to topics, each part to both sides."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._append_one, *zip(*parts, strict=True)))

    def _append_one(self, topic: Written, rows: Sequence[Row]) -> None:
        for side in self._sides:
            write(side, topic.workload, rows, len(topic.rows))
        topic.rows += rows

    def _let_clean(self, topics: Sequence[Written]) -> None:
        for _ in range(ROUNDS):
            time.sleep(BETWEEN_SECONDS)
            self._append((each, self._two_fillers(each.next_ms)) for each in topics)
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda side: _wait(side, topics), self._sides))

    def _two_fillers(self, start_ms: int) -> list[Row]:
        """Return two records that each begin a segment of Kafka's.

        The first one also makes the records before it dirty enough to be cleaned.
        """
        return [filler(next(self._fillers), start_ms + LEAP_MS * number) for number in range(2)]

    def _compare(self, topics: Sequence[Written], phase: str, below: dict[str, int]) -> None:
        for each in topics:
            name, end = each.workload.name, len(each.rows) - 1
            compacted_below = below.get(name, end)
            wanted = survivors(
                each.rows,
                compacted_below=compacted_below,
                tombstones_below=0 if each.workload.keeps_tombstones else compacted_below,
            )
            found = [_comparable(read(side, name), end) for side in self._sides]
            verdict = self._verdict(name, phase, found, _comparable(wanted, end))
            self.lines.append(
                (
                    name,
                    phase,
                    len(each.rows),
                    len({row.key for row in each.rows}),
                    sum(row.value is None for row in each.rows),
                    *map(len, found),
                    verdict,
                )
            )

    def _verdict(
        self, name: str, phase: str, found: Sequence[list[Placed]], wanted: list[Placed]
    ) -> str:
        sides = zip((each.name for each in self._sides), found, strict=True)
        wrong = [(who, rows) for who, rows in sides if rows != wanted]
        for who, rows in wrong:
            self.differences.append(
                f"{name}, {phase}: {who} has, the model has not: {extra(rows, wanted)};"
                f" the model has, {who} has not: {extra(wanted, rows)}"
            )
        return f"not as the model: {', '.join(who for who, _ in wrong)}" if wrong else "the same"


def _comparable(rows: Sequence[Placed], end: int) -> list[Placed]:
    return [each for each in rows if each.offset < end and each.row.key != FILLER_KEY]


def extra(rows: Sequence[Placed], others: Sequence[Placed]) -> list[Placed]:
    """Return some of the rows that are not among the others."""
    known = set(others)
    return [each for each in rows if each not in known][:3]


def _wait(side: Side, topics: Sequence[Written]) -> None:
    """Wait until all that lies below the last record of each topic has been compacted."""
    deadline = time.monotonic() + CLEANED_SECONDS
    while True:
        cleaned = side.cleaned_to()
        left = [
            each.workload.name
            for each in topics
            if cleaned.get(each.workload.name, 0) < len(each.rows) - 1
        ]
        if not left:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{side.name} does not compact {left}\n{side.tail()}")
        time.sleep(0.3)


def table(lines: Sequence[Sequence[object]], titles: Sequence[str] = TITLES) -> str:
    """Return lines as a table for people."""
    texts = [[str(each) for each in line] for line in (titles, *lines)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in texts
    )


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    per_codec: int = option(4, "workloads, and one that switches")


def main(options: Options) -> Result:
    """Run it."""
    workloads = all_workloads(options.seed, options.per_codec)
    with both_sides() as sides:
        oracle = Oracle(sides, workloads, int(time.time() * 1000) - DAY_MS)
        try:
            oracle.run()
        finally:
            print(table(oracle.lines))
    return verdict(len(oracle.lines), oracle.differences)


def verdict(comparisons: int, differences: Sequence[str]) -> Result:
    """The result of comparisons: all differences, and their number."""
    total = f"{comparisons} comparisons, {len(differences)} differences"
    return Result(not differences, "\n".join([*differences, total]))
