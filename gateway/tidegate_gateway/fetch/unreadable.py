"""Counts and logs records that consumers asked for and could not get.

A consumer retries again and again, so there is one log line per partition and minute.  The line
advises to look at the store first: a faulty store is more likely than a lost object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import structlog

from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.runs import RunRow

from .fetch_plan import ReadProblem, Unread

SAID_EVERY_SECONDS: Final = 60.0
MAX_PARTITIONS: Final = 1000
_LASTING: Final = (ReadProblem.MISSING, ReadProblem.CORRUPT)

_log = structlog.get_logger("tidegate.fetch")


class UnreadableRuns:
    """counts: fetches of unreadable records, by topic and partition; for MAX_PARTITIONS at most."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._said_at: dict[int, float] = {}
        self.counts: Counter[tuple[str, int]] = Counter()

    def note(self, found: Iterable[Unread], now: float) -> None:
        """Count the unreadable runs of a fetch, and log them.  now: of any monotonic clock."""
        for partition, row, problem in found:
            topic = self._state.topics.by_id.get(partition.topic_id)
            if problem not in _LASTING or topic is None:
                continue
            place = (topic.name, partition.index)
            if place in self.counts or len(self.counts) < MAX_PARTITIONS:
                self.counts[place] += 1
            if now - self._said_at.get(partition.number, -SAID_EVERY_SECONDS) < SAID_EVERY_SECONDS:
                continue
            self._forget_old(now)
            self._said_at[partition.number] = now
            _log.error(
                "records cannot be read: look at the object store first;"
                f" `tidegate topic repair {topic.name}` shows what it does not hold",
                topic=topic.name,
                partition=partition.index,
                offsets=f"{row.base_offset} to {row.next_offset - 1}",
                problem=problem.value,
                object=self._key(row),
            )

    def _forget_old(self, now: float) -> None:
        if len(self._said_at) >= MAX_PARTITIONS:
            recent = {
                number: said_at
                for number, said_at in self._said_at.items()
                if now - said_at < SAID_EVERY_SECONDS
            }
            self._said_at = recent if len(recent) < MAX_PARTITIONS else {}

    def _key(self, row: RunRow) -> str:
        name = self._state.objects.name_or_none(row.object_number)
        return object_key(self._state, name) if name is not None else "collected"
