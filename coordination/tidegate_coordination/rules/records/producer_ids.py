"""Reserves producer ids in blocks, and forgets producers that stopped writing."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...events.cluster import ProducerIdsReserved, ProducersExpired
from ..proposal import HEADS, NOTHING, PRODUCER_IDS, Decided, View


@dataclass(frozen=True, slots=True)
class ReserveProducerIds:
    """Reserve a block of producer ids.  Answer: the first of `count` ids."""

    count: int
    reads: frozenset[str] = field(default=frozenset({PRODUCER_IDS}), init=False)
    writes: frozenset[str] = field(default=frozenset({PRODUCER_IDS}), init=False)

    def decide(self, view: View) -> Decided[int]:
        """Give out ids that were never given out before."""
        first = view.state.producer_ids.next_id
        return Decided((ProducerIdsReserved(first, self.count),), first)


@dataclass(frozen=True, slots=True)
class ExpireProducers:
    """Forget producer states not written for `expiration_ms` of log time.  Answer: None."""

    expiration_ms: int
    reads: frozenset[str] = field(default=frozenset({HEADS, PRODUCER_IDS}), init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[None]:
        """Return no event if no producer is that old, so an idle cluster writes no entries."""
        before_ms = view.log_time_ms - self.expiration_ms
        old = any(
            producer.last_write_ms < before_ms
            for partition in view.state.partitions.values()
            for producer in partition.producers.values()
        )
        return Decided((ProducersExpired(before_ms),) if old else (), None)
