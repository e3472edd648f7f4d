"""Walks over the records of a source's batches, as produce does with those of clients.  Pure.

Everything that Kafka may have on its disks passes: gaps that compaction left in the offsets;
batches without records; control batches; LogAppendTime; a delete horizon, from which the records'
deltas count (KIP-534).  A record with a wrong length, or beyond the batch's last offset, also makes
consumers of the source fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tidegate_protocol.batch_walk import walk_batch
from tidegate_protocol.batches import HEADER_BYTES, BatchHeader, read_header
from tidegate_protocol.errors import InvalidBatch, InvalidReason

from .fetched_batches import BadBatch, FetchedBatch

DECOMPRESSED_BYTES: Final = 1 << 30
"""The most bytes that a codec may make of one batch by default.  Brokers have no bound, and a walk
takes no memory for it, so this bounds time: about a second.  Batches of together as much are enough
for one call.
"""


def walked_batches(
    batches: Sequence[FetchedBatch],
    max_bytes: int,
    should_stop: Callable[[], bool] | None = None,
) -> list[FetchedBatch]:
    """Return the batches before the first malformed one, with the times of their records.

    The next fetch then begins with the malformed batch.  After DECOMPRESSED_BYTES of records the
    walk ends as well, since a walk that takes too long would be repeated for ever.

    Args:
      max_bytes: of the records of a compressed batch.
      should_stop: asked between pieces of a compressed batch.

    Raises:
      BadBatch: the first batch is malformed, or too large.
    """
    found: list[FetchedBatch] = []
    size_bytes = 0
    for each in batches:
        if size_bytes >= DECOMPRESSED_BYTES:
            break
        try:
            walked, size = _walked(each, max_bytes, should_stop)
        except InvalidBatch as error:
            if found:
                break
            text = f"offset {each.mirrored.base_offset}: the batch is malformed: {error}"
            raise BadBatch(text) from error
        found.append(walked)
        size_bytes += size
    return found


def _walked(
    batch: FetchedBatch, max_bytes: int, should_stop: Callable[[], bool] | None
) -> tuple[FetchedBatch, int]:
    """Return the batch, and the bytes of its records, decompressed."""
    header = read_header(batch.data)
    newest, size_bytes = _newest(batch, header, max_bytes, should_stop)
    facts = (batch.facts[0], newest, *batch.facts[2:])
    # If compaction removed all records of a batch, the header keeps their largest time stamp.
    is_walked = newest == header.max_timestamp or not header.record_count
    return batch._replace(facts=facts, is_walked=is_walked), size_bytes


def _newest(
    batch: FetchedBatch,
    header: BatchHeader,
    max_bytes: int,
    should_stop: Callable[[], bool] | None,
) -> tuple[int, int]:
    """Walk; return the largest time stamp of the records, -1 if there is none, and their bytes."""
    if not header.record_count and len(batch.data) == HEADER_BYTES:
        return -1, 0
    walk = walk_batch(batch.data, header, max_bytes=max_bytes, should_stop=should_stop)
    if walk.next_offset > 2 * (header.last_offset_delta + 1):
        text = "a record has an offset beyond the last one that the header says"
        raise InvalidBatch(InvalidReason.INVALID_RECORD, text)
    newest = header.max_timestamp if header.is_log_append_time else walk.max_timestamp
    return newest, walk.size_bytes
