"""Changes of a partition of a classic cluster: compaction, retention, truncation.  Pure.

Each function changes a log as Kafka's cleaner, retention or election would.
"""

from __future__ import annotations

from collections.abc import Container

from tidegate_protocol.batches import DELETE_HORIZON, HEADER_BYTES, empty_batch, read_header
from tidegate_protocol.control_batches import commits
from tidegate_protocol.records import decode_records, rebuild_batch

from .model_log import ModelLog, StoredBatch

_MAX_DECOMPRESSED_BYTES = 1 << 28


def remove_records(log: ModelLog, offsets: Container[int]) -> None:
    """Remove records as compaction does: offsets stay, batches shrink or vanish.

    A batch that loses all its records stays as an empty one if it is the last of its producer, so
    that the producer's sequence survives.  Offsets at and above the high watermark are kept.
    """
    last_of = {each.header.producer_id: each.header.base_offset for each in log.batches}
    kept: list[StoredBatch] = []
    for each in log.batches:
        is_last = each.header.producer_id >= 0 and each.header.base_offset == last_of.get(
            each.header.producer_id
        )
        if each.header.last_offset >= log.high_watermark:
            kept.append(each)
        else:
            kept += _without(each, offsets, keeps_empty=is_last)
    log.batches = kept


def _without(
    batch: StoredBatch, offsets: Container[int], *, keeps_empty: bool
) -> list[StoredBatch]:
    header = batch.header
    records = list(decode_records(batch.raw, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES))
    left = [each for each in records if each.offset not in offsets]
    if len(left) == len(records):
        return [batch]
    if left:
        newest = max(each.timestamp for each in left)
        smaller = header._replace(max_timestamp=newest)
        return [_stored(rebuild_batch(smaller, left, codec=header.codec))]
    if not keeps_empty:
        return []
    return [
        _stored(rebuild_batch(header._replace(base_timestamp=header.max_timestamp), [], codec=0))
    ]


def replace_by_empty_batch(log: ModelLog, base_offset: int) -> None:
    """Put an empty batch without a producer in the place of the batch that begins there."""
    for place, each in enumerate(log.batches):
        if each.header.base_offset == base_offset:
            next_offset = each.header.last_offset + 1
            raw = empty_batch(base_offset, next_offset, each.header.leader_epoch)
            log.batches[place] = _stored(raw)


def set_delete_horizon(log: ModelLog, base_offset: int, horizon_ms: int) -> None:
    """Mark a batch as compaction marks those with tombstones or markers (KIP-534).

    The base time stamp becomes the horizon, and the records' deltas count from it.
    """
    for place, each in enumerate(log.batches):
        if each.header.base_offset == base_offset:
            records = decode_records(each.raw, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES)
            header = each.header._replace(
                attributes=each.header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms
            )
            raw = rebuild_batch(header, records, codec=header.codec)
            log.batches[place] = _stored(raw)


def raise_log_start(log: ModelLog, offset: int, *, deletes: bool = True) -> None:
    """Expire the records before an offset, which may lie inside a batch.

    Nothing above the high watermark expires.  Producers stay known, as in Kafka.
    deletes: False keeps the bytes, as DeleteRecords does until a whole segment has expired.
    """
    offset = min(offset, log.high_watermark)
    if offset <= log.log_start:
        return
    log.log_start = offset
    if deletes:
        log.batches = [each for each in log.batches if each.header.last_offset >= offset]
    log.epochs.truncate_start(offset)


def truncate(log: ModelLog, end_offset: int) -> None:
    """Lose the batches that end after an offset, as an unclean election or a crash does.

    The log then ends before the first batch that was lost.  The producers' state follows from the
    batches that are left.
    """
    lost = [each for each in log.batches if each.header.last_offset >= end_offset]
    if lost:
        end_offset = min(end_offset, lost[0].header.base_offset)
    log.batches = log.batches[: len(log.batches) - len(lost)]
    log.end_offset = max(log.log_start, min(log.end_offset, end_offset))
    log.high_watermark = min(log.high_watermark, log.end_offset)
    log.epochs.truncate_end(log.end_offset)
    replay_producers(log)


def replay_producers(log: ModelLog) -> None:
    """Make the producers' state again out of the batches that the log has."""
    log.producers.clear()
    for each in log.batches:
        if each.header.producer_id < 0:
            continue
        if not each.header.is_control:
            log.producers.add(each.header)
            continue
        ends = commits(each.raw[HEADER_BYTES:])
        if ends is not None:
            log.producers.add_marker(each.header, committed=ends)
    log.producers.on_high_watermark(log.high_watermark)


def _stored(raw: bytes) -> StoredBatch:
    return StoredBatch(read_header(raw), raw)
