"""Deleting records: moving the log starts of partitions up.

A proposal holds several partitions and answers them one by one, in order.  topic_ids: see
looked_up.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...configs.validation import split_list
from ...events.cluster import LogStartsMoved
from ...state.topics import Topic
from ..looked_up import found_topic
from ..proposal import HEADS, TOPICS, Decided, View
from ..written_back import reached_of

HIGH_WATERMARK = -1


class DeletionRefusal(Enum):
    """Why no records of a partition were deleted."""

    UNKNOWN_PARTITION = "there is no such partition"
    OUT_OF_RANGE = "the offset is not one of the partition's"
    POLICY = "the topic is compacted, not deleted from"
    MIRRORED = "a link mirrors the topic from another cluster"
    REVERSING = "the records are not yet written back to the topic's source"


class Deletion(NamedTuple):
    """Delete the records before the offset; HIGH_WATERMARK for all, only from older releases.

    Newer gateways send an offset: records that are committed while the proposal waits may be
    acknowledged after its client got an error.
    """

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Move log starts up.  Answer: per partition its log start, or DeletionRefusal.

    A deletion reads heads, so it never shares an entry with an earlier commit. default_policy:
    cleanup.policy of topics that do not set it, at the gateway that was asked.
    """

    deletions: Sequence[Deletion]
    default_policy: str = "delete"
    topic_ids: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    reads: frozenset[str] = field(default=frozenset({TOPICS, HEADS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[int | DeletionRefusal]]:
        """An offset below the log start succeeds and moves nothing."""
        moves: dict[int, int] = {}
        answers = [self._delete(view, each, moves) for each in self.deletions]
        event = LogStartsMoved(tuple(sorted(moves.items())))
        return Decided((event,) if moves else (), answers)

    def _delete(
        self, view: View, deletion: Deletion, moves: dict[int, int]
    ) -> int | DeletionRefusal:
        topic = found_topic(view, deletion.topic, self.topic_ids)
        if topic is None or not 0 <= deletion.partition < len(topic.partition_numbers):
            return DeletionRefusal.UNKNOWN_PARTITION
        if topic.link:
            return DeletionRefusal.MIRRORED
        if self._is_compact_only(topic):
            return DeletionRefusal.POLICY
        partition = view.state.partitions[topic.partition_numbers[deletion.partition]]
        end = partition.next_offset
        offset = end if deletion.before_offset == HIGH_WATERMARK else deletion.before_offset
        if not 0 <= offset <= end:
            return DeletionRefusal.OUT_OF_RANGE
        if offset <= moves.get(partition.number, partition.floor):
            return max(moves.get(partition.number, 0), partition.log_start)
        reached = reached_of(view.state, partition)
        if reached is not None and offset > reached:
            return DeletionRefusal.REVERSING
        moves[partition.number] = offset
        return max(offset, partition.log_start)

    def _is_compact_only(self, topic: Topic) -> bool:
        return split_list(topic.configs.get("cleanup.policy", self.default_policy)) == ("compact",)
