"""The batches of a fetch from the source, checked, as the mirror writes them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tidegate_protocol.batches import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    crc_matches,
    last_sequence,
    read_header,
)
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import decode_records

from ..rules.records.mirrored_batches import (
    ABORT,
    COMMIT,
    PLAIN,
    TRANSACTIONAL,
    MirroredBatch,
)

_NO_FLAGS: Final = 0
# The key of a marker: version and type (KIP-98).  Later versions may add fields.
_MARKER_KEY: Final = Struct(">hh")
_MARKERS: Final = {0: ABORT, 1: COMMIT}
MAX_MARKER_BYTES: Final = 1 << 16


class BadBatch(Exception):
    """The source's bytes cannot be mirrored.  The text says why, for a person."""


class FetchedBatch(NamedTuple):
    """A batch of the source.

    facts: BatchFacts from record_count on.  is_walked: its records were walked, and its header says
      the largest of their time stamps.
    """

    data: memoryview
    facts: tuple[int, ...]
    mirrored: MirroredBatch
    is_walked: bool = False


def fetched_batches(
    records: memoryview, position: int, *, after: int | None = None
) -> list[FetchedBatch]:
    """Return the whole batches of a partition's fetch from `position` on.

    The last batch of a fetch may be cut short; the next fetch then returns it again.  The batches
    before a bad one are returned; the next fetch then begins with the bad one.

    Args:
      after: the end of the partition, which the first batch follows; None: position.

    Raises:
      BadBatch: a batch is damaged, is of an older format, or begins before the end.
    """
    found: list[FetchedBatch] = []
    try:
        for each in _read(records, position, position if after is None else after):
            found.append(each)
    except BadBatch:
        if not found:
            raise
    return found


def _read(records: memoryview, position: int, end: int) -> Iterator[FetchedBatch]:
    at, size = 0, len(records)
    while size - at > MAGIC_POSITION:
        _check_magic(records[at + MAGIC_POSITION], position)
        if size - at < HEADER_BYTES:
            return
        header = read_header(records, at)
        stop = at + header.size_bytes
        if header.size_bytes < HEADER_BYTES:
            raise BadBatch(f"offset {header.base_offset}: the batch's length is wrong")
        if stop > size:
            return
        data = records[at:stop]
        at = stop
        if header.last_offset < position:
            continue  # a fetch begins with the batch that holds its offset, or with one before it
        if header.base_offset < end:
            raise BadBatch(f"offset {end}: the batch at {header.base_offset} begins before it")
        if not crc_matches(data, 0, header):
            raise BadBatch(f"offset {header.base_offset}: the CRC of the batch is wrong")
        yield _fetched(data, header, end)
        end = header.last_offset + 1


def _check_magic(magic: int, position: int) -> None:
    if magic != MAGIC:
        raise BadBatch(
            f"offset {position}: record format {magic}, from before Kafka 0.11, cannot be mirrored;"
            " let its records expire, or write the topic again with a newer producer"
        )


def _fetched(data: memoryview, header: BatchHeader, end: int) -> FetchedBatch:
    mirrored = MirroredBatch(
        end,
        header.base_offset,
        header.last_offset + 1,
        header.leader_epoch,
        _kind(data, header),
    )
    return FetchedBatch(data, _facts(header), mirrored)


def _facts(header: BatchHeader) -> tuple[int, ...]:
    first = header.base_sequence
    offsets = header.last_offset_delta + 1  # compaction may have removed records
    last = last_sequence(first, offsets) if first >= 0 else first
    return (
        header.record_count,
        header.max_timestamp,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        first,
        last,
        _NO_FLAGS,
    )


def _kind(data: memoryview, header: BatchHeader) -> int:
    # Compaction leaves empty batches for the sequences of their producers. Compaction skips open
    # transactions, so the transaction of an empty batch has ended, and its marker may be gone.
    if not header.is_transactional or header.record_count == 0:
        return PLAIN
    if not header.is_control:
        return TRANSACTIONAL
    try:
        [record] = decode_records(data, max_decompressed_bytes=MAX_MARKER_BYTES)
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        return _MARKERS[kind]
    except (InvalidBatch, StructError, KeyError, ValueError) as error:
        text = f"offset {header.base_offset}: a control batch of an unknown kind ({error})"
        raise BadBatch(text) from error
