"""The judge of histories/ accepts right histories, and finds each kind of error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from histories.evidence import Calm, Evidence, Window
from histories.history import History, Records
from histories.judge import Verdict, judge
from histories.transfers import transfers

# Offsets 3 and 5 of l0, and 2 of l1, are markers; x-a1-0.2 was aborted.
L0 = {0: "x-a1-0.1:0:2", 1: "x-a1-0.1:1:2", 2: "x-a1-0.2:0:1", 4: "x-a1-0.3:0:2"}
L1 = {0: "x-a1-0.1:2:3", 1: "x-a1-0.3:1:2"}
ALL = {"l0": {**L0, 0: "x-a1-0.1:0:3", 1: "x-a1-0.1:1:3"}, "l1": L1}
COMMITTED = {
    place: {offset: value for offset, value in values.items() if "-0.2:" not in value}
    for place, values in ALL.items()
}
STORY = (
    "P 1 x-tail-c c l0:0,l1:0",
    "P 1 x-tail-u u l0:0,l1:0",
    "T 10 x-a1-0.1 commit 3",
    "K 20 x-a1-0.1 commit l0:0,l0:1,l1:0",
    "R 21 x-tail-c l0 0=x-a1-0.1:0:3 1=x-a1-0.1:1:3",
    "R 22 x-tail-c l1 0=x-a1-0.1:2:3",
    "T 30 x-a1-0.2 abort 1",
    "R 31 x-tail-u l0 0=x-a1-0.1:0:3 1=x-a1-0.1:1:3 2=x-a1-0.2:0:1",
    "K 40 x-a1-0.2 abort l0:2",
    "T 50 x-a1-0.3 commit 2",
    "L 52 51 l0:4,l1:1",
    "K 60 x-a1-0.3 commit l0:4,l1:1",
    "R 61 x-tail-c l0 4=x-a1-0.3:0:2",
    "R 62 x-tail-c l1 1=x-a1-0.3:1:2",
    "L 72 71 l0:6,l1:3",
)
Values = Mapping[str, Mapping[int, str]]


def judged(
    story: Sequence[str] = STORY,
    *,
    committed: Values = COMMITTED,
    all_records: Values = ALL,
    windows: Sequence[Window] = (),
    version_1: Sequence[str] = (),
) -> Verdict:
    history = History("x", Records())
    for line in story:
        history.take(line)
    return judge(Evidence([history], committed, all_records, windows), {}, version_1)


def without(place: str, *offsets: int) -> Values:
    left = {at: value for at, value in COMMITTED[place].items() if at not in offsets}
    return {**COMMITTED, place: left}


def story(*changes: tuple[str, str | None]) -> list[str]:
    """Return the story with changes.

    changes: the begin of lines, and their replacement, or None to leave them out.
    """
    lines: list[str] = []
    for line in STORY:
        new = next((new for begin, new in changes if line.startswith(begin)), line)
        lines += [new] if new is not None else []
    return lines


def kinds(verdict: Verdict) -> dict[str, int]:
    return dict(verdict.anomalies)


def test_a_good_history_is_clean() -> None:
    verdict = judged()
    assert verdict.is_clean, verdict.examples
    assert not verdict.apart


def test_a_lost_commit_is_seen() -> None:
    unread = story(("R 22", None), ("R 62", None))
    assert kinds(judged(unread, committed=without("l1", 0))) == {"lost": 1}


def test_a_value_at_another_offset_than_acknowledged_is_lost() -> None:
    assert kinds(judged(story(("K 60", "K 60 x-a1-0.3 commit l0:4,l1:7")))) == {"lost": 1}


def test_an_acknowledged_record_of_an_aborted_transaction_is_in_the_log() -> None:
    gone = {**ALL, "l0": {at: value for at, value in ALL["l0"].items() if at != 2}}
    unread = story(("R 31", "R 31 x-tail-u l0 0=x-a1-0.1:0:3 1=x-a1-0.1:1:3"))
    assert kinds(judged(unread, all_records=gone)) == {"lost": 1}


def test_a_visible_aborted_value_is_seen() -> None:
    assert "aborted" in kinds(judged(committed=ALL))


def test_an_aborted_value_that_only_one_reader_got_is_seen() -> None:
    lines = story(("R 61", "R 61 x-tail-c l0 2=x-a1-0.2:0:1 4=x-a1-0.3:0:2"))
    assert kinds(judged(lines)) == {"aborted": 2}


def test_a_value_of_a_transaction_whose_end_was_never_asked_for_is_aborted() -> None:
    lines = story(("T 50", None), ("K 60", None))
    assert kinds(judged(lines)).keys() == {"aborted"}


def test_a_read_before_the_commit_is_seen() -> None:
    lines = [line.replace("R 61", "R 49") for line in STORY]
    assert kinds(judged(lines)).keys() == {"precommitted", "LSO back"}


UNKNOWN = (("K 60", "U 60 x-a1-0.3 TIMED_OUT"), ("R 62", None), ("R 61", None))


@pytest.mark.parametrize("gone", [(), ("l0", "l1")])
def test_an_unknown_end_may_be_either(gone: Sequence[str]) -> None:
    left = {"l0": without("l0", 4)["l0"], "l1": without("l1", 1)["l1"]}
    committed = {place: left[place] if place in gone else COMMITTED[place] for place in COMMITTED}
    verdict = judged(story(*UNKNOWN), committed=committed)
    assert verdict.is_clean, verdict.examples


def test_a_torn_transaction_is_seen() -> None:
    verdict = judged(story(*UNKNOWN), committed=without("l0", 4))
    assert kinds(verdict) == {"torn": 1}


def test_version_1_is_torn_apart_only_where_requests_of_clients_were_held() -> None:
    for window, is_apart in (
        (Window(40, 55, hurts_clients=True), True),
        (Window(40, 55), False),
        (Window(90, 95, hurts_clients=True), False),
    ):
        verdict = judged(
            story(*UNKNOWN),
            committed=without("l0", 4),
            windows=[window],
            version_1=["x"],
        )
        assert (verdict.apart["torn"], verdict.anomalies["torn"]) == (is_apart, not is_apart)


def test_a_value_that_is_written_twice_is_seen() -> None:
    again = {**ALL, "l1": {**L1, 9: "x-a1-0.3:1:2"}}
    assert kinds(judged(all_records=again)) == {"twice": 1}


def test_a_reader_that_skips_is_seen() -> None:
    lines = story(("R 31", "R 31 x-tail-u l0 0=x-a1-0.1:0:3 2=x-a1-0.2:0:1"))
    assert kinds(judged(lines)) == {"skipped": 1}


def test_a_reader_that_goes_back_is_seen() -> None:
    again = "R 63 x-tail-c l1 0=x-a1-0.1:2:3"
    assert kinds(judged([*STORY, again])) == {"order": 1}


def test_a_record_that_vanishes_is_seen() -> None:
    lines = [*STORY, "R 63 x-tail-u l1 0=x-a1-0.1:2:3 1=x-a1-0.3:1:2 5=x-a1-0.9:0:1"]
    assert kinds(judged(lines)) == {"vanished": 1}


def test_readers_that_differ_are_seen() -> None:
    lines = story(("R 31", "R 31 x-tail-u l0 0=x-a1-0.1:0:3 1=x-a1-0.7:1:2 2=x-a1-0.2:0:1"))
    assert kinds(judged(lines)) == {"conflict": 1}


@pytest.mark.parametrize("answer", ["L 73 72 l0:5", "L 83 82 l0:4"])
def test_a_stable_offset_that_goes_back_is_seen(answer: str) -> None:
    is_concurrent = answer.startswith("L 73")
    assert kinds(judged([*STORY, answer])) == ({} if is_concurrent else {"LSO back": 1})


def test_a_late_read_is_seen_unless_a_fault_was_on() -> None:
    late = [line.replace("R 62", "R 40062") for line in STORY]
    assert kinds(judged(late)) == {"unseen": 1}
    assert judged(late, windows=[Window(1000, 15_000)]).is_clean


def test_the_clock_stands_during_faults() -> None:
    calm = Calm([Window(100, 200), Window(300, 350)])
    assert [calm.at(ms) for ms in (50, 100, 150, 200, 250, 400)] == [50, 100, 100, 100, 150, 250]


BOOKED = {
    "a0": {0: "bank-w-0.1:0:2:0.0:1000", 1: "x-m1-0.1:0:2:3.7:-5", 2: "x-m1-0.2:0:2:3.8:-6"},
    "a1": {0: "bank-w-0.1:1:2:0.0:1000", 1: "x-m1-0.1:1:2:3.7:5", 2: "x-m1-0.2:1:2:3.8:6"},
}


@pytest.mark.parametrize(
    ("orders", "gone", "found"),
    [
        ({"3.7", "3.8"}, None, []),
        ({"3.7", "3.8", "3.9"}, None, ["order lost"]),
        ({"3.7"}, None, ["order made up"]),
        ({"3.7", "3.8"}, ("a1", 2), ["money", "order torn"]),
        ({"3.7", "3.8"}, ("a1", 0), []),
    ],
)
def test_each_order_is_booked_once_and_money_stays(
    orders: set[str], gone: tuple[str, int] | None, found: list[str]
) -> None:
    booked = {
        place: {at: value for at, value in values.items() if (place, at) != gone}
        for place, values in BOOKED.items()
    }
    assert [each.kind for each in transfers(booked, {"x": orders})] == found


def test_an_order_that_is_booked_twice_is_seen() -> None:
    again = {0: "x-m2-0.1:0:2:3.7:-5", 1: "x-m2-0.1:1:2:3.7:5"}
    found = list(transfers({**BOOKED, "a2": again}, {"x": {"3.7", "3.8"}}))
    assert [each.kind for each in found] == ["order twice"]
