"""Compaction of transactions: their data, markers, and entries in indexes."""

from __future__ import annotations

from tests.pipeline.test_compaction_rules import batch_of, learned
from tidegate_pipeline.tasks.compaction import AbortedSet, Cleaner, LatestOffsets
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.records import read_header
from tidegate_storage.objects.segment_format import AbortedTransaction

PRODUCER = 7
BELOW = 100


def data(base: int, *pairs: tuple[str, str | None], producer: int = PRODUCER) -> bytes:
    return batch_of(base, *pairs, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0)


def marker(base: int, *, committed: bool, producer: int = PRODUCER) -> bytes:
    return control_batch(
        base_offset=base,
        leader_epoch=0,
        timestamp_ms=5,
        producer_id=producer,
        producer_epoch=0,
        committed=committed,
    )


def aborted(*spans: tuple[int, int], producer: int = PRODUCER) -> AbortedSet:
    found = AbortedSet()
    found.add(AbortedTransaction(producer, *span) for span in spans)
    return found


def bases(cleaner: Cleaner, *batches: bytes) -> list[int]:
    """The base offsets of the batches that stay, none of which is the round's last one."""
    left = [cleaner.clean(memoryview(each), is_last=False) for each in batches]
    return [read_header(each).base_offset for each in left if each is not None]


def test_aborted_records_go_at_once_and_supersede_nothing() -> None:
    batches = [data(0, ("a", "1")), marker(1, committed=True), data(2, ("a", "2"))]
    latest = LatestOffsets(0)
    for each in batches:
        latest.add(memoryview(each), aborted((2, 3)))
    cleaner = Cleaner(latest, 0, aborted((2, 3)))
    assert bases(cleaner, *batches, marker(3, committed=False)) == [0, 1, 3]
    assert (cleaner.removed.aborted, cleaner.removed.total) == (1, 1)


def test_the_marker_of_a_commit_goes_with_its_last_data() -> None:
    batches = [data(0, ("a", "1")), marker(1, committed=True), batch_of(2, ("b", "2"))]
    assert bases(Cleaner(learned(*batches), BELOW, aborted()), *batches) == [0, 1, 2]
    latest = learned(*batches, batch_of(3, ("a", "3")))
    assert bases(Cleaner(latest, 1, aborted()), *batches) == [1, 2]
    assert bases(Cleaner(latest, BELOW, aborted()), *batches) == [2]


def test_the_marker_of_an_abort_goes_a_round_after_all_its_entries() -> None:
    """Segments of a round may be published separately.

    If a reader finds the entry in one segment, but no marker in another, it drops later records of
    the producer.
    """
    batches = [data(0, ("a", "1")), marker(1, committed=False)]
    known = Cleaner(learned(), BELOW, aborted((0, 1)))
    assert not known.keeps_entry(AbortedTransaction(PRODUCER, 0, 1))
    assert bases(known, *batches) == [1]
    assert bases(Cleaner(learned(), BELOW, aborted()), batches[1]) == []


def test_an_entry_stays_as_long_as_a_tombstone_would() -> None:
    cleaner = Cleaner(learned(), BELOW, aborted())
    assert not cleaner.keeps_entry(AbortedTransaction(PRODUCER, 0, BELOW - 1))
    assert cleaner.keeps_entry(AbortedTransaction(PRODUCER, 0, BELOW))


def test_each_batch_belongs_to_the_transaction_that_spans_it() -> None:
    spans = [(30, 39), (10, 19), (50, 59), (10, 19)]
    found = aborted(*spans)
    is_in = [base for base in range(70) if found.holds(read_header(data(base, ("a", "1"))))]
    assert is_in == [*range(10, 20), *range(30, 40), *range(50, 60)]
    other = data(12, ("a", "1"), producer=8)
    assert not found.holds(read_header(other))
    assert not found.holds(read_header(batch_of(12, ("a", "1"), producer_id=PRODUCER)))
    assert not found.holds(read_header(marker(19, committed=False)))


def test_the_last_batch_stays_even_if_it_is_a_marker() -> None:
    last = marker(1, committed=True)
    cleaner = Cleaner(learned(), BELOW, aborted())
    assert bytes(cleaner.clean(memoryview(last), is_last=True) or b"") == last
