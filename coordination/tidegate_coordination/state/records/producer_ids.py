"""The producer ids that were assigned, and roughly when.

A cluster assigns the ids of one range of 2^40, and counts no others: a client can write with any
id, even with one that it made up.  The range is drawn when the cluster is created, so two clusters
hardly ever share ids.  Then records of one cluster can be distinguished from those of another, or
moved there.  Clusters from before metadata.version 3 have the first range.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from ...events.cluster import ProducerIdsReserved
from ..broken import expect

_RANGE_BITS: Final = 40
_RANGES: Final = 1 << 22
FIRST_IDS: Final = range(0, _RANGES << _RANGE_BITS, 1 << _RANGE_BITS)
"""Where ranges begin."""


def drawn_first_id(cluster_id: str) -> int:
    """Return the first id of a new cluster: its cluster id is random, so the hash's bits are,
    too.
    """
    drawn = int.from_bytes(sha256(cluster_id.encode()).digest()[:4])
    return FIRST_IDS[1 + drawn % (_RANGES - 1)]  # the first range is that of older clusters


class ProducerIdTable:
    """Blocks of producer ids; unique for ever."""

    def __init__(self) -> None:
        self.next_id = 0
        self._blocks: list[tuple[int, int]] = []

    @property
    def own(self) -> range:
        """Return all ids that the cluster may ever give out."""
        first = self.next_id >> _RANGE_BITS << _RANGE_BITS
        return range(first, first + (1 << _RANGE_BITS))

    def was_given(self, producer_id: int) -> bool:
        """Return whether an id can have been assigned: others are made up, or another cluster's."""
        return self.own.start <= producer_id < self.next_id

    def fold_begun(self, first: int) -> None:
        """Begin with that id."""
        self.next_id = first

    def fold_reserved(self, event: ProducerIdsReserved, log_time_ms: int) -> None:
        """Give a block to a gateway."""
        expect(event.first == self.next_id, f"producer ids from {event.first}")
        self.next_id = event.first + event.count
        self._blocks.append((event.first, log_time_ms))

    def fold_skipped(self, first: int) -> None:
        """Never assign ids below `first`; no present id counts as young any more.

        Producers that are younger than a backup may have written batches that the restored state
        lacks.
        """
        self.next_id = max(self.next_id, first)
        self._blocks = []

    def fold_expired(self, before_ms: int) -> None:
        """Forget the reservation times of blocks that were reserved before a log time."""
        self._blocks = [block for block in self._blocks if block[1] >= before_ms]

    def is_young(self, producer_id: int) -> bool:
        """Return whether the id was reserved so recently that no state of it can have expired."""
        return bool(self._blocks) and self._blocks[0][0] <= producer_id < self.next_id

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return {"next": self.next_id, "blocks": [list(block) for block in self._blocks]}

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self.next_id = table["next"]
        self._blocks = [(first, since) for first, since in table["blocks"]]
