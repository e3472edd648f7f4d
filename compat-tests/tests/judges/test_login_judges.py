"""The judges of `run logins`: each with a case that it must refuse."""

from __future__ import annotations

import json

import pytest
from logins.audits import Logins
from logins.ledger import LibraryLedger, PairLedger
from logins.plan import LIBRARIES, MECHANISMS, MTLS, logins_of, protocol_of, user_of
from logins.report import Figures, judged, table

FOUND = {0: [(0, 1), (1, 2)]}
LINES = ["A 5 PLAIN 0 0 1", "A 5 PLAIN 0 1 2", "C 6 PLAIN 0 0:1 1:2", "D 7 PLAIN"]


def ledger(*lines: str) -> LibraryLedger:
    found = LibraryLedger("java", ["PLAIN"])
    for each in lines:
        found.take(each)
    return found


def figures(given: LibraryLedger, found: object = FOUND, logins: Logins | None = None) -> Figures:
    pairs = judged([given], {"java-plain": found}, logins or Logins())  # type: ignore[dict-item]
    problems = [each for pair in given.pairs.values() for each in pair.problems]
    return Figures(1.0, pairs, {}, 0, {}, problems)


def test_a_run_without_fault_is_clean() -> None:
    assert figures(ledger(*LINES)).is_clean


@pytest.mark.parametrize(
    "more", ["F 8 PLAIN 0 3 TIMED_OUT", "E 8 PLAIN Disconnected", "C 8 PLAIN 0 5:6"]
)
def test_an_error_of_an_application_and_a_gap_are_not_clean(more: str) -> None:
    shown = figures(ledger(*LINES, more))
    assert not shown.is_clean
    assert shown.pairs[0].is_clean == more.startswith("C")


@pytest.mark.parametrize(
    "found",
    [
        {0: [(0, 1)]},
        {0: [(0, 1), (1, 2), (2, 1)]},
        {0: [(0, 2), (1, 1)]},
        {0: [(0, 1), (1, 3)]},
    ],
    ids=["lost", "twice", "in another order", "another record"],
)
def test_what_lies_in_the_topic_decides(found: dict[int, list[tuple[int, int]]]) -> None:
    shown = figures(ledger(*LINES), found)
    assert not shown.is_clean
    assert not shown.pairs[0].is_clean


def test_a_record_that_the_group_did_not_get_is_missed() -> None:
    given = ledger(*LINES[:2], "C 6 PLAIN 0 0:1", LINES[-1])
    assert given.pairs["PLAIN"].behind({**FOUND, 1: [(0, 3)]}) == 2
    assert not figures(given).is_clean


def test_what_a_library_gets_over_is_counted_apart() -> None:
    shown = figures(ledger(*LINES, "W 8 PLAIN Connection closed", "C 9 PLAIN 0 1:2"))
    (pair,) = shown.pairs
    assert shown.is_clean
    assert (pair.retried, pair.read, pair.read_again) == (1, 2, 1)


def test_nothing_written_is_not_clean() -> None:
    assert not figures(ledger(), {0: []}).is_clean


def test_a_refused_login_is_not_clean() -> None:
    shown = figures(ledger(*LINES))
    shown.refused = {"PLAIN: no such user": 1}
    assert not shown.is_clean
    assert "no such user" in table(shown)


def test_repeated_logins_of_a_connection_are_told_from_new_connections() -> None:
    events = [
        {"event": "logged in", "principal": "User:java-plain", "peer": "127.0.0.1:5"},
        {"event": "logged in", "principal": "User:java-plain", "peer": "127.0.0.1:6"},
        {"event": "logged in", "principal": "User:java-plain", "peer": "127.0.0.1:5"},
        {"event": "denied", "principal": "User:java-plain"},
        {"event": "login failed", "mechanism": "PLAIN", "reason": "wrong password"},
    ]
    found = Logins()
    for _ in range(2):  # at another gateway the same address is another connection
        found.add(json.dumps(each) for each in events)
    assert found.connections == {"java-plain": 4}
    assert found.again == {"java-plain": 2}
    assert found.failed == {"PLAIN: wrong password": 2}
    (pair,) = figures(ledger(*LINES), logins=found).pairs
    assert (pair.connections, pair.again) == (4, 2)


def test_every_pair_has_a_user_and_a_topic_of_its_own() -> None:
    names = {user_of(one, each) for one in LIBRARIES for each in MECHANISMS}
    assert len(names) == 35
    certificate = {user_of("java", MTLS): "FILE"}
    logins = logins_of("java", MECHANISMS, certificate)  # type: ignore[arg-type]
    assert [each.certificate for each in logins] == ["", "", "", "", "FILE"]
    assert [protocol_of(each.mechanism) for each in logins] == ["SASL_SSL"] * 4 + ["SSL"]


def test_problems_are_bounded() -> None:
    pair = PairLedger("java PLAIN")
    for number in range(50):
        pair.problem(f"{number}")
    assert len(pair.problems) == 20
