"""The open WAL object: batches of many partitions, waiting to become one object.  Pure.

wal_format.py describes the layout.  Batches are opaque here: the caller of append() checks them.
append() keeps a reference and copies nothing; seal() copies each byte once, into a bytearray,
so that base offsets can be patched into the cached copy after the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from ..stores.object_store import Buffer
from .wal_format import (
    HEADER,
    MAJOR_VERSION,
    MINOR_VERSION,
    Slice,
    Source,
    WalIdentity,
    header_bytes,
    tail_bytes,
    tail_size_bytes,
)
from .wal_reader import WalContents, read_wal

__all__ = [
    "MAJOR_VERSION",
    "MINOR_VERSION",
    "OpenWal",
    "PlacedBatch",
    "SealedWal",
    "Slice",
    "Source",
    "WalContents",
    "WalIdentity",
    "read_wal",
]


class PlacedBatch(NamedTuple):
    """The place of one appended batch; token: as given to its append()."""

    topic_id: bytes
    partition: int
    start_byte: int
    size_bytes: int
    record_count: int
    max_timestamp: int
    token: object


_Waiting: TypeAlias = tuple[Buffer, int, int, object]  # batch, record count, max timestamp, token
SourceName: TypeAlias = tuple[int, int]
"""Incarnation and counter of an inlined object."""


@dataclass(slots=True)
class SealedWal:
    """A closed WAL object: batches in object order, within a partition in order of append().

    sources: see WalContents.
    """

    identity: WalIdentity
    body: bytearray
    slices: list[Slice]
    batches: list[PlacedBatch]
    sources: tuple[Source, ...] = ()


@dataclass(slots=True)
class OpenWal:
    """Collects batches; the order of append() is the order of offsets within a partition.

    size_bytes counts the batches alone.
    """

    size_bytes: int = 0
    batch_count: int = 0
    _by_partition: dict[tuple[bytes, int], list[_Waiting]] = field(
        default_factory=dict[tuple[bytes, int], list[_Waiting]]
    )

    def append(
        self,
        topic_id: bytes,
        partition: int,
        batch: Buffer,
        record_count: int,
        max_timestamp: int,
        token: object,
    ) -> None:
        """Add one batch (bytes, one-dimensional); it must not change before seal()."""
        waiting = self._by_partition.get((topic_id, partition))
        if waiting is None:
            waiting = self._by_partition[topic_id, partition] = []
        waiting.append((batch, record_count, max_timestamp, token))
        self.size_bytes += len(batch)
        self.batch_count += 1

    def seal(
        self, identity: WalIdentity, *, source_of: Callable[[object], SourceName] | None = None
    ) -> SealedWal:
        """Return the object.  Append nothing after this.

        source_of: for an object of batches that were committed before, all as those of inlined
        objects (decision 49): returns that object, by the token of append().
        """
        partitions = sorted(self._by_partition.items())
        batches = self._place(partitions)
        sources = _sources(batches, source_of) if source_of is not None else ()
        header = header_bytes(identity)
        body = self._joined(header, partitions, tail_size_bytes(len(partitions), len(sources)))
        slices = _slices(body, partitions)
        footer_position = HEADER.size + self.size_bytes
        body[footer_position:] = tail_bytes(header, footer_position, slices, sources)
        return SealedWal(identity, body, slices, batches, sources)

    def _place(
        self, partitions: list[tuple[tuple[bytes, int], list[_Waiting]]]
    ) -> list[PlacedBatch]:
        placed: list[PlacedBatch] = []
        start_byte = HEADER.size
        for (topic_id, partition), waiting in partitions:
            for entry in waiting:
                size_bytes = len(entry[0])
                place = (topic_id, partition, start_byte, size_bytes)
                placed.append(PlacedBatch._make(place + entry[1:]))
                start_byte += size_bytes
        return placed

    def _joined(
        self,
        header: bytes,
        partitions: list[tuple[tuple[bytes, int], list[_Waiting]]],
        tail_size: int,
    ) -> bytearray:
        """Join header, batches, and room for the tail, which follows from the slices' CRCs."""
        parts: list[Buffer] = [header]
        for _, waiting in partitions:
            parts += [batch for batch, *_ in waiting]
        parts.append(bytes(tail_size))
        return bytearray().join(parts)


def _sources(
    batches: Iterable[PlacedBatch], source_of: Callable[[object], SourceName]
) -> tuple[Source, ...]:
    """Return the sources of all bytes, in object order; neighbours of one source are one row."""
    rows: list[Source] = []
    for batch in batches:
        incarnation, counter = source_of(batch.token)
        length = batch.size_bytes
        if rows and rows[-1][:2] == (incarnation, counter):
            length += rows.pop().length
        rows.append(Source(incarnation, counter, length))
    return tuple(rows)


def _slices(
    body: bytearray, partitions: list[tuple[tuple[bytes, int], list[_Waiting]]]
) -> list[Slice]:
    slices: list[Slice] = []
    start_byte = HEADER.size
    with memoryview(body) as view:
        for (topic_id, partition), waiting in partitions:
            size_bytes = sum([len(entry[0]) for entry in waiting])
            timestamps = [entry[2] for entry in waiting]
            slices.append(
                Slice(
                    topic_id,
                    partition,
                    start_byte,
                    size_bytes,
                    sum([entry[1] for entry in waiting]),
                    min(timestamps),
                    max(timestamps),
                    crc32c(view[start_byte : start_byte + size_bytes]),
                )
            )
            start_byte += size_bytes
    return slices
