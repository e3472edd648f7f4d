"""Invariant 6: which sequences of idempotent producers may follow each other."""

from __future__ import annotations

from tidegate_coordination.events.cluster import (
    ProducerBatch,
    ProducerIdsReserved,
    ProducersExpired,
)
from tidegate_simulation.checks.sequence_checks import SequenceWatch

ID = 7


def batch(sequence: int, offset: int) -> ProducerBatch:
    """Return a batch of one record of partition 1."""
    return ProducerBatch(1, ID, 0, sequence, sequence, offset)


def watched() -> tuple[SequenceWatch, list[int]]:
    """Return a watch, and the invariants that it found broken."""
    broken: list[int] = []
    watch = SequenceWatch(lambda number, _: broken.append(number))
    watch.before(ProducersExpired(0), 1000)
    watch.given(ID)
    return watch, broken


def test_a_gap_is_found() -> None:
    watch, broken = watched()
    watch.committed(batch(0, 0))
    watch.committed(batch(2, 1))
    assert broken == [6]


def test_a_young_producer_begins_at_zero() -> None:
    watch, broken = watched()
    watch.before(ProducersExpired(1000), 9000)
    watch.committed(batch(9, 0))
    assert broken == [6]


def test_a_producer_that_may_be_forgotten_begins_anywhere() -> None:
    watch, broken = watched()
    watch.before(ProducersExpired(1001), 9000)
    watch.committed(batch(9, 0))
    watch.committed(batch(10, 1))
    assert broken == []
    watch.committed(batch(12, 2))
    assert broken == [6]


def test_a_new_id_of_an_old_block_is_found() -> None:
    watch, broken = watched()
    watch.before(ProducerIdsReserved(1000, 1000), 2000)
    watch.before(ProducerIdsReserved(2000, 1000), 3000)
    watch.before(ProducersExpired(2000), 9000)
    watch.given(1999)
    assert broken == []
    watch.before(ProducersExpired(2001), 9000)
    watch.given(2000)
    assert broken == []
    watch.given(1999)
    assert broken == [6]
