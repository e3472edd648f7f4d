"""2,000 cases: a topic, a codec, and the changes of a batch.  Pure; the same for a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from mutated_batches.draft import HOUR_MS, Draft, RawRecord
from mutated_batches.header_mutations import HEADERS
from mutated_batches.record_mutations import RARE, RECORDS, Mutation
from mutated_batches.stream_mutations import OF_CODEC, STREAMS
from tidegate_protocol.compression import Codec

SEED: Final = 37
CASES: Final = 2_000
CODECS: Final = tuple(each.value for each in Codec)
PLAIN: Final = "create"
# Many records have old time stamps, so retention must not delete them while the cases run.
_KEPT: Final = {"retention.ms": "-1"}
TOPICS: Final[dict[str, dict[str, str]]] = {
    PLAIN: _KEPT,
    "append": _KEPT | {"message.timestamp.type": "LogAppendTime"},
    "compacted": _KEPT | {"cleanup.policy": "compact"},
    "after": _KEPT | {"message.timestamp.after.max.ms": "600000"},
    "before": _KEPT | {"message.timestamp.before.max.ms": "7200000"},
    "zstd": _KEPT | {"compression.type": "zstd"},
    "uncompressed": _KEPT | {"compression.type": "uncompressed"},
    "append-gzip": _KEPT | {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"},
}
_TIMED: Final = tuple(each for each in RECORDS if "time" in each or each.startswith("a record "))
_TIMED_HEADERS: Final = tuple(each for each in HEADERS if " time" in each or "| 0x" in each)
_KEYS: Final = ("no key", "no keys", "an empty key", "no value")


@dataclass(frozen=True, slots=True)
class Case:
    """One batch.  changes: names of mutations, in the order in which they are made."""

    number: int
    topic: str
    codec: int
    changes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number} {self.topic} {Codec(self.codec).name}: {', '.join(self.changes)}"

    @property
    def partition(self) -> int:
        """Return the partition, which no other case uses."""
        return _partitions()[self.number]

    def draft(self, now_ms: int) -> Draft:
        """Return the draft of its batch, with all changes."""
        rng = Random(f"{SEED} {self.number}")
        draft = Draft(rng, now_ms, self.codec)
        draft.base_timestamp = now_ms - HOUR_MS
        draft.records = [_record(rng, number) for number in range(rng.randint(2, 5))]
        known = mutations(self.codec)
        for each in self.changes:
            known[each](draft)
        return draft


def _record(rng: Random, number: int) -> RawRecord:
    headers: list[tuple[bytes | None, bytes | None]] = []
    if rng.random() < 0.3:
        headers.append((b"name", b"value of a header"))
    value = rng.randbytes(rng.randint(4, 24))
    return RawRecord(1000 * number, number, f"key {number}".encode(), value, headers)


@cache
def mutations(codec: int) -> dict[str, Mutation]:
    """Return all changes that can be made to a batch of a codec."""
    known = {**HEADERS, **RECORDS, **RARE}
    if codec != Codec.NONE:
        known |= {**STREAMS, **OF_CODEC[codec]}
    return known


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases."""
    found = [Case(number, *each) for number, each in enumerate(_each_alone())]
    rng = Random(SEED)
    while len(found) < CASES:
        found.append(Case(len(found), *_drawn(rng)))
    return tuple(found)


@cache
def _partitions() -> tuple[int, ...]:
    used = dict.fromkeys(TOPICS, 0)
    found: list[int] = []
    for case in cases():
        found.append(used[case.topic])
        used[case.topic] += 1
    return tuple(found)


def partitions_of(topic: str) -> int:
    """Return how many partitions a topic needs."""
    return sum(each.topic == topic for each in cases())


def _each_alone() -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield each change alone, with each codec; for other topics, the changes of times and keys.

    A change of RARE comes with three codecs only.
    """
    for codec in CODECS:
        for change in mutations(codec):
            if change not in RARE or codec in (Codec.NONE, Codec.ZSTD, Codec.GZIP):
                yield PLAIN, codec, (change,)
    for topic in TOPICS:
        for codec in (Codec.NONE.value, Codec.LZ4.value):
            for change in _TIMED_BY_TOPIC[topic]:
                yield topic, codec, (change,)


_TIMED_BY_TOPIC: Final[dict[str, tuple[str, ...]]] = {
    PLAIN: (),
    "append": ("as it should be", *_TIMED, *_TIMED_HEADERS),
    "compacted": ("as it should be", *_KEYS, "key size -2", "key size -1"),
    "after": _TIMED,
    "before": _TIMED,
    "zstd": ("as it should be",),
    "uncompressed": ("as it should be",),
    "append-gzip": ("as it should be",),
}


def _drawn(rng: Random) -> tuple[str, int, tuple[str, ...]]:
    """Draw one to three changes.  Changes of a codec's stream come last."""
    topic = rng.choice(list(TOPICS))
    codec = rng.choice(CODECS)
    tables: list[Callable[[], str]] = [lambda: rng.choice(list(RECORDS))]
    tables.append(lambda: rng.choice(list(HEADERS)))
    if codec != Codec.NONE:
        streams = [*STREAMS, *OF_CODEC[codec]]
        tables.append(lambda: rng.choice(streams))
    count = rng.choice((1, 1, 1, 2, 2, 3))
    picked = sorted(rng.choices(range(len(tables)), k=count))
    return topic, codec, tuple(dict.fromkeys(tables[each]() for each in picked))
