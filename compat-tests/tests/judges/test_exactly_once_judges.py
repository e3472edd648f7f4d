"""The judges of exactly_once/ accept right results, and find each kind of error."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from exactly_once.copies import FOREIGN, judge_copies, number_of, value_of
from exactly_once.counts import judge_counts
from exactly_once.kills import blows
from exactly_once.lives import Life
from exactly_once.progress import CopierLife, gaps, middle, stall_after, stalls
from exactly_once.restores import AppLife, together, unrestored


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


def life(*steps: tuple[int, int]) -> CopierLife:
    made = CopierLife(0)
    for at_ms, processed in steps:
        made.take(at_ms, json.dumps({"stage": "ProcessLoop", "totalProcessed": processed}))
    return made


def test_progress_is_what_was_committed_more() -> None:
    made = life((10, 0), (20, 5), (30, 5), (90, 9))
    made.take(95, "a line of something else")
    assert (made.progress, made.loops, made.processed) == ([20, 90], 4, 9)
    assert gaps([made, life((1, 1), (4, 2))]) == [3, 70]


@pytest.mark.parametrize(
    ("hurt_ms", "until_ms", "stall"),
    [(50, 200, 40), (20, 200, 70), (30, 60, 30), (10, 200, None), (95, 200, None)],
)
def test_a_stall_is_the_longest_time_without_a_commit(
    hurt_ms: int, until_ms: int, stall: int | None
) -> None:
    assert stall_after(life((20, 5), (90, 9)), hurt_ms, until_ms) == stall


def test_stalls_of_all_clients_are_summed_up() -> None:
    lives = [life((20, 5), (90, 9)), life((10, 1), (60, 2), (80, 3))]
    assert stalls(lives, [30, 55]) == [20, 25, 25, 35]
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


def test_a_client_that_we_ended_has_not_failed() -> None:
    assert not Life(0).failed
    assert not Life(0, 9, 0).failed
    assert not Life(0, 9, -9, was_ended=True).failed
    assert Life(0, 9, 1).failed


def test_counts_without_gap_or_repeat_are_clean() -> None:
    assert judge_counts({"a": 3, "b": 1}, {"a": [1, 2, 3], "b": [1]}).is_clean


@pytest.mark.parametrize(
    ("counts", "wrongs"),
    [
        ([], (3, 0, 0)),
        ([1, 2], (1, 0, 0)),
        ([1, 3], (1, 0, 0)),
        ([1, 2, 2, 3], (0, 1, 0)),
        ([1, 2, 1, 2, 3], (0, 2, 0)),
        ([1, 2, 3, 4], (0, 0, 1)),
        ([0, 1, 2, 3], (0, 1, 0)),
    ],
)
def test_each_wrong_of_counts_is_seen(counts: list[int], wrongs: tuple[int, int, int]) -> None:
    verdict = judge_counts({"a": 3}, {"a": counts})
    assert (verdict.lost, verdict.duplicates, verdict.misplaced) == wrongs
    assert verdict.examples


def test_a_key_without_inputs_is_seen() -> None:
    assert judge_counts({}, {"a": [1]}).misplaced == 1


def app(*lines: tuple[int, str]) -> AppLife:
    made = AppLife(0)
    for at_ms, line in lines:
        made.take(at_ms, line)
    return made


def test_a_life_of_an_instance_is_followed() -> None:
    seen = app(
        (1, "STATE REBALANCING"),
        (10, "BEGIN counts 0 70"),
        (11, "BEGIN counts 1 70"),
        (30, "END counts 0 70"),
        (31, "STOP counts 1 20"),
        (32, "STATE RUNNING"),
        (33, "ERROR TimeoutException of a call"),
        (34, "DUMP k1=7,k2=9"),
    )
    assert (seen.state, seen.restored, seen.longest_restore_ms) == ("RUNNING", [70], 20)
    assert seen.errors == ["TimeoutException"]
    assert seen.dump == {"k1": 7, "k2": 9}
    assert unrestored([seen], 1_000_000) == []


def test_a_restore_that_does_not_end_is_seen_unless_the_instance_was_killed() -> None:
    begun = app((10, "BEGIN counts 0 70"))
    assert unrestored([begun], 1_000_000)
    begun.ended_ms = 500
    assert unrestored([begun], 1_000_000) == []
    assert unrestored([app((10, "BEGIN counts 0 70"), (90_000, "END counts 0 70"))], 90_001)


def test_stores_are_shown_together_once_each_key_has_one_place() -> None:
    one = app((1, "STATE RUNNING"), (2, "DUMP k1=7"))
    assert together([one, app((1, "STATE RUNNING"), (2, "DUMP k2=1"))]) == {"k1": 7, "k2": 1}
    assert together([one, app((1, "STATE RUNNING"), (2, "DUMP "))]) == {"k1": 7}
    assert together([one, app((1, "STATE RUNNING"))]) is None
    assert together([one, app((2, "DUMP k2=1"))]) is None
    assert together([one, app((1, "STATE RUNNING"), (2, "DUMP k1=7"))]) is None
