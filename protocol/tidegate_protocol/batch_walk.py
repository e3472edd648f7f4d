"""Walks over the records of a batch, also compressed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .batches import HEADER_BYTES, BatchHeader, framed
from .compression import Codec, compressed_pieces, pieces
from .errors import InvalidBatch, InvalidReason
from .primitives import Buffer
from .record_walk import RecordWalk


def walk_batch(
    batch: memoryview,
    header: BatchHeader,
    *,
    max_bytes: int,
    should_stop: Callable[[], bool] | None = None,
    above: int = -1,
    least_delta: int = 0,
) -> RecordWalk:
    """Walk over all records of the batch with this header.

    Except for raw snappy, memory does not depend on the decompressed size.

    Args:
      max_bytes: the size limit of a compressed batch's records.
      should_stop: asked between pieces of a compressed batch.
      above, least_delta: see RecordWalk.

    Raises:
      InvalidBatch: the records are malformed or too large (INVALID_RECORD), or cannot be
          decompressed (CORRUPT).
    """
    walk = RecordWalk(header.record_count, header.base_timestamp, above, least_delta)
    records = batch[HEADER_BYTES:]
    if header.codec == Codec.NONE:
        walk.feed(records)
    else:
        found = pieces(records, header.codec, max_bytes=max_bytes)
        for piece in _until_stopped(found, should_stop):
            walk.feed(piece)
    walk.finish()
    return walk


def walked_records(
    batch: memoryview, header: BatchHeader, *, max_bytes: int
) -> tuple[bytes, RecordWalk]:
    """Return the records of a batch, decompressed, that a walk accepts, and the walk.

    A walk looks at each piece before the next one is decompressed.

    Raises:
      InvalidBatch: as walk_batch().
    """
    walk = RecordWalk(header.record_count, header.base_timestamp)
    found: list[Buffer] = []
    for piece in pieces(batch[HEADER_BYTES:], header.codec, max_bytes=max_bytes):
        walk.feed(piece)
        found.append(piece)
    walk.finish()
    return bytes(found[0]) if len(found) == 1 else b"".join(found), walk


def recompressed(
    batch: memoryview,
    header: BatchHeader,
    *,
    codec: int,
    level: int | None,
    max_bytes: int,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Return the batch with another codec, and its header.  The records stay as they are.

    should_stop: asked between pieces of both codecs.

    Raises:
      InvalidBatch: as pieces(), or the work was stopped.
    """
    found = pieces(batch[HEADER_BYTES:], header.codec, max_bytes=max_bytes)
    raw = b"".join(_until_stopped(found, should_stop))
    payload = compressed_pieces(raw, codec, level=level)
    return framed(header, b"".join(_until_stopped(payload, should_stop)), codec=codec)


def _until_stopped(
    found: Iterable[Buffer], should_stop: Callable[[], bool] | None
) -> Iterator[Buffer]:
    for piece in found:
        yield piece
        if should_stop is not None and should_stop():
            raise InvalidBatch(InvalidReason.INVALID_RECORD, "no request waits for the records")
