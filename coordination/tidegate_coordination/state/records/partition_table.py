"""All partitions by their dense number."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from ..broken import expect
from ..frozen import FrozenRows
from .epochs import NO_EPOCHS, Epochs, EpochStart, with_epoch
from .partition_rows import decode_partition, encode_partition
from .partitions import Partition


class PartitionTable(dict[int, Partition]):
    """All partitions by number; numbers are given out in order, each once.

    Each record needs several look-ups of its partition, so the table is a dict; partitions of
    deleted topics are removed.  first_epoch: the epoch in which new partitions begin.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shared_epochs: dict[Epochs, Epochs] = {}
        self.next_number = 0
        self.first_epoch = 0

    def highest_producer_id(self, counts: Callable[[int], bool] = lambda _: True) -> int:
        """Return the highest producer id for which `counts` holds in the states of all partitions.

        It is -1 if there is none.
        """
        met = (producer for each in self.values() for producer in each.producers)
        return max(filter(counts, met), default=-1)

    def add(self, topic_id: bytes, first_index: int, count: int) -> list[int]:
        """Make partitions; return their numbers."""
        epoch = self.first_epoch
        epochs = self._shared((EpochStart(epoch, 0),)) if epoch else NO_EPOCHS
        return self._add(topic_id, first_index, count, epochs)

    def add_without_epochs(self, topic_id: bytes, first_index: int, count: int) -> list[int]:
        """Make mirrored partitions, which have the epochs of another cluster."""
        return self._add(topic_id, first_index, count, NO_EPOCHS)

    def _add(self, topic_id: bytes, first_index: int, count: int, epochs: Epochs) -> list[int]:
        numbers = list(range(self.next_number, self.next_number + count))
        for place, number in enumerate(numbers):
            added = Partition(number, topic_id, first_index + place, epochs=epochs)
            self[number] = added
        self.next_number += count
        return numbers

    def remove(self, number: int) -> Partition:
        """Drop a partition of a deleted topic and return it."""
        expect(number in self, f"partition {number} is unknown")
        return self.pop(number)

    def fold_epochs_opened(
        self, step: int, at_least: int, mirrored: Set[int] = frozenset()
    ) -> None:
        """Begin a new epoch at the end of each partition; new partitions begin in it, too.

        Mirrored partitions are left out: their source has lost nothing, and gives the same offsets
        again.

        step: how far epochs rise: one, and one more for each epoch that may have been opened
        unseen.  at_least: epochs below it may have been opened without leaving a trace.
        """
        self.first_epoch = max(self.first_epoch + step, at_least)
        for each in self.values():
            if each.number in mirrored:
                continue
            epoch = max(each.leader_epoch + step, at_least)
            each.epochs = self._shared(with_epoch(each.epochs, epoch, each.next_offset))

    def _shared(self, epochs: Epochs) -> Epochs:
        """Return one object for equal histories of one epoch from offset 0: these are few."""
        is_first = len(epochs) == 1 and epochs[0].offset == 0
        return self._shared_epochs.setdefault(epochs, epochs) if is_first else epochs

    def frozen(self, *, is_wide: bool) -> FrozenRows[int]:
        """Return all rows as they are now; is_wide: see Runs.encode()."""

        def encode(number: int) -> object:
            return encode_partition(self[number], is_wide=is_wide)

        numbers, end = list(self), self.next_number
        return FrozenRows(
            "partitions", [numbers], encode, was_here=lambda each: each < end, is_rising=True
        )

    def decode(self, rows: list[Any]) -> None:
        """Add some of the frozen rows, in their order."""
        for row in rows:
            decoded = self[row[0]] = decode_partition(row)
            if decoded.epochs:
                decoded.epochs = self._shared(decoded.epochs)
