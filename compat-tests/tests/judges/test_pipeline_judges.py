"""The judges of the pipeline with real clients find every planted fault, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compaction.workloads import Row, all_workloads, survivors
from pipeline.ledger import Found, Judge, Ledger


def ledger_of(count: int, *, is_exact: bool = True, is_compacted: bool = False) -> Ledger:
    """A stream whose records 0, 1, ... are acknowledged at offsets 0, 1, ..."""
    made = Ledger("t", 0, "none", is_exact, is_compacted)
    for number in range(count):
        made.timestamps.append(1_000 + number)
        made.acknowledge(number, number)
    return made


def judged(ledger: Ledger, *places: tuple[int, int], start: int = 0) -> Judge:
    """Read records (offset, number)."""
    judge = Judge(ledger, start)
    for offset, number in places:
        judge.take(Found(offset, ledger.record(number)))
    return judge


def test_acknowledged_records_that_are_found_are_no_problem() -> None:
    judge = judged(ledger_of(3), (0, 0), (1, 1), (2, 2))
    assert (judge.problems, judge.gaps, list(judge.missing(3))) == ([], [], [])


@pytest.mark.parametrize(
    ("places", "problem"),
    [
        ([(0, 0), (1, 2)], "offset 1: holds 2, but 1 was acknowledged there"),
        ([(1, 1), (0, 0)], "offset 0: comes after 1"),
        ([(0, 0), (1, 1), (2, 2), (3, 1)], "offset 3: record 1 is at offset 1, too"),
    ],
)
def test_a_record_in_another_partition_is_reported(
    places: list[tuple[int, int]], problem: str
) -> None:
    assert judged(ledger_of(3), *places).problems == [f"t/0 {problem}"]


def test_a_record_with_another_value_is_reported() -> None:
    ledger = ledger_of(1)
    for change in ({"value": b"x"}, {"key": b"x"}, {"timestamp_ms": 9}, {"headers": [("n", b"7")]}):
        judge = Judge(ledger, 0)
        judge.take(Found(0, replace(ledger.record(0), **change)))
        assert judge.problems


def test_a_missing_record_is_reported() -> None:
    judge = judged(ledger_of(4), (0, 0), (3, 3))
    assert judge.gaps == [(1, 3)]
    assert list(judge.missing(4)) == [1, 2]
    assert list(judged(ledger_of(4), (2, 2), (3, 3), start=2).missing(4)) == []


def test_a_record_without_an_answer_may_be_there_and_must_stay() -> None:
    ledger = ledger_of(2)
    ledger.timestamps.append(5)
    first = judged(ledger, (0, 0), (1, 1), (2, 2))
    assert first.problems == []
    first.adopt()
    assert list(judged(ledger, (0, 0), (1, 1)).missing(3)) == [2]


def test_a_producer_that_is_not_idempotent_may_write_twice() -> None:
    ledger = ledger_of(2, is_exact=False)
    assert judged(ledger, (0, 0), (1, 1), (2, 1)).problems == []


def test_the_newest_of_each_key_must_be_there() -> None:
    ledger = ledger_of(400, is_compacted=True)
    newest = {ledger.key_of(number): number for number in range(400)}
    kept = sorted(newest.values())
    assert list(judged(ledger, *zip(kept, kept, strict=True)).lost_keys(400)) == []
    values = [each for each in kept if not ledger.is_tombstone(each)]
    assert list(judged(ledger, *zip(values, values, strict=True)).lost_keys(400)) == []
    assert len(values) < len(kept)

    lost = [each for each in kept if each != values[0]]
    [problem] = judged(ledger, *zip(lost, lost, strict=True)).lost_keys(400)
    assert f"not its value at {values[0]}" in problem


def test_an_old_value_must_not_come_back_behind_a_tombstone() -> None:
    ledger = ledger_of(400, is_compacted=True)
    newest = {ledger.key_of(number): number for number in range(400)}
    key, tombstone = next(each for each in newest.items() if ledger.is_tombstone(each[1]))
    older = next(n for n in range(tombstone) if ledger.key_of(n) == key)
    kept = sorted({*newest.values(), older} - {tombstone})
    [problem] = judged(ledger, *zip(kept, kept, strict=True)).lost_keys(400)
    assert f"shows offset {older}, not its tombstone at {tombstone}" in problem


def test_survivors_are_the_newest_of_each_key_and_all_that_is_not_compacted() -> None:
    pairs = [(b"a", b"1"), (None, b"2"), (b"b", None), (b"a", b"3"), (b"a", b"4"), (b"b", b"5")]
    rows = [Row(key, value, 0) for key, value in pairs]

    def left(below: int, tombstones_below: int) -> list[int]:
        found = survivors(rows, compacted_below=below, tombstones_below=tombstones_below)
        assert all(each.row == rows[each.offset] for each in found)
        return [each.offset for each in found]

    assert left(0, 0) == [0, 1, 2, 3, 4, 5]
    assert left(4, 0) == [2, 3, 4, 5]
    assert left(4, 4) == [3, 4, 5]
    assert left(6, 6) == [4, 5]


def test_workloads_are_drawn_by_their_seed() -> None:
    assert all_workloads(1, 2) == all_workloads(1, 2) != all_workloads(2, 2)
    [first, *_] = all_workloads(1, 1)
    assert first.rows(0, 5) == first.rows(0, 5) != first.rows(1, 5)
