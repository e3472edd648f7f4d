"""Three rounds of the kill -9 harness on each kind of store.  `run crash` runs a hundred."""

from __future__ import annotations

import pytest
from crash.ledger import GroupProgress, Ledger, judge
from crash.run import crash_run


def test_nothing_is_lost_on_files() -> None:
    figures = crash_run(3, object_store=None, seed=1, say=print)
    assert figures.is_clean, figures
    assert figures.acknowledged_records > 100
    assert figures.group_records > 100


def test_nothing_is_lost_on_s3(seaweed_s3_url: str) -> None:
    url = seaweed_s3_url.replace("?", "/crash?", 1)
    figures = crash_run(3, object_store=url, seed=2, say=print)
    assert figures.is_clean, figures
    assert figures.acknowledged_records > 100


def ledger(*acknowledged: tuple[int, int]) -> Ledger:
    made = Ledger()
    for offset, number in acknowledged:
        made.acknowledge(0, offset, number)
    return made


def test_judge_accepts_records_that_were_never_acknowledged() -> None:
    assert judge(ledger((0, 1)), {0: [(0, 1), (1, 2)], 1: [(0, 3)]}).is_clean


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ([(0, 1)], (1, 0, 0, 0)),
        ([(0, 1), (1, 2), (2, 2)], (0, 1, 0, 0)),
        ([(0, 1), (1, 9), (2, 2)], (0, 0, 1, 1)),
        ([(0, 2), (1, 1)], (0, 0, 2, 1)),
        ([], (2, 0, 0, 0)),
    ],
)
def test_judge_finds(found: list[tuple[int, int]], counts: tuple[int, int, int, int]) -> None:
    verdict = judge(ledger((0, 1), (1, 2)), {0: found})
    got = (verdict.lost, verdict.duplicates, verdict.misplaced, verdict.out_of_order)
    assert got == counts
    assert not verdict.is_clean
    assert verdict.examples


def test_group_progress_sees_a_skipped_record() -> None:
    progress = GroupProgress(next_offset=5)
    assert progress.delivered(5, is_first_of_member=False) is None
    assert progress.delivered(7, is_first_of_member=False) == "skipped from 6 to 7"


@pytest.mark.parametrize(("offset", "is_fine"), [(2, False), (3, True), (4, True), (5, False)])
def test_group_progress_knows_where_a_new_member_may_begin(offset: int, is_fine: bool) -> None:
    progress = GroupProgress(next_offset=9, committed=3, attempted=4)
    assert (progress.delivered(offset, is_first_of_member=True) is None) is is_fine
