"""A published segment must hold the bytes of its parents.

The check reads from the store without faults when the entry is appended.  Its code is independent:
it shares only the formats' numbers with the pipeline and the gateway, not their readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from tidegate_coordination.events.cluster import (
    RUN_FINAL,
    RUN_LOG_APPEND_TIME,
    RUN_SEGMENT,
    RUN_WALKED,
    CleanedPartition,
    Segment,
    SegmentsOfPartition,
)
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import SegmentName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_pipeline.tasks.digests import add
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.segment_format import HEADER_BYTES, SegmentIndex, read_segment

from .compaction_checks import NotCompacted, check_clean, check_compacted, horizon
from .settled_batches import Fields

_BATCH = Struct(">qiibIhiqqqhii")
_CRC_START = 21
_LENGTH_OVERHEAD = 12
_APPEND_TIME = 0x08

BodyOf = Callable[[str], bytes | None]
"""Returns the object of a key, without waiting."""


class NotWhole(Exception):
    """A segment or one of its parents is wrong; the text says how."""


class Batch(NamedTuple):
    """A batch as it is served."""

    base_offset: int
    next_offset: int
    records: int
    max_timestamp: int
    crc: int
    data: bytes


def check_published(
    state: ClusterState, incarnation: int, event: SegmentsOfPartition, body_of: BodyOf
) -> None:
    """Compare segments with their parents.

    Args:
      state: before the entry.

    Raises:
      NotWhole: says what is wrong.
    """
    partition = state.partitions.get(event.partition)
    if partition is None:
        raise NotWhole(f"partition {event.partition} is gone")
    parents = _parents(partition, event)
    before = [batch for row in parents for batch in _held(state, partition, row, body_of)]
    bounds = _bounds(state, parents, body_of)
    after: list[Batch] = []
    expected_base = event.base_offset
    for segment in event.segments:
        if segment.base_offset != expected_base:
            raise NotWhole(f"{segment} where {expected_base} is next")
        name = SegmentName(
            incarnation,
            segment.attempt,
            partition.topic_id,
            partition.index,
            segment.base_offset,
        )
        body = _body(object_key(state, name), body_of)
        after += _segment_batches(partition, segment, body, bounds)
        expected_base = segment.next_offset
    if expected_base != event.next_offset:
        raise NotWhole(f"segments end at {expected_base}, not at {event.next_offset}")
    if event.removed or not all(batch.records for batch in before):
        _compare_compacted(state, partition, event, before, after, body_of)
    else:
        _compare(before, after)
    _prove(event, after)


def check_cleaned(state: ClusterState, event: CleanedPartition, body_of: BodyOf) -> None:
    """Check a partition after a round of compaction.

    Args:
      state: after the entry.

    Raises:
      NotWhole: says what is wrong.
    """
    partition = state.partitions.get(event.partition)
    if partition is None:
        return
    try:
        check_clean(_fields(_live(state, partition, body_of)), event.end_offset)
    except NotCompacted as error:
        raise NotWhole(str(error)) from error


def _compare_compacted(
    state: ClusterState,
    partition: Partition,
    event: SegmentsOfPartition,
    before: list[Batch],
    after: list[Batch],
    body_of: BodyOf,
) -> None:
    removed = sum(each.records for each in before) - sum(each.records for each in after)
    if removed != event.removed:
        raise NotWhole(f"{removed} records are gone, the event says that {event.removed} are")
    configs = state.topics.by_id[partition.topic_id].configs
    below = horizon(
        partition.cleanings, state.log_time_ms, int(configs.get("delete.retention.ms", "0"))
    )
    live = _fields(_live(state, partition, body_of))
    try:
        check_compacted(_fields(before), _fields(after), live, below)
    except NotCompacted as error:
        raise NotWhole(str(error)) from error


def _live(state: ClusterState, partition: Partition, body_of: BodyOf) -> list[Batch]:
    """Return the live runs and segments."""
    rows = [partition.runs[at] for at in range(len(partition.runs))]
    return [
        batch
        for row in rows
        if is_readable(state, partition, row, body_of)
        for batch in _held(state, partition, row, body_of)
    ]


def _fields(batches: list[Batch]) -> list[Fields]:
    return [Fields(_BATCH.unpack_from(each.data), each.data) for each in batches]


def is_readable(state: ClusterState, partition: Partition, row: RunRow, body_of: BodyOf) -> bool:
    """Return whether the object of a run or segment is still as committed."""
    if row.is_marker:
        return True
    try:
        body = _body(object_key(state, state.objects.name(row.object_number)), body_of)
        if row.flags & RUN_SEGMENT:
            index = read_segment(body)
            what = (index.topic_id, index.partition, index.base_offset, index.check)
            return what == (partition.topic_id, partition.index, row.base_offset, row.check)
        return bool(_held(state, partition, row, body_of))
    except (CorruptObject, NotWhole, StructError):
        return False


def _parents(partition: Partition, event: SegmentsOfPartition) -> list[RunRow]:
    """Return the live runs of the event's offsets; the range must begin and end with whole runs."""
    rows = [partition.runs[at] for at in range(len(partition.runs))]
    parents = [
        row
        for row in rows
        if row.base_offset < event.next_offset and event.base_offset < row.next_offset
    ]
    if not parents:
        raise NotWhole(f"no live run is in {event.base_offset} to {event.next_offset}")
    found = (parents[0].base_offset, parents[-1].next_offset)
    if found != (event.base_offset, event.next_offset):
        raise NotWhole(f"the live runs are {found}, not {event.base_offset} to {event.next_offset}")
    return parents


