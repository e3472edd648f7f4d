"""Clients that log in: their runs, and what is known of a password over time."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tidegate_simulation.logins.passwords import Passwords
from tidegate_simulation.run import plan_of, simulate

KINDS = {
    "logins.done",
    "logins.ended",
    "logins.password_changed",
    "logins.refused",
    "logins.strangers",
    "logins.throttled",
}
CALM, STRUCK = 43, 7


def test_a_run_without_faults_has_all_of_it_and_finds_nothing() -> None:
    assert plan_of(CALM).logins.is_calm
    report = simulate(CALM, 150)
    assert report.violations == ()
    assert set(report.landed.counts) >= KINDS


def test_a_run_with_faults_finds_nothing_and_is_the_same_again() -> None:
    assert not plan_of(STRUCK).logins.is_calm
    first, second = simulate(STRUCK, 150), simulate(STRUCK, 150)
    assert first.violations == ()
    assert first == second


async def test_what_a_password_may_have_been(autojump_clock: MockClock) -> None:
    passwords = Passwords()
    passwords.begin_user()
    passwords.begin_change("one")
    await trio.sleep(10)
    assert passwords.possible_since(0.0) == {"", "one"}
    passwords.end_change("one")
    await trio.sleep(10)
    assert passwords.possible_since(15.0) == {"one"}
    assert passwords.possible_since(5.0) == {"", "one"}
    passwords.begin_change("two")
    assert passwords.possible_since(15.0) == {"one", "two"}
    assert passwords.ever == ["one", "two"]
    passwords.begin_user()
    assert (passwords.user, passwords.ever) == ("user-2", [])
