"""The records that the tests of real clients send and get, and the abilities a client needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sent:
    """A record before it has an offset."""

    partition: int
    key: bytes | None
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Got:
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Member(Protocol):
    """One member of a consumer group.  Used by one thread."""

    def poll(self) -> list[Got]:
        """Return the records that came within 0.2 s; this call also takes part in rebalances."""
        ...

    def assignment(self) -> set[int]:
        """Return the partitions it holds."""
        ...

    def commit(self) -> bool:
        """Commit the records that poll() returned; False if a rebalance forbids it."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Client(Protocol):
    """A client library."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it can be used."""
        ...

    def produce(self, topic: str, records: Sequence[Sent], codec: str) -> list[int]:
        """Write the records in order; return the offset of each."""
        ...

    def read(self, topic: str, starts: Mapping[int, int], count: int) -> list[Got]:
        """Seek to the starts (partition -> offset) and read `count` records or fail."""
        ...

    def offsets_for_time(
        self, topic: str, partitions: Iterable[int], timestamp_ms: int
    ) -> dict[int, int | None]:
        """Return each partition's first offset with that time or later."""
        ...

    def committed(self, topic: str, group: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the committed offsets; 0 for none."""
        ...

    def member(self, topic: str, group: str) -> Member:
        """Join a group that reads the topic from its start, without auto commit."""
        ...
