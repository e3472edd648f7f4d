"""The judges of exactly_once/: what they accept, and that they see each kind of wrong."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from exactly_once.copies import FOREIGN, judge_copies, number_of, value_of
from exactly_once.kills import blows
from exactly_once.progress import Life, gaps, middle, stall_after, stalls


def test_a_value_tells_its_number_and_no_changed_value_does() -> None:
    value = value_of(1234, 750)
    assert len(value) == 750
    assert number_of(value, 750) == 1234
    for wrong in (value[:-1], value[:-1] + b"?", b"1235" + value[4:], b"x", b"", None):
        assert number_of(wrong, 750) == FOREIGN


def test_the_input_in_its_order_is_a_clean_copy() -> None:
    assert judge_copies({0: [0, 2, 4], 1: [1, 3]}, 5, 2).is_clean


@pytest.mark.parametrize(
    ("numbers", "counts"),
    [
        ([0, 4], (1, 0, 0, 0)),
        ([], (3, 0, 0, 0)),
        ([0, 2, 2, 4], (0, 1, 0, 0)),
        ([0, 2, 0, 2, 4], (0, 2, 0, 0)),
        ([0, 4, 2], (0, 0, 0, 1)),
        ([0, 2, 3, 4], (0, 0, 1, 0)),
        ([0, 2, FOREIGN, 4], (0, 0, 1, 0)),
        ([0, 2, 4, 6], (0, 0, 1, 0)),
    ],
)
def test_each_wrong_of_a_copy_is_counted(
    numbers: list[int], counts: tuple[int, int, int, int]
) -> None:
    verdict = judge_copies({0: numbers, 1: [1, 3]}, 5, 2)
    got = (verdict.lost, verdict.duplicates, verdict.misplaced, verdict.out_of_order)
    assert got == counts
    assert verdict.examples


def life(*steps: tuple[int, int]) -> Life:
    made = Life(0)
    for at_ms, processed in steps:
        made.take(at_ms, json.dumps({"stage": "ProcessLoop", "totalProcessed": processed}))
    return made


def test_progress_is_what_was_committed_more() -> None:
    made = life((10, 0), (20, 5), (30, 5), (90, 9))
    made.take(95, "a line of something else")
    assert (made.progress, made.loops, made.processed) == ([20, 90], 4, 9)
    assert gaps([made, life((1, 1), (4, 2))]) == [3, 70]


@pytest.mark.parametrize(("hurt_ms", "stall"), [(50, 40), (20, 70), (10, None), (95, None)])
def test_a_stall_lasts_from_the_blow_to_the_next_commit(hurt_ms: int, stall: int | None) -> None:
    assert stall_after(life((20, 5), (90, 9)), hurt_ms) == stall


def test_stalls_of_all_clients_are_summed_up() -> None:
    lives = [life((20, 5), (90, 9)), life((10, 1), (60, 2))]
    assert stalls(lives, [30, 55]) == [5, 30, 35, 60]
    assert middle([5, 30, 35, 60]) == 35
    assert middle([]) == 0


def test_blows_come_once_in_each_stretch_and_by_seed() -> None:
    drawn = list(islice(blows("7", (1, 2, 3), 10.0, ("kill", "pause")), 40))
    assert drawn == list(islice(blows("7", (1, 2, 3), 10.0, ("kill", "pause")), 40))
    assert [int(each.at_seconds // 10) for each in drawn] == list(range(40))
    assert {each.who for each in drawn} == {1, 2, 3}
    assert {each.how for each in drawn[:2]} == {"kill", "pause"}
    assert any(each.seconds for each in drawn)
    assert not all(each.seconds for each in drawn)
