"""Random transactions over keyed records, and which records stay.  No I/O here.

Three producers write to one partition, and their transactions overlap.  A marker takes an offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

from compaction.workloads import CODECS, SEGMENT_MS, Placed, Row, Workload

PRODUCERS = 3
STEPS = 60


class Write(NamedTuple):
    """A producer writes records; if it has no open transaction, it begins one."""

    producer: int
    rows: tuple[Row, ...]


class End(NamedTuple):
    """A producer ends its open transaction."""

    producer: int
    is_committed: bool


Step: TypeAlias = Write | End


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of one topic of one partition.

    keyed: draws the records, and has the topic's settings.  is_compacted: else its policy is
    delete, and the pipeline only merges it.
    """

    keyed: Workload
    is_compacted: bool

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self.keyed.name

    def config(self) -> dict[str, str]:
        """Return the topic's settings, for both brokers."""
        policy = "compact" if self.is_compacted else "delete"
        return self.keyed.config() | {"cleanup.policy": policy, "segment.ms": str(SEGMENT_MS)}

    def steps(self, start_ms: int) -> list[Step]:
        """Return the steps; at least one transaction stays open."""
        rng = Random(self.keyed.seed)
        rows = iter(self.keyed.rows(0, start_ms))
        is_open: set[int] = set()
        found: list[Step] = []
        for _ in range(STEPS):
            producer = rng.randrange(PRODUCERS)
            if producer in is_open and rng.random() < 0.35:
                found.append(End(producer, rng.random() < 0.6))
                is_open.remove(producer)
            elif drawn := tuple(_take(rows, rng.choice([1, 2, 5, 20]))):
                found.append(Write(producer, drawn))
                is_open.add(producer)
        if not is_open:
            found.append(Write(0, tuple(_take(rows, 2))))
        return found

    def last_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Return the ends of the transactions that steps leave open."""
        rng = Random(self.keyed.seed + 1)
        is_open: dict[int, None] = {}
        for step in steps:
            if isinstance(step, Write):
                is_open[step.producer] = None
            else:
                del is_open[step.producer]
        return [End(producer, rng.random() < 0.5) for producer in is_open]


def _take(rows: Iterator[Row], count: int) -> Iterator[Row]:
    for _, row in zip(range(count), rows, strict=False):
        yield row


@dataclass(slots=True)
class Expected:
    """The content of a topic, by the rules of Kafka.

    rows: a record for each offset; None for a marker.
    """

    rows: list[Row | None] = field(default_factory=list[Row | None])
    _aborted: set[int] = field(default_factory=set[int])
    _open: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def write(self, producer: int, rows: Sequence[Row]) -> list[int]:
        """Add records of a transaction; return their offsets."""
        offsets = list(range(len(self.rows), len(self.rows) + len(rows)))
        self._open.setdefault(producer, []).extend(offsets)
        self.rows += rows
        return offsets

    def add(self, rows: Sequence[Row]) -> None:
        """Add records outside of transactions."""
        self.rows += rows

    def end(self, producer: int, *, is_committed: bool) -> None:
        """Add a marker."""
        offsets = self._open.pop(producer)
        if not is_committed:
            self._aborted.update(offsets)
        self.rows.append(None)

    @property
    def aborted(self) -> int:
        """Return how many records were aborted."""
        return len(self._aborted)

    def all_rows(self) -> list[Placed]:
        """Return what a reader of uncommitted records gets, before any compaction."""
        return [Placed(at, row) for at, row in enumerate(self.rows) if row is not None]

    def committed(self) -> list[Placed]:
        """Return what a reader of committed records gets, before any compaction."""
        stable = min((offsets[0] for offsets in self._open.values()), default=len(self.rows))
        return [
            each
            for each in self.all_rows()
            if each.offset < stable and each.offset not in self._aborted
        ]

    def survivors(self, *, keeps_tombstones: bool) -> list[Placed]:
        """Return what compaction leaves to any reader; no transaction may be open."""
        committed = self.committed()
        newest = {each.row.key: each.offset for each in committed}
        return [
            each
            for each in committed
            if newest[each.row.key] == each.offset
            and (keeps_tombstones or each.row.value is not None)
        ]


def all_transactions(seed: int) -> list[Transactions]:
    """Draw two topics for each codec that are compacted, and one that is not."""
    rng = Random(seed)
    return [
        Transactions(_keyed(rng, codec, kind, keeps_tombstones=kind != "compact-2"), kind != "keep")
        for codec in CODECS
        for kind in ("compact-1", "compact-2", "keep")
    ]


def _keyed(rng: Random, codec: str, kind: str, *, keeps_tombstones: bool) -> Workload:
    return Workload(
        f"transactions-{codec}-{kind}",
        rng.randrange(1 << 30),
        codec,
        records=1_000,
        keys=rng.choice([3, 20, 100]),
        tombstones=rng.choice([0.05, 0.3]),
        batch=rng.choice([1, 7, 50]),
        keeps_tombstones=keeps_tombstones,
    )
