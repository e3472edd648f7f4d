"""Records that can be made again from their place, so that any reader can check them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeAlias

BASE_MS = 1_700_000_000_000
POOL_BYTES = 1 << 20
SMALLEST = 700
LARGEST = 1_400
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


Headers: TypeAlias = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Expected:
    """The content of a record."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers | dict[str, str | bytes | None] | None


class Records:
    """Makes the record of a partition and offset.  Half of each value can be compressed."""

    def __init__(self) -> None:
        rng = Random(7)
        half = POOL_BYTES // 2
        words = [rng.randbytes(3).hex().encode() for _ in range(200)]
        text = b" ".join(rng.choice(words) for _ in range(half // 6))
        self._pool = rng.randbytes(half) + text

    def of(self, partition: int, offset: int) -> Expected:
        """Return the record."""
        mixed = (partition * 1_000_003 + offset) * 2_654_435_761 % 2**32
        size = SMALLEST + mixed % (LARGEST - SMALLEST)
        start = mixed % (len(self._pool) - LARGEST)
        value = b"%d/%d " % (partition, offset) + self._pool[start : start + size]
        key = None if offset % 7 == 0 else b"key-%d" % (mixed % 1000)
        headers: Headers | None = (
            [("place", b"%d" % offset), ("empty", b"")] if offset % 10 == 0 else None
        )
        return Expected(key, value, BASE_MS + offset, headers)


def codec_of(partition: int) -> str:
    """Return the codec that a partition is written with."""
    return CODECS[partition % len(CODECS)]
