"""The records that compaction may remove from a partition, and those that it must have removed.

This code is independent: it shares only the codec of records with the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate_coordination.state.records.cleanings import Cleanings
from tidegate_protocol.records import Record, decode_records

from .settled_batches import Fields, settled, transactions_in

_MAX_BYTES = 1 << 24
_COUNT_AT, _LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 12, 1, 4, 5, 8


class NotCompacted(Exception):
    """Compaction left a wrong result; the text says which."""


def horizon(cleanings: Cleanings, log_time_ms: int, retention_ms: int) -> int:
    """Return the offset below which tombstones may be removed."""
    old = [each.end_offset for each in cleanings if log_time_ms - each.log_time_ms >= retention_ms]
    return max(old, default=0)


def check_compacted(
    before: Sequence[Fields], after: Sequence[Fields], partition: Sequence[Fields], below: int
) -> None:
    """Compare the records of a range with those of its parents.

    Args:
      partition: all records that were live before.  below: older tombstones may be removed.

    Raises:
      NotCompacted: the result is wrong.
    """
    had = {each.header[0]: each for each in before}
    for each in after:
        _check_framing(had.get(each.header[0]), each)
    _check_markers(before, after, below)
    kept = {record.offset: record for record in _records(settled(after, partition))}
    every = _records(settled(partition, partition))
    newest = {record.key: record.offset for record in every}
    for record in _records(settled(before, partition)):
        if record.offset in kept:
            if kept.pop(record.offset) != record:
                raise NotCompacted(f"the record at {record.offset} changed")
        elif record.key is not None and newest[record.key] == record.offset:
            _check_tombstone(record, every, below)
    if kept:
        raise NotCompacted(f"records at {sorted(kept)} come from nowhere")


def check_clean(partition: Sequence[Fields], end_offset: int) -> None:
    """Check that each key occurs once below the end of a round.

    Raises:
      NotCompacted: a key occurs twice.
    """
    seen: dict[bytes | None, int] = {}
    for each in transactions_in(partition):
        is_aborted = each.end is not None and not each.is_committed
        if is_aborted and any(_has_records(batch, end_offset) for batch in each.batches):
            text = f"records of {each.batches[0].header} are left, of an aborted transaction"
            raise NotCompacted(f"{text}, after a round up to {end_offset}")
    for record in _records(settled(partition, partition)):
        if record.offset < end_offset:
            if record.key in seen or record.key is None:
                text = f"key {record.key!r} at {record.offset} and {seen.get(record.key)}"
                raise NotCompacted(f"{text}, after a round up to {end_offset}")
            seen[record.key] = record.offset


def _has_records(batch: Fields, end_offset: int) -> bool:
    return batch.header[0] < end_offset and bool(batch.header[_COUNT_AT])


def _check_markers(before: Sequence[Fields], after: Sequence[Fields], below: int) -> None:
    """Compaction removes a marker as late as a tombstone, and only after the records it ends."""
    left = {each.header[0]: each for each in after}
    for each in transactions_in(before):
        if each.end is None or each.end.header[0] in left:
            continue
        offset = each.end.header[0]
        if offset >= below:
            raise NotCompacted(f"the marker at {offset} went too early: {below}")
        data = [left[batch.header[0]] for batch in each.batches if batch.header[0] in left]
        if any(batch.header[_COUNT_AT] for batch in data):
            raise NotCompacted(f"the marker at {offset} went before its data")


def _check_tombstone(record: Record, every: Sequence[Record], below: int) -> None:
    if record.value is not None:
        raise NotCompacted(f"the newest record of key {record.key!r}, at {record.offset}, is gone")
    if record.offset >= below:
        raise NotCompacted(f"the tombstone at {record.offset} went too early: {below}")
    if any(each.key == record.key and each.offset < record.offset for each in every):
        raise NotCompacted(f"the tombstone at {record.offset} went before what it deletes")


def _check_framing(before: Fields | None, after: Fields) -> None:
    if before is None:
        raise NotCompacted(f"a batch at {after.header[0]} comes from nowhere")
    changed = {
        at
        for at, (one, other) in enumerate(zip(before.header, after.header, strict=True))
        if one != other
    }
    allowed = {_COUNT_AT, _LENGTH_AT, _CRC_AT, _MAX_TIMESTAMP_AT}
    if not after.header[_COUNT_AT]:
        allowed.add(_ATTRIBUTES_AT)
    if changed - allowed:
        raise NotCompacted(f"{before.header} became {after.header}")


def _records(batches: Iterable[Fields]) -> list[Record]:
    return [
        record
        for each in batches
        if each.header[_COUNT_AT]
        for record in decode_records(each.data, max_decompressed_bytes=_MAX_BYTES)
    ]
