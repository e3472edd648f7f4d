"""Which batches of an answer to Fetch belong to aborted transactions.  Pure.

The broker names, for the part of a partition that it returns, each aborted transaction by its
producer and first offset (KIP-98).  The aborted transaction lasts until the producer's next ABORT
marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tidegate_protocol.batches import BatchHeader
from tidegate_protocol.messages.fetch import AbortedTransaction

from ...rules.records.mirrored_batches import ABORT, COMMIT


class Skipping:
    """Takes the batches of one answer in order.

    aborted: the aborted transactions, by rising first offset.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._later = deque(aborted)
        self._now: set[int] = set()

    def skips(self, header: BatchHeader, kind: int) -> bool:
        """Return whether a batch holds nothing for a reader: a marker, or aborted records."""
        while self._later and self._later[0].first_offset <= header.last_offset:
            self._now.add(self._later.popleft().producer_id)
        if kind == ABORT:
            self._now.discard(header.producer_id)
        if kind in (ABORT, COMMIT) or header.is_control:
            return True
        return header.is_transactional and header.producer_id in self._now


def without_aborted(aborted: Sequence[AbortedTransaction] | None) -> Skipping:
    """Return a filter that skips the batches of these transactions; None: it skips none."""
    return Skipping(sorted(aborted or (), key=lambda each: each.first_offset))
