"""The promises about leader epochs: a restore begins a new one, and Metadata shows each new one."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition

from .moment import Moment, Place
from .records import RecordPromises


class EpochPromises:
    """See the module's head."""

    def __init__(self, moment: Moment, records: RecordPromises) -> None:
        self._moment: Final = moment
        self._records: Final = records
        self._restored_at: Final[defaultdict[Place, set[int]]] = defaultdict(set)
        self._state = ClusterState()
        self._told: dict[bytes, tuple[int, tuple[int, ...]]] = {}

    def restored(self) -> None:
        """Record that later records may have offsets of lost ones, except in mirrored topics."""
        for place, partition in self._records.partitions.items():
            if place[0] not in self._records.mirrored:
                self._restored_at[place].add(partition.next_offset)

    def after(self, state: ClusterState) -> None:
        """Check that a topic's version rises with its epochs: a new version renews Metadata.

        Each replica has its own versions.
        """
        if state is not self._state:
            self._state = state
            self._told.clear()
        told: dict[bytes, tuple[int, tuple[int, ...]]] = {}
        for topic in state.topics.by_id.values():
            partitions = (state.partitions[each] for each in topic.partition_numbers)
            epochs = tuple(each.leader_epoch for each in partitions)
            told[topic.topic_id] = topic.version, epochs
            version, before = self._told.get(topic.topic_id, (-1, epochs))
            if version == topic.version and before != epochs:
                self._moment.complain(f"{topic.name} has epochs {epochs}, and tells {before}")
        self._told = told

    def check(self, partition: Partition) -> None:
        """Check that no leader epoch lasts across a restore."""
        place = partition.topic_id, partition.index
        for offset in sorted(self._restored_at[place]):
            if not partition.log_start < offset < partition.next_offset:
                continue
            before, after = partition.epoch_at(offset - 1), partition.epoch_at(offset)
            end = partition.epoch_end(before)
            if before >= after or end is None or end.offset > offset:
                text = f"epochs {before} and {after}, the first ends at {end}"
                self._moment.complain(f"{place} was restored at {offset}: {text}")
