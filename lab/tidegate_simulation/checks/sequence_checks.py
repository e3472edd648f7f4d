"""The sequences of idempotent producers in committed batches: invariant 6."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.events.cluster import ProducerBatch

_SEQUENCE_LIMIT = 2**31


class SequenceWatch:
    """Keeps the last batch of each producer.

    broken: called with the number of the invariant and a text about the violation.
    """

    def __init__(self, broken: Callable[[int, str], None]) -> None:
        self._broken = broken
        self._last: dict[tuple[int, int], ProducerBatch] = {}

    def had_written(self, batch: ProducerBatch) -> None:
        """Record a batch as the last one of a producer whose state the cluster has forgotten."""
        self._last[batch.partition, batch.producer_id] = batch

    def committed(self, batch: ProducerBatch) -> None:
        """6: sequences follow each other, in the order of offsets."""
        who = (batch.partition, batch.producer_id)
        last = self._last.get(who)
        self._last[who] = batch
        expected = 0
        if last is not None and last.producer_epoch == batch.producer_epoch:
            expected = (last.last_sequence + 1) % _SEQUENCE_LIMIT
        if batch.first_sequence != expected:
            self._broken(6, f"{batch} where sequence {expected} was next")
        if last is not None and batch.base_offset <= last.base_offset:
            self._broken(6, f"{batch} after {last}")
