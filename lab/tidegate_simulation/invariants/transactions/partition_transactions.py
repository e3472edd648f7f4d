"""A naive replay of the transactions of one partition: batches and markers, one after the other.

It knows only the stored batches and the events that end transactions, not the cluster state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class AbortedOne(NamedTuple):
    """An aborted transaction.  first: of its first batch.  last: of its marker."""

    producer_id: int
    first: int
    last: int


@dataclass(slots=True)
class PartitionTransactions:
    """open: first offset by producer id.  aborted: by the offset of the marker.

    next_offset: -1 until a batch or a marker was seen.
    """

    open: dict[int, int] = field(default_factory=dict[int, int])
    aborted: dict[int, AbortedOne] = field(default_factory=dict[int, AbortedOne])
    next_offset: int = -1

    def write(self, producer_id: int, offset: int) -> None:
        """Take a transactional batch."""
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, offset: int, *, committed: bool) -> None:
        """Take a marker."""
        first = self.open.pop(producer_id, None)
        if first is not None and not committed:
            self.aborted[offset] = AbortedOne(producer_id, first, offset)
        self.next_offset = offset + 1

    def stable_offset(self, log_start: int, next_offset: int) -> int:
        """Return the last stable offset."""
        return max(log_start, min(self.open.values())) if self.open else next_offset
