"""Finds the aborted transaction of a batch in the index of its segment.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tidegate_storage.objects.batch_scan import SeenBatch
from tidegate_storage.objects.segment_format import AbortedTransaction


class AbortedIndex:
    """The aborted transactions of a segment; a producer's transactions do not overlap."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for each in sorted(aborted, key=lambda row: row.first_offset):
            places = self._by_producer.setdefault(each.producer_id, [])
            places.append((each.first_offset, each.last_offset))

    def holds(self, batch: SeenBatch) -> bool:
        """Return whether read_committed consumers skip the batch."""
        header = batch.header
        if header.is_control or not header.is_transactional:
            return False
        places = self._by_producer.get(header.producer_id, [])
        index = bisect_right(places, header.base_offset, key=lambda place: place[0])
        return bool(index) and header.base_offset <= places[index - 1][1]
