"""The sequences of idempotent producers in committed batches: invariant 6."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.events.cluster import (
    ProducerBatch,
    ProducerIdsReserved,
    ProducersExpired,
)
from tidegate_coordination.events.entries import AnyEvent

_SEQUENCE_LIMIT = 2**31


class SequenceWatch:
    """Keeps the last batch of each producer.

    broken: called with the number of the invariant and a text about the violation.
    """

    def __init__(self, broken: Callable[[int, str], None]) -> None:
        self._broken = broken
        self._last: dict[tuple[int, int], ProducerBatch] = {}
        self._reserved: list[tuple[range, int]] = []
        self._old: list[range] = []

    def before(self, event: AnyEvent, now_ms: int) -> None:
        """Record which ids may be assigned from now on, and which are so old that the cluster may
        have forgotten them.
        """
        if isinstance(event, ProducerIdsReserved):
            self._reserved.append((range(event.first, event.first + event.count), now_ms))
        elif isinstance(event, ProducersExpired):
            self._old += [ids for ids, since in self._reserved if since < event.before_ms]
            self._reserved = [each for each in self._reserved if each[1] >= event.before_ms]

    def had_written(self, batch: ProducerBatch) -> None:
        """Record a batch as the last one of a producer whose state the cluster has forgotten."""
        self._last[batch.partition, batch.producer_id] = batch

    def committed(self, batch: ProducerBatch) -> None:
        """6: sequences follow each other, in the order of offsets.

        The first batch of an id that is older than producer.id.expiration.ms may have any sequence:
        as in Kafka, a producer that the cluster has forgotten looks like one that wrote nothing.
        """
        who = (batch.partition, batch.producer_id)
        last = self._last.get(who)
        self._last[who] = batch
        expected = 0
        if last is not None and last.producer_epoch == batch.producer_epoch:
            expected = (last.last_sequence + 1) % _SEQUENCE_LIMIT
        elif last is None and any(batch.producer_id in ids for ids in self._old):
            expected = batch.first_sequence
        if batch.first_sequence != expected:
            self._broken(6, f"{batch} where sequence {expected} was next")
        if last is not None and batch.base_offset <= last.base_offset:
            self._broken(6, f"{batch} after {last}")
