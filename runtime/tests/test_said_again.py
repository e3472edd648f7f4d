"""Which warnings of lasting trouble are worth a line."""

from __future__ import annotations

from tidegate_runtime.said_again import SaidAgain


def test_trouble_is_logged_when_it_begins_or_changes_and_at_intervals() -> None:
    said = SaidAgain()
    assert said.is_due("no route", 0.0)
    assert not said.is_due("no route", 1.0)
    assert said.is_due("refused", 2.0)
    assert said.is_due("no route", 3.0)
    assert [now for now in range(4, 100) if said.is_due("no route", now)] == [33, 63, 93]


def test_how_long_a_try_took_is_no_change() -> None:
    said = SaidAgain()
    assert said.is_due("no answer in 681.527644ms, after 3 retries", 0.0)
    assert not said.is_due("no answer in 9s, after 12 retries", 1.0)
