"""The progress of one mirrored partition at the gateway that mirrors it.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.messages.fetch import PartitionData

FIRST_PAUSE_SECONDS: Final = 1.0
LAST_PAUSE_SECONDS: Final = 30.0


@dataclass(slots=True, eq=False)
class PartitionMirror:
    """See the module's head.

    end: the partition's end offset once all batches at the writer are committed. position: the
    offset of the next fetch.  It is above `end` in one case: before the batch that holds the
    source's log start, since the whole batch is copied.  epoch: the leader epoch of the last batch
    before position; -1 if there is none. unsettled: the number of batches at the writer.  is_lost:
    one of these was refused, or its outcome is unknown; once all are settled, `rewind` starts again
    at the partition's end.  high_watermark, source_start: of the source's log; -1 if unknown.
    empty_rounds: how many fetches had no batch though the source's end was above position.
    problem: why the partition is not mirrored now, for people; "" if it is.  not_before: no fetch
    before this time on trio's clock.
    """

    topic: Topic
    index: int
    number: int
    position: int = 0
    end: int = 0
    epoch: int = -1
    unsettled: int = 0
    is_lost: bool = True
    high_watermark: int = -1
    source_start: int = -1
    empty_rounds: int = 0
    problem: str = ""
    not_before: float = 0.0
    _pause_seconds: float = FIRST_PAUSE_SECONDS

    @property
    def may_rewind(self) -> bool:
        """Return whether `rewind` should be called."""
        return self.is_lost and not self.unsettled

    def is_due(self, now: float) -> bool:
        """Return whether to fetch the partition now."""
        return not self.is_lost and now >= self.not_before

    def rewind(self, partition: Partition) -> None:
        """Continue at the partition's end.  The caller has read the log to its end."""
        self.position = self.end = partition.next_offset
        self.epoch = partition.leader_epoch if len(partition.runs) else -1
        self.is_lost = False
        self.empty_rounds = 0

    def pause(self, now: float, problem: str) -> None:
        """Do not fetch for a while, which is longer each time."""
        self.problem = problem
        self.not_before = now + self._pause_seconds
        self._pause_seconds = min(self._pause_seconds * 2, LAST_PAUSE_SECONDS)

    def rest(self, now: float) -> None:
        """Do not fetch for a moment; nothing is wrong."""
        self.not_before = max(self.not_before, now + FIRST_PAUSE_SECONDS)

    def goes_on(self) -> None:
        """Note an answer without an error: the next pause is short again."""
        self.problem = ""
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def given(self, next_offset: int, epoch: int) -> None:
        """Note that the writer has got a batch, with its end and leader epoch."""
        self.position = self.end = next_offset
        self.epoch = max(self.epoch, epoch)
        self.unsettled += 1
        self.empty_rounds = 0

    def settled(self, outcome: BatchOutcome | None, now: float) -> None:
        """Note the outcome of a batch; None if it is unknown."""
        self.unsettled -= 1
        # A base offset below 0: the object was already committed, and which batches were accepted
        # is unknown.
        if outcome is not None and outcome.refusal is None and outcome.base_offset >= 0:
            return
        if not self.is_lost:
            reason = outcome.refusal.value if outcome is not None and outcome.refusal else ""
            self.pause(now, f"a batch was not written: {reason or 'its outcome is unknown'}")
        self.is_lost = True

    def lag_records(self, partition: Partition) -> int:
        """Return how many offsets the copy lacks, by the last answer of the source."""
        return max(self.high_watermark - partition.next_offset, 0)


def diverged(mirror: PartitionMirror, data: PartitionData) -> str:
    """Return a text that explains the diverging epoch in the source's answer."""
    assert data.diverging_epoch is not None
    epoch, end = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
    return (
        f"the source has another history from offset {end} on (its epoch {epoch} ends there), and"
        f" the copy goes to {mirror.position}: it lost records in an unclean election"
    )