def _held(state: ClusterState, partition: Partition, row: RunRow, body_of: BodyOf) -> list[Batch]:
    """Return the batches that a run or segment serves."""
    # A switched partition continues with its source's epoch, also if it has returned.
    is_switched = partition.topic_id in state.switches.switched
    has_source = is_switched or bool(state.topics.get(partition.topic_id).link)
    if row.is_marker:
        return [_marker_batch(row, partition.epoch_at(row.base_offset) if has_source else 0)]
    body = _body(object_key(state, state.objects.name(row.object_number)), body_of)
    if row.flags & RUN_SEGMENT:
        return list(walk_batches(body[HEADER_BYTES : HEADER_BYTES + row.length]))
    stamp = row.max_timestamp if row.flags & RUN_LOG_APPEND_TIME else -1
    data = body[row.position : row.position + row.length]
    batches, offset = list[Batch](), row.base_offset
    if row.flags & RUN_FINAL:
        return list(walk_batches(data))
    for stored in walk_batches(data):
        epoch = partition.epoch_at(offset) if has_source else 0
        batches.append(_final(stored, offset, stamp, epoch))
        offset = batches[-1].next_offset
    if offset != row.next_offset:
        raise NotWhole(f"{row} ends at {offset}")
    return batches


def _bounds(state: ClusterState, parents: list[RunRow], body_of: BodyOf) -> dict[int, int]:
    """Return by base offset the times that count for batches whose headers may have false times.

    Batches of a mirror keep the headers of the source, whose times count only after a walk.
    """
    bounds: dict[int, int] = {}
    for row in parents:
        may_be_false = row.flags & (RUN_FINAL | RUN_SEGMENT) and not row.flags & RUN_WALKED
        if row.is_marker or not may_be_false:
            continue
        body = _body(object_key(state, state.objects.name(row.object_number)), body_of)
        if not row.flags & RUN_SEGMENT:
            held = walk_batches(body[row.position : row.position + row.length])
            bounds |= {batch.base_offset: row.max_timestamp for batch in held}
            continue
        for chunk in read_segment(body).chunks:
            held = walk_batches(body[chunk.position : chunk.position + chunk.length])
            bounds |= {batch.base_offset: chunk.max_timestamp for batch in held}
    return {base_offset: time_ms for base_offset, time_ms in bounds.items() if time_ms >= 0}


def _marker_batch(row: RunRow, epoch: int) -> Batch:
    """Return the control batch that ends a transaction (KIP-98), without the gateway's code."""
    marker = row.marker()
    key_type = int(marker.committed)
    record = bytes([32, 0, 0, 0, 8, 0, 0, 0, key_type, 12]) + bytes(7)
    stamp, attributes = marker.timestamp_ms, 0x30
    fields = (row.base_offset, 49 + len(record), epoch, 2, 0, attributes, 0, stamp, stamp)
    head = [*fields, marker.producer_id, marker.epoch, -1, 1]
    data = _BATCH.pack(*head) + record
    head[4] = crc32c(data[_CRC_START:])
    return _batch(_BATCH.pack(*head) + record)


def walk_batches(data: bytes) -> Iterator[Batch]:
    """Yield the batches by their headers."""
    at = 0
    while at < len(data):
        fields = _BATCH.unpack_from(data, at)
        end = at + _LENGTH_OVERHEAD + fields[1]
        yield _batch(data[at:end])
        at = end
    if at != len(data):
        raise NotWhole("the last batch is cut short")


