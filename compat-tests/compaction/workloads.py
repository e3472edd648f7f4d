"""Random keyed records, and an independent model of the records that stay.  No I/O here."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeAlias

Header: TypeAlias = tuple[str, str | bytes | None]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FILLER_KEY = b"\xfffiller"
# The distance between the time stamps of two neighbouring records.  Kafka begins a segment where
# this distance is at least segment.ms.
STEP_MS = 20
SEGMENT_MS = 1_000
LEAP_MS = 5 * SEGMENT_MS
FILLER_BYTES = 12_000


class Row(NamedTuple):
    """A record; the offset is its place."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()


class Placed(NamedTuple):
    """A record as it is read."""

    offset: int
    row: Row


@dataclass(frozen=True, slots=True)
class Workload:
    """The records written to one topic of one partition.

    keys: the number of different keys, about.  batch: the most records in a batch.
    keeps_tombstones: tombstones stay for a week; else for 0.1 s.  is_switched: the topic's policy
    is delete, compact, delete and compact again.
    """

    name: str
    seed: int
    codec: str
    records: int
    keys: int
    tombstones: float
    batch: int
    keeps_tombstones: bool
    is_switched: bool = False

    def config(self) -> dict[str, str]:
        """Return the topic's settings, for both brokers."""
        return {
            "cleanup.policy": "delete" if self.is_switched else "compact",
            "retention.ms": "-1",
            "segment.ms": str(SEGMENT_MS),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "604800000" if self.keeps_tombstones else "100",
        }

    def rows(self, part: int, start_ms: int) -> list[Row]:
        """Return the records of a part.  start_ms: the first time stamp."""
        rng = Random(self.seed * 1_000 + part)
        pool = [_key(rng, number) for number in range(self.keys)]
        return [self._row(rng, pool, start_ms + number * STEP_MS) for number in range(self.records)]

    def _row(self, rng: Random, pool: list[bytes], timestamp_ms: int) -> Row:
        # A few keys come often, as in real topics.
        key: bytes | None = pool[int(len(pool) * rng.random() ** 2)]
        if self.is_switched and rng.random() < 0.03:
            key = None
        value: bytes | None = None
        if rng.random() >= self.tombstones:
            words = rng.randbytes(rng.choice([0, 1, 7])) * rng.randint(1, 20)
            value = words + rng.randbytes(rng.choice([0, 3, 30]))
        headers = tuple(_header(rng) for _ in range(rng.choice([0, 0, 0, 1, 3])))
        return Row(key, value, timestamp_ms, headers)


def _key(rng: Random, number: int) -> bytes:
    if number == 0:
        return b""
    return b"%d:" % number + rng.randbytes(rng.choice([0, 4, 16, 200]))


def _header(rng: Random) -> Header:
    return f"h{rng.randrange(5)}", rng.choice([None, b"", rng.randbytes(9)])


def filler(number: int, timestamp_ms: int) -> Row:
    """Return a record that ends Kafka's segment, and makes the topic dirty enough for a round."""
    return Row(FILLER_KEY, Random(number).randbytes(FILLER_BYTES), timestamp_ms)


def survivors(written: list[Row], *, compacted_below: int, tombstones_below: int) -> list[Placed]:
    """Return the records that must remain: below compacted_below the newest of each key, then all.

    tombstones_below: tombstones below this offset are removed, too.
    """
    newest = {row.key: at for at, row in enumerate(written[:compacted_below])}
    left: list[Placed] = []
    for at, row in enumerate(written):
        if at < compacted_below:
            if row.key is None or newest[row.key] != at:
                continue
            if row.value is None and at < tombstones_below:
                continue
        left.append(Placed(at, row))
    return left


def all_workloads(seed: int, per_codec: int) -> list[Workload]:
    """Draw `per_codec` workloads for each codec, and one more whose topic changes its policy."""
    rng = Random(seed)
    found: list[Workload] = []
    for codec in CODECS:
        for number in range(per_codec + 1):
            is_switched = number == per_codec
            found.append(
                Workload(
                    f"{codec}-{'switched' if is_switched else number}",
                    rng.randrange(1 << 30),
                    codec,
                    records=rng.choice([300, 900, 2500]),
                    keys=rng.choice([3, 40, 400]),
                    tombstones=rng.choice([0.05, 0.3, 0.7]),
                    batch=rng.choice([1, 7, 50, 500]),
                    keeps_tombstones=(number + len(found)) % 2 == 0,
                    is_switched=is_switched,
                )
            )
    return found
