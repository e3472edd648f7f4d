"""The judges of faults/ accept right results, and find each kind of error."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest
from faults.ledger import FamilyLedger, Repeats, judge_all
from faults.plan import KINDS, Fault, draw
from faults.relay import Mode
from faults.report import Figures
from faults.stalls import Happened, by_kind, longest_gap, stall

FOUND = {0: [(0, "java", 1, 0), (1, "go", 1, 0), (2, "java", 3, 0)], 1: [(0, "java", 2, 1)]}


def family(*lines: str, name: str = "java") -> FamilyLedger:
    made = FamilyLedger(name)
    for line in lines:
        made.take(line)
    return made


ACKNOWLEDGED = ("A 1 0 0 1", "A 2 1 0 2", "A 3 0 2 3")


def test_a_run_with_all_acknowledged_records_is_clean() -> None:
    others = family("A 1 0 1 1", name="go")
    assert judge_all([family(*ACKNOWLEDGED), others], FOUND).is_clean


@pytest.mark.parametrize(
    ("records", "lost", "duplicates", "misplaced", "out_of_order"),
    [
        ([(0, "java", 1, 0)], 1, 0, 0, 0),
        ([*FOUND[0], (3, "java", 3, 0)], 0, 1, 0, 0),
        ([(0, "java", 3, 0), (1, "go", 1, 0), (2, "java", 1, 0)], 0, 0, 2, 1),
        ([*FOUND[0], (3, "java", 4, 1)], 0, 0, 1, 0),
        ([*FOUND[0], (3, "nobody", 1, 0)], 0, 0, 1, 0),
    ],
)
def test_each_wrong_is_counted(
    records: list[tuple[int, str, int, int]],
    lost: int,
    duplicates: int,
    misplaced: int,
    out_of_order: int,
) -> None:
    families = [family(*ACKNOWLEDGED), family("A 1 0 1 1", name="go")]
    if len(records) == 1:
        families.pop()
    verdict = judge_all(families, {0: records, 1: FOUND[1]})
    assert (verdict.lost, verdict.duplicates) == (lost, duplicates)
    assert (verdict.misplaced, verdict.out_of_order) == (misplaced, out_of_order)
    assert verdict.examples


def test_a_plain_producer_may_repeat_records_but_must_lose_none() -> None:
    plain = FamilyLedger("java", is_idempotent=False)
    for line in ("A 1 0 3 1", "A 2 0 2 3"):
        plain.take(line)
    rows = [(0, "java", 3, 0), (1, "java", 1, 0), (2, "java", 3, 0), (3, "java", 1, 0)]
    repeats = Repeats()
    assert judge_all([plain], {0: rows}, repeats).is_clean
    assert (repeats.doubled, repeats.late) == (2, 1)
    assert repeats.examples
    assert judge_all([plain], {0: rows[:1]}).lost == 1


def test_a_record_may_be_acknowledged_without_its_offset_but_must_be_there() -> None:
    others = family("A 1 0 1 1", name="go")
    assert judge_all([family("A 1 0 -1 1", "A 2 1 -1 2"), others], FOUND).is_clean
    assert judge_all([family("A 1 0 -1 2"), others], FOUND).lost == 1


JOINED = ("J 1 0,1", "C 2 0 0:java:1 1:go:1", "T 3 0:2", "K 4 0:2")


def test_a_group_may_read_again_from_its_commit() -> None:
    seen = family(*JOINED, "C 5 0 2:java:3", "J 6 0,1", "C 7 0 2:java:3")
    assert seen.problems == []
    assert seen.behind({0: 3, 1: 1}) == {1: 1}
    assert (seen.consumed, seen.commits) == (4, 1)


def test_a_new_member_may_begin_at_a_commit_of_unknown_outcome() -> None:
    seen = family(*JOINED, "C 5 0 2:java:3", "T 6 0:3", "E 7 commit TimeoutException", "J 8 0")
    seen.take("C 9 0 3:java:5")
    assert seen.problems == []
    assert [each.error for each in seen.told] == ["commit TimeoutException"]


@pytest.mark.parametrize("begin", ["C 9 0 2:java:3", "C 9 0 3:java:5"])
def test_a_new_member_may_ask_before_or_after_a_commit_that_is_under_way(begin: str) -> None:
    seen = family(*JOINED, "C 5 0 2:java:3", "T 6 0:3", "J 7 0", "K 8 0:3", begin)
    assert seen.problems == []


@pytest.mark.parametrize(
    "line",
    [
        "C 5 0 3:java:3",  # skips one
        "C 5 0 1:go:1",  # goes back by itself
        "C 5 0 0:java:1",
        "C 5 0 2:java:3 2:java:3",
    ],
)
def test_a_group_that_leaps_is_seen(line: str) -> None:
    assert family(*JOINED, line).problems


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_new_member_that_begins_elsewhere_is_seen(offset: int) -> None:
    assert family(*JOINED, "J 5 0", f"C 6 0 {offset}:java:{offset + 1}").problems


def test_a_different_record_at_an_offset_is_a_problem() -> None:
    assert family(*JOINED, "J 5 0", "C 6 0 2:java:3", "J 7 0", "C 8 0 2:java:4").problems
    read = family("J 1 0", "C 2 0 0:java:9")
    read.compare_content(FOUND)
    assert read.problems


def test_a_failed_record_is_reported_and_is_no_loss() -> None:
    failed = family("F 5 0 7 MSG_TIMED_OUT")
    assert failed.producer.failed
    assert failed.told[0].error.endswith("failed: MSG_TIMED_OUT")


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ([], 100),
        ([150], 50),
        ([90, 110, 190, 210], 80),
        ([100, 200], 100),
        ([99, 130, 199, 500], 69),
    ],
)
def test_longest_gap(times: list[int], gap: int) -> None:
    assert longest_gap(times, 100, 200) == gap


def test_stalls_are_of_the_worst_partition_and_counted_by_kind() -> None:
    seen = family(
        *(f"A {at} 0 {at} {at}" for at in range(0, 300, 10)), "A 20 1 0 9", "A 180 1 1 10"
    )
    seen.take("F 150 1 11 TIMED_OUT")
    happened = Happened(Fault("kill", 1), 100, 120, 200)
    assert stall(seen.acknowledged_at, happened) == 80
    kinds = by_kind([happened, Happened(Fault("kill", 2), 200, 260, 290)], [seen])
    figures = kinds["kill"].families["java"]
    assert (kinds["kill"].count, kinds["kill"].longest_fault_ms) == (2, 60)
    assert (figures.acknowledgement_stall_ms, figures.failed_records) == (90, 1)
    assert figures.consumption_stall_ms == 100


def test_every_kind_of_fault_comes_before_one_comes_again() -> None:
    drawn = list(islice(draw(7, 3), 2 * len(KINDS)))
    assert drawn == list(islice(draw(7, 3), 2 * len(KINDS)))
    assert {each.kind for each in drawn[: len(KINDS)]} == set(KINDS)
    for each in drawn:
        assert (each.gateway == 0) == each.kind.startswith(("postgres", "seaweed"))
        assert (each.mode is not Mode.PASS) == each.kind.startswith("partition")


def test_all_figures_can_be_read_by_scripts() -> None:
    java = family("A 1 0 0 1", "E 2 TimeoutException")
    fault = Happened(Fault("kill", 1), 0, 2, 3)
    kinds = by_kind([fault], [java])
    figures = Figures(seed=1, minutes=0.1, kinds=kinds, happened=[fault])
    read = msgspec.json.decode(msgspec.json.encode(figures))
    assert read["seed"] == 1
    assert list(read["kinds"]["kill"]["families"]["java"]["errors"].values()) == [1]
