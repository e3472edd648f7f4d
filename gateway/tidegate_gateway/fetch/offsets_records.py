"""Record batches of `__consumer_offsets`, made from the cluster state when they are read.

The state has the offset of each record (state/offsets_topic.py).  The records follow from the
state, so two gateways make the same records.  The batches may differ: the size of a batch depends
on the limits of the fetch.  A record's time is that of the commit, or of the group's change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidegate_coordination.state.groups import Group
from tidegate_coordination.state.offsets_topic import (
    CommitRecord,
    GroupRecord,
    OffsetsRecord,
    PartitionRecords,
)
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.batches import HEADER_BYTES, MAGIC, BatchHeader
from tidegate_protocol.compression import Codec
from tidegate_protocol.offsets_topic import (
    MemberValue,
    commit_key,
    commit_value,
    group_key,
    group_value,
)
from tidegate_protocol.records import Record, rebuild_batch

# The bytes of a record besides its key and value.
_RECORD_BYTES: Final = 20
_MAX_SPAN: Final = 1 << 31


class Found(NamedTuple):
    """A record that a search by time found."""

    offset: int
    timestamp: int


class Made(NamedTuple):
    """A batch, or b"" if no record fits.  next_offset: the offset at which the reader continues."""

    batch: bytes
    next_offset: int


class OffsetsRecords:
    """See the module's head.  by_number: of OffsetsTopic."""

    def __init__(self, by_number: Mapping[int, PartitionRecords]) -> None:
        self._by_number: Final = by_number

    def make(
        self, partition: Partition, offset: int, end: int, max_bytes: int, *, is_first: bool
    ) -> Made | None:
        """Return the records from an offset on, below end, as one batch.

        Return None if the partition has no such records, or no record in this range is left.
        is_first: return the first record even if it exceeds max_bytes (KIP-74).
        """
        of = self._by_number.get(partition.number)
        if of is None:
            return None
        left = of.between(offset, end)
        first = next(left, None)
        if first is None:
            return None
        end = _end_of_batch(partition, first.place, end)
        records: list[Record] = []
        left_bytes = max_bytes - HEADER_BYTES
        for each in _with_first(first, left):
            if each.place >= end:
                break
            record = _record(each)
            left_bytes -= _size_bytes(record)
            if left_bytes < 0 and not (is_first and not records):
                end = each.place
                break
            records.append(record)
        return Made(_batch(partition, records, end), end) if records else Made(b"", offset)

    def first_at(self, partition: Partition, timestamp: int) -> Found | None:
        """Return the first record that is not older than a time."""
        return next((each for each in self._found(partition) if each.timestamp >= timestamp), None)

    def largest(self, partition: Partition) -> Found | None:
        """Return the first record with the largest time."""
        return max(self._found(partition), key=lambda each: each.timestamp, default=None)

    def _found(self, partition: Partition) -> Iterator[Found]:
        records = self._by_number.get(partition.number)
        if records is None:  # the topic was deleted meanwhile
            return iter(())
        of = records.between(partition.log_start, partition.next_offset)
        return (Found(each.place, _timestamp_ms(each)) for each in of)

    def __contains__(self, partition: Partition) -> bool:
        return partition.number in self._by_number


def _with_first(first: OffsetsRecord, left: Iterator[OffsetsRecord]) -> Iterator[OffsetsRecord]:
    yield first
    yield from left


def _end_of_batch(partition: Partition, first: int, end: int) -> int:
    """Return where a batch must end: it has one leader epoch, and offset deltas of 31 bits."""
    next_epoch = min((each.offset for each in partition.epochs if each.offset > first), default=end)
    return min(end, next_epoch, first + _MAX_SPAN)


def _batch(partition: Partition, records: list[Record], end: int) -> bytes:
    """Return the batch of records that cover all offsets below end, as after a compaction."""
    first = records[0]
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=0,
        leader_epoch=partition.epoch_at(first.offset),
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=end - 1 - first.offset,
        base_timestamp=first.timestamp,
        max_timestamp=max(each.timestamp for each in records),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    return rebuild_batch(header, records, codec=Codec.NONE)


def _record(each: OffsetsRecord) -> Record:
    return Record(each.place, _timestamp_ms(each), _key(each), _value(each))


def _timestamp_ms(each: OffsetsRecord) -> int:
    if isinstance(each, CommitRecord):
        return each.committed.commit_timestamp_ms
    return each.group.changed_ms if isinstance(each, GroupRecord) else each.time_ms


def _key(each: OffsetsRecord) -> bytes:
    if isinstance(each, CommitRecord):
        return commit_key(each.group_id, each.topic.name, each.committed.partition)
    if isinstance(each, GroupRecord):
        return group_key(each.group.group_id)
    if each.topic:
        return commit_key(each.group_id, each.topic, each.partition)
    return group_key(each.group_id)


def _value(each: OffsetsRecord) -> bytes | None:
    if isinstance(each, CommitRecord):
        of, shown_id = each.committed, each.topic.shown_id
        return commit_value(
            of.offset, of.leader_epoch, of.metadata, of.commit_timestamp_ms, shown_id
        )
    return _group_value(each.group) if isinstance(each, GroupRecord) else None


def _group_value(group: Group) -> bytes:
    members = (
        MemberValue(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            dict(each.protocols).get(group.protocol or "", b""),
            each.assignment,
        )
        for each in group.members
    )
    head = (group.protocol_type, group.generation, group.protocol, group.leader, group.changed_ms)
    return group_value(*head, members)


def _size_bytes(record: Record) -> int:
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
