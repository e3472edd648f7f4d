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
        self._now_ms = 0
        self._given_ms: dict[int, int] = {}
        self._old: set[int] = set()
        self._blocks: list[tuple[int, int]] = []
        self._old_below = 0

    def before(self, event: AnyEvent, now_ms: int) -> None:
        """Record log time, and which producers the cluster may have forgotten."""
        self._now_ms = now_ms
        if isinstance(event, ProducerIdsReserved):
            self._blocks.append((event.first + event.count, now_ms))
        if isinstance(event, ProducersExpired):
            self._expired(event.before_ms)

    def _expired(self, before_ms: int) -> None:
        gone = [each for each, since in self._given_ms.items() if since < before_ms]
        self._old.update(gone)
        for producer_id in gone:
            del self._given_ms[producer_id]
        while self._blocks and self._blocks[0][1] < before_ms:
            self._old_below = self._blocks.pop(0)[0]

    def given(self, producer_id: int) -> None:
        """6: a client gets an id of a young block: a gap before its first batch is refused."""
        self._given_ms[producer_id] = self._now_ms
        if producer_id < self._old_below:
            self._broken(6, f"producer id {producer_id} is new, but counts as old")

    def had_written(self, batch: ProducerBatch) -> None:
        """Record a batch as the last one of a producer whose state the cluster has forgotten."""
        self._last[batch.partition, batch.producer_id] = batch

    def committed(self, batch: ProducerBatch) -> None:
        """6: sequences follow each other, in the order of offsets.

        The first batch of an id that was given longer ago than producer.id.expiration.ms may have
        any sequence: as in Kafka, a producer that the cluster has forgotten looks like one that
        wrote nothing.
        """
        who = (batch.partition, batch.producer_id)
        last = self._last.get(who)
        self._last[who] = batch
        expected = 0
        if last is not None and last.producer_epoch == batch.producer_epoch:
            expected = (last.last_sequence + 1) % _SEQUENCE_LIMIT
        elif last is None and batch.producer_id in self._old:
            expected = batch.first_sequence
        if batch.first_sequence != expected:
            self._broken(6, f"{batch} where sequence {expected} was next")
        if last is not None and batch.base_offset <= last.base_offset:
            self._broken(6, f"{batch} after {last}")
