"""Transactions beside Apache Kafka: the records that readers get from merged and compacted topics.

    compat-tests/run compaction-transactions --seed 1

The same transactions of three producers go to Apache Kafka and to a gateway with `tidegate pipeline
run`.  Readers of committed and of uncommitted records are compared with each other and with a
model: while transactions are open, after all have ended and the gateway's records are in segments,
and after both sides have compacted.  Exit status 1 when there is a difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal, TypeAlias

from runner.result import Result
from runner.shared import Seeded

from compaction.oracle import ROUNDS, extra, table, verdict
from compaction.sides import (
    Kafka,
    Side,
    Tidegate,
    TransactionalWriter,
    both_sides,
    create,
    read,
    write,
)
from compaction.transactional import Expected, Step, Transactions, Write, all_transactions
from compaction.workloads import FILLER_KEY, LEAP_MS, Placed, filler

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]

AT_ONCE: Final = 4
WAIT_SECONDS: Final = 180.0
BETWEEN_SECONDS: Final = 0.5
TITLES: Final = ("topic", "phase", "offsets", "aborted", "isolation", "Kafka", "Tidegate", "result")
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")


@dataclass(slots=True)
class Topic:
    """A topic, what it should hold, and the steps so far."""

    plan: Transactions
    expected: Expected = field(default_factory=Expected)
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def next_ms(self) -> int:
        """Return a time stamp that begins another segment.  Markers have the broker's time."""
        stamps = [each.timestamp_ms for each in self.expected.rows if each is not None]
        return LEAP_MS + max(*stamps, int(time.time() * 1000))

    def play(self, steps: Sequence[Step]) -> None:
        """Note steps in the model."""
        for step in steps:
            if isinstance(step, Write):
                self.expected.write(step.producer, step.rows)
            else:
                self.expected.end(step.producer, is_committed=step.is_committed)
        self.steps += steps


class Comparison:
    """See the module's head.  differences: sentences."""

    def __init__(self, kafka: Kafka, gateway: Tidegate, plans: Sequence[Transactions]) -> None:
        self._sides: Final[tuple[Side, ...]] = (kafka, gateway)
        self._gateway: Final = gateway
        self._topics: Final = [Topic(each) for each in plans]
        self._fillers: Final = count(1)
        self.lines: Final[list[tuple[object, ...]]] = []
        self.differences: Final[list[str]] = []

    def run(self) -> None:
        """Write, wait, compare."""
        for side in self._sides:
            create(side, [each.plan for each in self._topics])
        start_ms = int(time.time() * 1000)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda each: self._play(each, start_ms), self._topics))
        kept = [each for each in self._topics if not each.plan.is_compacted]
        _wait(self._gateway.name, self._gateway.merged_to, kept)
        self._compare_whole(kept, "in segments")
        compacted = [each for each in self._topics if each.plan.is_compacted]
        self._let_clean(compacted)
        for topic in compacted:
            end = len(topic.expected.rows) - 1
            is_kept = topic.plan.keyed.keeps_tombstones
            wanted = topic.expected.survivors(keeps_tombstones=is_kept)
            for isolation in ISOLATIONS:
                self._compare(topic, "compacted", isolation, wanted, end)

    def _play(self, topic: Topic, start_ms: int) -> None:
        """Play a topic's steps on both sides; compare while transactions are open."""
        steps = topic.plan.steps(start_ms)
        last = topic.plan.last_steps(steps)
        writers = [TransactionalWriter(side, topic.plan.keyed) for side in self._sides]
        for writer in writers:
            writer.play(steps)
        topic.play(steps)
        if not topic.plan.is_compacted:
            self._compare_whole([topic], "open")
        for writer in writers:
            writer.play(last)
            writer.close()
        topic.play(last)

    def _let_clean(self, topics: Sequence[Topic]) -> None:
        for _ in range(ROUNDS):
            time.sleep(BETWEEN_SECONDS)
            for topic in topics:
                self._fill(topic)
            for side in self._sides:
                _wait(side.name, side.cleaned_to, topics)

    def _fill(self, topic: Topic) -> None:
        """Begin two segments of Kafka's."""
        next_ms, first = topic.next_ms, len(topic.expected.rows)
        rows = [filler(next(self._fillers), next_ms + LEAP_MS * number) for number in range(2)]
        for side in self._sides:
            write(side, topic.plan.keyed, rows, first)
        topic.expected.add(rows)

    def _compare_whole(self, topics: Sequence[Topic], phase: str) -> None:
        for topic in topics:
            end, expected = len(topic.expected.rows), topic.expected
            self._compare(topic, phase, "read_committed", expected.committed(), end)
            self._compare(topic, phase, "read_uncommitted", expected.all_rows(), end)

    def _compare(
        self, topic: Topic, phase: str, isolation: Isolation, wanted: Sequence[Placed], end: int
    ) -> None:
        name = topic.plan.name
        want = _comparable(wanted, end)
        found = [_comparable(read(side, name, isolation), end) for side in self._sides]
        is_wrong = False
        for side, rows in zip(self._sides, found, strict=True):
            if rows != want:
                is_wrong = True
                self.differences.append(
                    f"{name}, {phase}, {isolation}: {side.name} has, the model has not:"
                    f" {extra(rows, want)}; the model has, it has not: {extra(want, rows)}"
                )
        result = "differs" if is_wrong else "the same"
        figures = (len(topic.expected.rows), topic.expected.aborted, isolation, *map(len, found))
        self.lines.append((name, phase, *figures, result))


def _comparable(rows: Sequence[Placed], end: int) -> list[Placed]:
    return [each for each in rows if each.offset < end and each.row.key != FILLER_KEY]


def _wait(name: str, reached: Callable[[], dict[str, int]], topics: Sequence[Topic]) -> None:
    """Wait until all below the last record of each topic has been merged or compacted."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        now = reached()
        ends = {each.plan.name: len(each.expected.rows) - 1 for each in topics}
        left = [topic for topic, end in ends.items() if now.get(topic, 0) < end]
        if not left:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} does not get to the end of {left}")
        time.sleep(0.3)


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""


def main(options: Options) -> Result:
    """Run it."""
    with both_sides() as (kafka, gateway):
        comparison = Comparison(kafka, gateway, all_transactions(options.seed))
        try:
            comparison.run()
        finally:
            print(table(comparison.lines, TITLES))
    return verdict(len(comparison.lines), comparison.differences)
