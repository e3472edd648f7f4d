"""One partition of `__consumer_offsets`, as far as transactions need it.  Pure.

Offsets of an open transaction are staged here.  A commit marker publishes them, except where a
later plain commit stands; an abort marker drops them.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate_protocol.error_codes import ErrorCode

from .model_topics import CommittedOffset, PartitionKey
from .refusals import Refused


class GroupKey(NamedTuple):
    """A partition for which a group commits."""

    group_id: str
    key: PartitionKey


class Staged(NamedTuple):
    """An offset that waits for a marker, and its place in the log."""

    committed: CommittedOffset
    position: int


class OffsetsPartition:
    """The committed and the staged offsets of one partition."""

    def __init__(self) -> None:
        self._end = 0
        self._epochs: dict[int, int] = {}
        self._staged: dict[int, dict[GroupKey, Staged]] = {}
        self._committed_at: dict[GroupKey, int] = {}

    def _next_position(self) -> int:
        self._end += 1
        return self._end

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has a transaction here."""
        return producer_id in self._staged and self._epochs[producer_id] == epoch

    def stage(
        self, producer_id: int, epoch: int, group_key: GroupKey, committed: CommittedOffset
    ) -> None:
        """Keep an offset until the marker comes.

        Raises:
          Refused: INVALID_PRODUCER_EPOCH.
        """
        if epoch < self._epochs.get(producer_id, epoch):
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, "fenced")
        self._epochs[producer_id] = epoch
        staged = self._staged.setdefault(producer_id, {})
        staged[group_key] = Staged(committed, self._next_position())

    def committed(self, group_key: GroupKey) -> None:
        """Note a plain commit."""
        self._committed_at[group_key] = self._next_position()

    def end(
        self, producer_id: int, epoch: int, *, commits: bool
    ) -> dict[GroupKey, CommittedOffset]:
        """Take a marker; return what it publishes."""
        self._epochs[producer_id] = epoch
        staged = self._staged.pop(producer_id, {})
        if not commits:
            return {}
        newest = {
            each: found
            for each, found in staged.items()
            if found.position > self._committed_at.get(each, 0)
        }
        self._committed_at |= {each: found.position for each, found in newest.items()}
        return {each: found.committed for each, found in newest.items()}

    def is_pending(self, group_key: GroupKey) -> bool:
        """Return whether an open transaction has an offset for the partition."""
        return any(group_key in each for each in self._staged.values())

    def forget_topic(self, topic: str) -> None:
        """Drop what is known of a deleted topic."""
        self._forget([each for each in self._known() if each.key.topic == topic])

    def forget_group(self, group_id: str) -> None:
        """Drop what is known of a deleted group."""
        self._forget([each for each in self._known() if each.group_id == group_id])

    def forget(self, group_key: GroupKey) -> None:
        """Drop a deleted offset, staged ones included."""
        self._forget([group_key])

    def _known(self) -> set[GroupKey]:
        return set(self._committed_at).union(*self._staged.values())

    def _forget(self, gone: list[GroupKey]) -> None:
        for each in gone:
            self._committed_at.pop(each, None)
            for staged in self._staged.values():
                staged.pop(each, None)
