"""Knows every record of `__consumer_offsets` from its first offset on, and judges what is read.

A record may be missing from an answer only if a later one has the same key, as after a compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import Group
from tidegate_coordination.state.offsets_topic import CommitRecord, GroupRecord, OffsetsRecord

Complain = Callable[[str, str], None]

RecordKey: TypeAlias = tuple[str, str, int]
"""Group, topic, partition; of the group's own record ("" and -1)."""

RecordValue: TypeAlias = tuple[object, ...] | None
"""A commit: offset, leader epoch, metadata, time.  A group: type, generation, protocol, leader,
members.  None: deleted.
"""


class ReadRecord(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: RecordKey
    value: RecordValue


class OffsetsWatch:
    """The records of `__consumer_offsets`, as they must be."""

    def __init__(
        self, state: ClusterState, broken: Callable[[int, str], None], complain: Complain
    ) -> None:
        self._state: Final = state
        self._broken = broken
        self._complain = complain
        self._records: dict[int, list[ReadRecord]] = {}
        self._newest: dict[int, dict[RecordKey, int]] = {}

    def holds(self, number: int) -> bool:
        """Return whether a partition is one of `__consumer_offsets`, and has readable records."""
        return number in self._state.offsets_topic.by_number

    def after_entry(self, touched: Iterable[int]) -> None:
        """Note the new records; 1: they follow each other up to the partition's end."""
        for number in touched:
            of = self._state.offsets_topic.by_number.get(number)
            partition = self._state.partitions.get(number)
            if of is None or partition is None:
                continue
            known = self._records.setdefault(number, [])
            newest = self._newest.setdefault(number, {})
            end = known[-1].offset + 1 if known else partition.log_start
            for each in of.between(end, partition.next_offset):
                record = _seen(each)
                if record.offset != end:
                    self._broken(1, f"partition {number}: a record at {record.offset} after {end}")
                end = record.offset + 1
                known.append(record)
                newest[record.key] = record.offset
            if end != partition.next_offset:
                self._broken(1, f"partition {number}: records end at {end}")

    def judge(
        self, number: int, position: int, following: int, records: Sequence[ReadRecord]
    ) -> None:
        """Judge an answer that took a reader from one position to another."""
        known = self._records.get(number, [])
        first = known[0].offset if known else 0
        expected = known[max(position - first, 0) : max(following - first, 0)]
        by_offset = {each.offset: each for each in records}
        for each in records:
            if each not in expected[each.offset - max(position, first) :][:1]:
                self._complain("wrong record", f"partition {number}: {each} is not in the log")
        for each in expected:
            is_replaced = self._newest[number][each.key] > each.offset
            if each.offset not in by_offset and not is_replaced:
                self._complain("lost record", f"partition {number} from {position}: no {each}")

    def judge_all(self, found: Mapping[RecordKey, RecordValue]) -> None:
        """Judge the last values of all keys, of a reader that has read everything."""
        expected: dict[RecordKey, RecordValue] = {}
        for group in self._state.groups:
            if group.protocol_type:
                expected[group.group_id, "", -1] = _group(group)
            for topic_id, rows in group.offsets.items():
                name = self._state.topics.by_id[topic_id].name
                for row in rows.values():
                    value = (row.offset, row.leader_epoch, row.metadata, row.commit_timestamp_ms)
                    expected[group.group_id, name, row.partition] = value
        for key in expected.keys() | found.keys():
            if expected.get(key) != found.get(key):
                text = f"{key} is {found.get(key)}, and should be {expected.get(key)}"
                self._complain("wrong last record", text)


def last_values(state: ClusterState) -> dict[RecordKey, RecordValue]:
    """Return the last values of all keys that a reader of all records of a replica would have."""
    found: dict[RecordKey, RecordValue] = {}
    for number, records in state.offsets_topic.by_number.items():
        for each in records.between(0, state.partitions[number].next_offset):
            record = _seen(each)
            found[record.key] = record.value
    return {key: value for key, value in found.items() if value is not None}


def _seen(each: OffsetsRecord) -> ReadRecord:
    if isinstance(each, CommitRecord):
        of = each.committed
        value = (of.offset, of.leader_epoch, of.metadata, of.commit_timestamp_ms)
        return ReadRecord(each.place, (each.group_id, each.topic.name, of.partition), value)
    if isinstance(each, GroupRecord):
        return ReadRecord(each.place, (each.group.group_id, "", -1), _group(each.group))
    return ReadRecord(each.place, (each.group_id, each.topic, each.partition), None)


def _group(group: Group) -> tuple[object, ...]:
    members = tuple((each.member_id, each.assignment) for each in group.members)
    return (group.protocol_type, group.generation, group.protocol, group.leader, members)