def _batch(data: bytes) -> Batch:
    fields = _BATCH.unpack_from(data)
    if crc32c(data[_CRC_START:]) != fields[4]:
        raise NotWhole(f"the CRC of the batch at offset {fields[0]} is wrong")
    return Batch(
        fields[0],
        fields[0] + fields[6] + 1,
        fields[12],
        fields[8],
        fields[4],
        data,
    )


def _final(stored: Batch, offset: int, stamp: int, epoch: int) -> Batch:
    """Return a batch of a WAL object with its offset, and with its commit time if it has one."""
    fields = list(_BATCH.unpack_from(stored.data))
    fields[0], fields[2] = offset, epoch
    if stamp >= 0:
        fields[5] |= _APPEND_TIME
        fields[8] = stamp
    data = _BATCH.pack(*fields) + stored.data[_BATCH.size :]
    fields[4] = crc32c(data[_CRC_START:])
    return _batch(_BATCH.pack(*fields) + stored.data[_BATCH.size :])


def _segment_batches(
    partition: Partition, segment: Segment, body: bytes, bounds: dict[int, int]
) -> list[Batch]:
    """Return the batches of a segment; index, chunks and event must agree."""
    try:
        index = read_segment(body)
    except CorruptObject as error:
        raise NotWhole(f"{segment}: {error}") from error
    said = (segment.size_bytes, segment.position, segment.check)
    if said != (len(body), HEADER_BYTES + segment.length, index.check):
        raise NotWhole(f"{segment} is not what is stored: {len(body)} bytes, check {index.check}")
    what = (index.topic_id, index.partition, index.base_offset, index.next_offset)
    place = (partition.topic_id, partition.index, segment.base_offset, segment.next_offset)
    if what != place:
        raise NotWhole(f"the segment of {place} says that it is that of {what}")
    batches = list(walk_batches(body[HEADER_BYTES : segment.position]))
    _check_chunks(index, batches, bounds)
    if segment.max_timestamp != max(chunk.max_timestamp for chunk in index.chunks):
        raise NotWhole(f"{segment} has another largest time stamp")
    return batches


def _check_chunks(index: SegmentIndex, batches: list[Batch], bounds: dict[int, int]) -> None:
    """Check the facts of each chunk against its batches."""
    left = iter(batches)
    for chunk in index.chunks:
        own = [next(left) for _ in range(chunk.batch_count)]
        said = (chunk.length, chunk.record_count)
        found = (sum(len(batch.data) for batch in own), sum(batch.records for batch in own))
        # Compaction may have left a gap at either end.
        place = (own[0].base_offset, own[-1].next_offset)
        if said != found or place[0] < chunk.base_offset or place[1] > chunk.next_offset:
            raise NotWhole(f"{chunk} holds {found}, from {place[0]} up to {place[1]}")
        # A merge takes the times of _bounds().  Compaction corrects headers, and takes their times.
        times = (_newest(own, bounds), _newest(own, {}))
        if chunk.max_timestamp not in times:
            raise NotWhole(f"{chunk} has another largest time stamp: {times}")
    if next(left, None) is not None:
        raise NotWhole("a batch is in no chunk")


def _newest(batches: list[Batch], bounds: dict[int, int]) -> int:
    """Return the largest time of batches with records, -1 for none; bounds: see _bounds()."""
    times = [
        bounds.get(batch.base_offset, batch.max_timestamp) for batch in batches if batch.records
    ]
    return max(times, default=-1)


def _compare(before: list[Batch], after: list[Batch]) -> None:
    if before == after:
        return
    text = f"{len(before)} batches became {len(after)}"
    for one, other in zip(before, after, strict=False):
        if one != other:
            text += f"; {one[:-1]} became {other[:-1]}"
            break
    raise NotWhole(text)


def _prove(event: SegmentsOfPartition, batches: list[Batch]) -> None:
    """Check the event's count and digest against the published batches."""
    digest = 0
    for batch in batches:
        digest = add(digest, batch.base_offset, batch.crc)
    records = sum(batch.records for batch in batches)
    if (records, digest) != (event.records, event.digest):
        raise NotWhole(f"{records} records are published, {event.records} proven")


def _body(key: str, body_of: BodyOf) -> bytes:
    body = body_of(key)
    if body is None:
        raise NotWhole(f"{key} is not stored")
    return body
