"""Leader epochs of one partition and the offset where each begins (KIP-101).  Pure."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class EpochStart(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochHistory:
    """The epochs in order; both columns only rise."""

    def __init__(self) -> None:
        self._starts: list[EpochStart] = []

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """All epochs that have records or are current."""
        return tuple(self._starts)

    @property
    def latest(self) -> int:
        """The last epoch; UNKNOWN if there is none."""
        return self._starts[-1].epoch if self._starts else UNKNOWN

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin an epoch, and forget those that contradict it: empty epochs and later ones."""
        if self._starts and self._starts[-1].epoch == epoch:
            return
        while self._starts and (
            self._starts[-1].epoch >= epoch or self._starts[-1].start_offset >= start_offset
        ):
            self._starts.pop()
        self._starts.append(EpochStart(epoch, start_offset))

    def truncate_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at end_offset or later."""
        while self._starts and self._starts[-1].start_offset >= end_offset:
            self._starts.pop()

    def truncate_start(self, start_offset: int) -> None:
        """Let the first epoch begin at start_offset, and forget those before it."""
        gone = [each for each in self._starts if each.start_offset <= start_offset]
        if gone:
            kept = self._starts[len(gone) :]
            self._starts = [EpochStart(gone[-1].epoch, start_offset), *kept]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of an offset; UNKNOWN before the first."""
        found = [each.epoch for each in self._starts if each.start_offset <= offset]
        return found[-1] if found else UNKNOWN

    def end_of(self, epoch: int, end_offset: int) -> EpochStart:
        """Return the largest epoch that is not above the one asked for, and where it ends.

        (UNKNOWN, UNKNOWN) if the log knows no such epoch; end_offset is the log's.
        """
        if epoch != UNKNOWN and epoch == self.latest:
            return EpochStart(epoch, end_offset)
        later = [each for each in self._starts if each.epoch > epoch]
        if epoch == UNKNOWN or not later:
            return EpochStart(UNKNOWN, UNKNOWN)
        earlier = [each.epoch for each in self._starts if each.epoch <= epoch]
        return EpochStart(earlier[-1] if earlier else epoch, later[0].start_offset)
