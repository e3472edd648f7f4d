"""The content of `__consumer_offsets`: a compacted log of the groups, made by the fold.

Each commit, each state of a group and each deletion is a record: it takes the next offset of the
group's partition.  So the offset of a record follows from the metadata log alone, and is the same
at all gateways.  A live record's offset is kept beside its value in the table of groups, and
tombstones are kept here; both are in snapshots.  Of replaced records, only the newest are kept, and
only in memory.  A later reader finds the records that compaction would have left.

No record has bytes here: fetch/offsets_records.py of the gateway writes them when they are read.
See decision 38.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from ..events.groups import CommittedOffset
from ..events.metadata_versions import OFFSETS_TOPIC_FILLED
from .frozen import FrozenRows, frozen_values
from .groups import Group, GroupTable, KeptOffset
from .records.partition_table import PartitionTable
from .topics import Topic, TopicTable

OFFSETS_TOPIC: Final = "__consumer_offsets"

TOMBSTONE_MS: Final = 24 * 3_600_000
"""How long readers can find a tombstone, in log time: Kafka's delete.retention.ms."""
MAX_TOMBSTONES: Final = 2_000
"""The most tombstones of a partition; the oldest are removed first."""
_REPLACED_BYTES: Final = 64 << 10
_GROWTH_BYTES: Final = 256 << 10
_RECORD_BYTES: Final = 200

_place: Final = attrgetter("place")


