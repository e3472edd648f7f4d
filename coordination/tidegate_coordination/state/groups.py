"""Groups: the last durable state of each, and its committed offsets.

Only the holder of the claim "group/<id>" may write a group.  A rebalance under way is not here: the
gateway that holds the claim keeps it in memory, and it is lost when that gateway ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ..events.groups import (
    CommittedOffset,
    GroupChanged,
    GroupDeleted,
    MemberRecord,
    OffsetsCommitted,
    OffsetsDeleted,
)
from .broken import expect
from .frozen import FrozenRows
from .long_values import SLICE_ROWS, LongList, LongValue, sorted_keys, sorted_slices
from .topic_groups import TopicGroups

HAS_MEMBERS = -1

# The number of fields of a snapshot's row without a record in `__consumer_offsets`.
_GROUP_FIELDS = 8
_OFFSET_FIELDS = 6

PartitionOffsets = dict[int, CommittedOffset]


class KeptOffset(CommittedOffset, array_like=True, frozen=True, gc=False):
    """A committed offset that is a record of `__consumer_offsets`; place: the record's offset."""

    place: int = -1


@dataclass(slots=True)
class Group:
    """A group.  protocol_type: "" for one that only ever committed offsets.

    empty_since_ms: log time, or HAS_MEMBERS.  offsets: the committed offsets by topic id, by
    partition.
    place: the place of its record in `__consumer_offsets`, or -1.
    changed_ms: that record's log time.
    """

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberRecord, ...]
    empty_since_ms: int
    offsets: dict[bytes, PartitionOffsets] = field(default_factory=dict[bytes, PartitionOffsets])
    place: int = -1
    changed_ms: int = 0

    def offset(self, topic_id: bytes, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition."""
        of_topic = self.offsets.get(topic_id)
        return of_topic.get(partition) if of_topic is not None else None

    def record(self) -> GroupChanged:
        """Return the group as an event, to restore its machine from."""
        return GroupChanged(
            self.group_id,
            0,
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.members,
        )


class GroupTable:
    """All groups by id."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._of_topics: Final = TopicGroups()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def copied_ids(self) -> list[str]:
        """Return a copy of the ids of all groups."""
        return list(self._groups)

    def get(self, group_id: str) -> Group | None:
        """Return a group; None if the log holds nothing of it."""
        return self._groups.get(group_id)

    def fold_group_changed(self, event: GroupChanged, log_time_ms: int) -> None:
        """Replace a group's state; its offsets stay."""
        last = self._groups.get(event.group_id)
        expect(
            last is None or event.generation >= last.generation,
            f"group {event.group_id}: generation {event.generation} after a later one",
        )
        self._groups[event.group_id] = Group(
            event.group_id,
            event.protocol_type,
            event.generation,
            event.protocol,
            event.leader,
            event.members,
            HAS_MEMBERS if event.members else log_time_ms,
            last.offsets if last is not None else {},
        )

    def fold_offsets_committed(self, event: OffsetsCommitted, log_time_ms: int) -> None:
        """Fold committed offsets; an unknown group becomes one without members."""
        group = self.begin(event.group_id, log_time_ms)
        for each in event.offsets:
            of_topic = group.offsets.get(each.topic_id)
            if of_topic is None:
                of_topic = self._begin_topic(group, each.topic_id)
            of_topic[each.partition] = each

    def _begin_topic(self, group: Group, topic_id: bytes) -> PartitionOffsets:
        """Return where the first offsets of a topic will be kept in the group."""
        self._of_topics.add(topic_id, group.group_id)
        offsets: PartitionOffsets = {}
        group.offsets[topic_id] = offsets
        return offsets

    def begin(self, group_id: str, log_time_ms: int) -> Group:
        """Return a group; an unknown one begins without members."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id, "", 0, None, None, (), log_time_ms)
        return group

    def keep(self, group_id: str, offset: CommittedOffset, place: int) -> KeptOffset:
        """Note where the record of a committed offset is; return what is kept."""
        kept = KeptOffset(
            offset.topic_id,
            offset.partition,
            offset.offset,
            offset.leader_epoch,
            offset.metadata,
            offset.commit_timestamp_ms,
            place,
        )
        self._groups[group_id].offsets[offset.topic_id][offset.partition] = kept
        return kept

    def fold_offsets_deleted(self, event: OffsetsDeleted, log_time_ms: int) -> None:
        """Forget offsets."""
        group = self._known(event.group_id)
        for topic_id, partition in event.partitions:
            of_topic = group.offsets.get(topic_id, {})
            expect(partition in of_topic, f"group {event.group_id}: no offset to delete")
            del of_topic[partition]
            if not of_topic:
                del group.offsets[topic_id]
                self._of_topics.remove(topic_id, event.group_id)

    def fold_group_deleted(self, event: GroupDeleted, log_time_ms: int) -> None:
        """Forget a group without members; perhaps only its claim was durable."""
        group = self._groups.get(event.group_id)
        if group is None:
            return
        expect(not group.members, f"group {event.group_id} deleted, but it has members")
        del self._groups[event.group_id]
        for topic_id in group.offsets:
            self._of_topics.remove(topic_id, event.group_id)

    def drop_topic(self, topic_id: bytes) -> None:
        """Forget all offsets of a topic that is deleted."""
        for group_id in self._of_topics.of(topic_id):
            del self._groups[group_id].offsets[topic_id]
        self._of_topics.remove_topic(topic_id)

    def with_offsets_of(self, topic_id: bytes) -> list[str]:
        """Return the groups that have committed offsets of a topic."""
        return list(self._of_topics.of(topic_id))

    def frozen(self) -> FrozenRows[str]:
        """Return all present rows."""
        live = self._groups
        return FrozenRows(
            "groups",
            sorted_keys(list(live)),
            lambda group_id: _encode_group(live[group_id]),
            was_here=live.__contains__,
            is_rising=True,
        )

    def decode(self, rows: Iterable[Any]) -> None:
        """Add some of the frozen rows."""
        for row in rows:
            *head, members, empty_since_ms, offsets = row[:_GROUP_FIELDS]
            records = tuple(msgspec.convert(each, MemberRecord) for each in members)
            group_id, protocol_type, generation, protocol, leader = head
            group = Group(
                group_id, protocol_type, generation, protocol, leader, records, empty_since_ms
            )
            if row[_GROUP_FIELDS:]:
                group.place, group.changed_ms = row[_GROUP_FIELDS:]
            for fields in offsets:
                kind = KeptOffset if fields[_OFFSET_FIELDS:] else CommittedOffset
                each = kind(*fields)
                of_topic = group.offsets.get(each.topic_id)
                if of_topic is None:
                    of_topic = self._begin_topic(group, each.topic_id)
                of_topic[each.partition] = each
            self._groups[group.group_id] = group

    def _known(self, group_id: str) -> Group:
        expect(group_id in self._groups, f"unknown group {group_id}")
        return self._groups[group_id]


def _encode_group(group: Group) -> list[object] | LongValue:
    count = sum(map(len, group.offsets.values()))
    is_long = count > SLICE_ROWS
    fields: list[object] = [
        group.group_id,
        group.protocol_type,
        group.generation,
        group.protocol,
        group.leader,
        [msgspec.to_builtins(each, builtin_types=(bytes,)) for each in group.members],
        group.empty_since_ms,
        LongList(count, _offset_slices(group)) if is_long else _offset_rows(group),
        *((group.place, group.changed_ms) if group.place >= 0 else ()),
    ]
    return LongValue.of_row(fields) if is_long else fields


def _offset_rows(group: Group) -> list[object]:
    return [row for rows in _offset_slices(group) for row in rows]


def _offset_slices(group: Group) -> Iterator[list[object]]:
    of_topics = [(topic_id, each.copy()) for topic_id, each in sorted(group.offsets.items())]
    return (rows for _, each in of_topics for rows in sorted_slices(each, _offset_row))


def _offset_row(_: int, offset: CommittedOffset) -> list[object]:
    return list(msgspec.structs.astuple(offset))
