"""The positions of consumers that read old records.  Pure."""

from __future__ import annotations

from tidegate_gateway.fetch.cold_readers import ACTIVE_SECONDS, ColdReaders


def test_a_lone_cold_reader_passes_ranges_at_once() -> None:
    readers = ColdReaders()
    assert readers.note(1, "a", 10, 0.0) == (10, 10)
    assert readers.note(1, "a", 25, 0.1) == (10, 25)
    assert readers.note(1, "a", 25, 0.2) == (25, 25)


def test_a_range_is_passed_once_all_cold_readers_have_passed_it() -> None:
    readers = ColdReaders()
    assert readers.note(1, "a", 10, 0.0) == (10, 10)
    assert readers.note(1, "b", 20, 0.0) == (10, 10)
    assert readers.note(1, "b", 40, 0.1) == (10, 10)
    assert readers.note(1, "a", 30, 0.2) == (10, 30)
    assert readers.note(1, "a", 60, 0.3) == (30, 40)


def test_a_late_cold_reader_keeps_the_ranges_that_it_has_not_read() -> None:
    readers = ColdReaders()
    readers.note(1, "a", 50, 0.0)
    start, end = readers.note(1, "late", 10, 0.1)
    assert start >= end
    assert readers.note(1, "a", 70, 0.2) == (10, 10)
    assert readers.note(1, "late", 30, 0.3) == (10, 30)


def test_partitions_have_readers_of_their_own() -> None:
    readers = ColdReaders()
    readers.note(1, "a", 5, 0.0)
    readers.note(2, "a", 7, 0.0)
    readers.note(2, "b", 9, 0.0)
    assert readers.note(1, "a", 6, 0.1) == (5, 6)
    assert (len(readers), readers.partitions) == (3, 2)


def test_a_cold_reader_that_stops_fetching_is_forgotten() -> None:
    readers = ColdReaders()
    readers.note(1, "gone", 10, 0.0)
    readers.note(2, "gone", 10, 0.0)
    readers.note(1, "a", 20, 1.0)
    assert readers.note(1, "a", 30, ACTIVE_SECONDS + 0.5) == (10, 30)
    assert (len(readers), readers.partitions) == (1, 1)


def test_a_lone_cold_reader_resumes_after_a_pause() -> None:
    readers = ColdReaders()
    readers.note(1, "a", 10, 0.0)
    assert readers.note(1, "a", 20, 10 * ACTIVE_SECONDS) == (10, 20)