@lru_cache(maxsize=1 << 14)
def offsets_partition(group_id: str, count: int) -> int:
    """Return the partition of `__consumer_offsets` in which Kafka keeps a group, of `count`.

    The partition follows from the absolute value of Java's hash code of the id, over its UTF-16
    code units.
    """
    code = 0
    data = group_id.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        code = (31 * code + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    return min(code, (1 << 32) - code) % (1 << 31) % count


class CommitRecord(NamedTuple):
    """A committed offset; topic: its name.  place: the record's offset in its partition."""

    place: int
    group_id: str
    topic: Topic
    committed: KeptOffset


class GroupRecord(NamedTuple):
    """A state of a group."""

    place: int
    group: Group


class Tombstone(NamedTuple):
    """A deletion: of a group if topic is "", else of an offset that it had committed.

    time_ms: log time.
    """

    place: int
    group_id: str
    topic: str
    partition: int
    time_ms: int


OffsetsRecord: TypeAlias = CommitRecord | GroupRecord | Tombstone


class PartitionRecords:
    """The records of one partition that are in memory, by rising place.

    tombstones: the tombstones that count as live.
    """

    def __init__(self, groups: GroupTable) -> None:
        self._groups: Final = groups
        self._records: list[OffsetsRecord] = []
        self._grown_bytes = 0
        self._live_bytes = 0
        self.tombstones: Final = deque[Tombstone]()

    def __len__(self) -> int:
        return len(self._records)

    def between(self, place: int, end: int) -> Iterator[OffsetsRecord]:
        """Yield the records at places from the given one on, below end."""
        records = self._records
        for at in range(bisect_left(records, place, key=_place), len(records)):
            record = records[at]
            if record.place >= end:
                return
            yield record

    def fill(self, records: list[OffsetsRecord]) -> None:
        """Begin with live records, in any order."""
        self._records = sorted([*records, *self.tombstones], key=_place)
        self._live_bytes = sum(map(_size_bytes, self._records))

    def append(self, record: OffsetsRecord) -> None:
        """Add the newest record."""
        self._records.append(record)
        if isinstance(record, Tombstone):
            self._bury(record)
        self._grown_bytes += _size_bytes(record)
        if self._grown_bytes > max(_GROWTH_BYTES, self._live_bytes):
            self._compact()

    def _bury(self, tombstone: Tombstone) -> None:
        kept = self.tombstones
        kept.append(tombstone)
        before_ms = tombstone.time_ms - TOMBSTONE_MS
        while len(kept) > MAX_TOMBSTONES or kept[0].time_ms < before_ms:
            kept.popleft()

    def _compact(self) -> None:
        """Drop replaced records, except the newest, which readers near the end still need."""
        records = self._records
        at, replaced_bytes = len(records), 0
        while at and replaced_bytes < _REPLACED_BYTES:
            at -= 1
            replaced_bytes += _size_bytes(records[at])
        self._records = [*filter(self._is_live, records[:at]), *records[at:]]
        self._live_bytes = sum(map(_size_bytes, self._records))
        self._grown_bytes = 0

    def _is_live(self, record: OffsetsRecord) -> bool:
        if isinstance(record, Tombstone):
            return bool(self.tombstones) and record.place >= self.tombstones[0].place
        if isinstance(record, GroupRecord):
            return self._groups.get(record.group.group_id) is record.group
        group, committed = self._groups.get(record.group_id), record.committed
        return (
            group is not None and group.offset(committed.topic_id, committed.partition) is committed
        )


class OffsetsTopic:
    """See the module's head.

    by_number: the records of each partition of the topic; empty where the topic does not exist, or
      the cluster's metadata.version is too low.
    """

    def __init__(
        self,
        topics: TopicTable,
        partitions: PartitionTable,
        groups: GroupTable,
        on_change: Callable[[int], None],
    ) -> None:
        """on_change: called with the number of a partition before it gets a record."""
        self._topics: Final = topics
        self._partitions: Final = partitions
        self._groups: Final = groups
        self._on_change: Final = on_change
        self._numbers: list[int] = []
        self.by_number: Final[dict[int, PartitionRecords]] = {}

    # -- folds -----------------------------------------------------------------------------------

    def begin(self, metadata_version: int, log_time_ms: int) -> None:
        """Record all groups, after a change of the topic, its partitions or the level."""
        if not self._attach(metadata_version):
            return
        for group_id in sorted(each.group_id for each in self._groups):
            group = self._groups.get(group_id)
            assert group is not None
            self.group_changed(group_id, log_time_ms)
            for _, offsets in sorted(group.offsets.items()):
                self.committed(group_id, list(offsets.values()))

    def end(self, topic: Topic) -> None:
        """A topic was deleted."""
        if topic.name == OFFSETS_TOPIC:
            self._numbers = []
            self.by_number.clear()

    def group_changed(self, group_id: str, log_time_ms: int) -> None:
        """Record the state of a group; a group that only committed offsets has none."""
        group = self._groups.get(group_id)
        if not self._numbers or group is None or not group.protocol_type:
            return
        place, records = self._next(group_id)
        group.place, group.changed_ms = place, log_time_ms
        records.append(GroupRecord(place, group))

    def committed(self, group_id: str, offsets: Iterable[CommittedOffset]) -> None:
        """Record the offsets that a group has committed."""
        if not self._numbers:
            return
        for each in sorted(offsets, key=_by_partition):
            topic = self._topics.by_id.get(each.topic_id)
            if topic is None:
                continue
            place, records = self._next(group_id)
            kept = self._groups.keep(group_id, each, place)
            records.append(CommitRecord(place, group_id, topic, kept))

    def topic_deleted(self, topic: Topic, group_ids: Iterable[str], log_time_ms: int) -> None:
        """Add tombstones for all offsets of a topic; call this before they are dropped."""
        if not self._numbers:
            return
        for group_id in sorted(group_ids):
            group = self._groups.get(group_id)
            of_topic = group.offsets.get(topic.topic_id, {}) if group is not None else {}
            for partition in sorted(of_topic):
                self._bury(group_id, topic.name, partition, log_time_ms)

    def offsets_deleted(
        self, group_id: str, partitions: Iterable[tuple[bytes, int]], log_time_ms: int
    ) -> None:
        """Add tombstones for offsets of a group."""
        if not self._numbers:
            return
        for topic_id, partition in sorted(partitions):
            topic = self._topics.by_id.get(topic_id)
            if topic is not None:
                self._bury(group_id, topic.name, partition, log_time_ms)

    def group_deleted(self, group_id: str, log_time_ms: int) -> None:
        """Add tombstones for a group and its offsets; call this before they are dropped."""
        group = self._groups.get(group_id)
        if not self._numbers or group is None:
            return
        keys = [(topic_id, each) for topic_id, rows in group.offsets.items() for each in rows]
        self.offsets_deleted(group_id, keys, log_time_ms)
        self._bury(group_id, "", -1, log_time_ms)

    def _bury(self, group_id: str, topic: str, partition: int, log_time_ms: int) -> None:
        place, records = self._next(group_id)
        records.append(Tombstone(place, group_id, topic, partition, log_time_ms))

    def _next(self, group_id: str) -> tuple[int, PartitionRecords]:
        """Take the next offset of the group's partition."""
        numbers = self._numbers
        number = numbers[offsets_partition(group_id, len(numbers))]
        self._on_change(number)
        partition = self._partitions[number]
        place = partition.next_offset
        partition.next_offset = place + 1
        return place, self.by_number[number]

    def _attach(self, metadata_version: int) -> bool:
        """Find the topic; return whether it exists and may have records."""
        topic = self._topics.by_name.get(OFFSETS_TOPIC)
        if metadata_version < OFFSETS_TOPIC_FILLED or topic is None or topic.link:
            return False
        self._numbers = list(topic.partition_numbers)
        # Drop the tombstones as well. With more partitions, a group's records may be in another
        # partition than before. A reader of both could apply the old tombstone to the newer record.
        self.by_number.clear()
        self.by_number.update((each, PartitionRecords(self._groups)) for each in self._numbers)
        return True

    # -- snapshots -------------------------------------------------------------------------------

    def frozen(self) -> FrozenRows[tuple[int, Tombstone]]:
        """Return the tombstones as rows; the table of groups has all other records."""
        copied = [(at, tuple(each.tombstones)) for at, each in self.by_number.items()]
        slices = ([(at, each) for each in tombstones] for at, tombstones in copied)
        return frozen_values("offsets_tombstones", slices)

    def decode(self, metadata_version: int, tombstones: Iterable[Any]) -> None:
        """Fill the topic from the other tables, and from its frozen rows."""
        if not self._attach(metadata_version):
            return
        for number, row in tombstones:
            self.by_number[number].tombstones.append(Tombstone(*row))
        live: dict[int, list[OffsetsRecord]] = {each: [] for each in self._numbers}
        for group in self._groups:
            at = self._numbers[offsets_partition(group.group_id, len(self._numbers))]
            live[at].extend(self._records_of(group))
        for number, records in live.items():
            self.by_number[number].fill(records)

    def _records_of(self, group: Group) -> Iterator[OffsetsRecord]:
        if group.place >= 0:
            yield GroupRecord(group.place, group)
        for topic_id, rows in group.offsets.items():
            kept = [each for each in rows.values() if isinstance(each, KeptOffset)]
            for each in kept:
                yield CommitRecord(each.place, group.group_id, self._topics.get(topic_id), each)


def _by_partition(each: CommittedOffset) -> tuple[bytes, int]:
    return each.topic_id, each.partition


def _size_bytes(record: OffsetsRecord) -> int:
    """Return about how many bytes of memory a record takes, its value included."""
    if isinstance(record, CommitRecord):
        return _RECORD_BYTES + len(record.group_id) + len(record.committed.metadata)
    if isinstance(record, GroupRecord):
        members = record.group.members
        texts = (text for each in members for text in (each.member_id, each.client_id))
        protocols = (part for each in members for pair in each.protocols for part in pair)
        inner_bytes = sum(map(len, protocols)) + sum(len(each.assignment) for each in members)
        texts_bytes = len(record.group.group_id) + sum(map(len, texts))
        return _RECORD_BYTES * (1 + len(members)) + inner_bytes + texts_bytes
    return _RECORD_BYTES + len(record.group_id)
