"""Decides which batches of a source's answer belong to a unit, and where the unit ends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate_coordination.client.fetched_batches import FetchedBatch, fetched_batches

from .work import ANOTHERS, Ending, ImportUnit


@dataclass(slots=True)
class UnitWalk:
    """The progress of a unit.

    position: the first offset to ask the source for.  epoch: the leader epoch of the last batch
    before that offset, or -1.
    ending: None while the unit continues.
    """

    unit: ImportUnit
    position: int
    epoch: int
    read_bytes: int = 0
    ending: Ending | None = None

    @classmethod
    def begin(cls, unit: ImportUnit) -> UnitWalk:
        """Return the walk before the first answer."""
        walk = cls(unit, unit.start, unit.epoch)
        if unit.start >= unit.stop:
            walk.ending = Ending.WHOLE
        return walk

    @property
    def is_at_start(self) -> bool:
        """Return whether no batch was taken yet."""
        return self.position == self.unit.start

    def take(self, records: memoryview) -> list[FetchedBatch]:
        """Return the unit's batches among those that the source gave from `position` on.

        Raises:
          BadBatch: the first batch is damaged, is of an older format, or begins before `least`.
        """
        taken: list[FetchedBatch] = []
        for each in fetched_batches(records, self.position, after=self._after()):
            if each.mirrored.base_offset >= self.unit.stop:
                self.ending = Ending.WHOLE
                break
            self.position = each.mirrored.next_offset
            if each.mirrored.base_offset >= self.unit.start or self.unit.least != ANOTHERS:
                self.epoch = max(self.epoch, each.mirrored.leader_epoch)
                self.read_bytes += len(each.data)
                taken.append(each)
        self._end()
        return taken

    def _after(self) -> int:
        return max(self.unit.least, 0) if self.is_at_start else self.position

    def _end(self) -> None:
        if self.ending is not None:
            return
        if self.position >= self.unit.stop:
            self.ending = Ending.WHOLE
        elif self.read_bytes >= self.unit.budget_bytes:
            self.ending = Ending.EARLY

    def cut(self, batches: Sequence[FetchedBatch]) -> None:
        """End the unit before these batches, which were taken last and will not be written."""
        if batches:
            self.position = batches[0].mirrored.after
            self.read_bytes -= sum(len(each.data) for each in batches)
            self.ending = Ending.EARLY

    @property
    def next_offset(self) -> int:
        """Return UnitDone.next_offset."""
        is_whole = self.ending is Ending.WHOLE
        return max(self.position, self.unit.stop) if is_whole else self.position
