"""Clients that log in: their runs, and what is known of a password over time."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import trio
from trio.testing import MockClock

from tidegate_coordination.state.security.scram import ScramCredential
from tidegate_gateway.security.sealing import Sealing
from tidegate_runtime.secret import Secret
from tidegate_simulation.invariants.sealed import key_id, opened
from tidegate_simulation.logins.known_tokens import (
    NEVER_MS,
    SLACK_MS,
    Ends,
    KnownToken,
    wrongly_in,
    wrongly_out,
)
from tidegate_simulation.logins.passwords import Passwords
from tidegate_simulation.plans.security.sealing_plan import KEYS, REPLACED
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
WITH_TOKENS = (33, 46)
SEALED = (38, 72)
WITH_BEARERS = (26, 206)
BEARER_KINDS = {"bearers.ended", "bearers.logins", "bearers.refused"}
TOKEN_KINDS = {
    "tokens.changed",
    "tokens.created",
    "tokens.described",
    "tokens.ended",
    "tokens.logins",
    "tokens.refused",
}


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


def test_runs_with_delegation_tokens_have_all_of_it_and_find_nothing() -> None:
    counts: Counter[str] = Counter()
    for seed in WITH_TOKENS:
        assert plan_of(seed).logins.tokens.is_on
        report = simulate(seed, 300)
        assert report.violations == ()
        counts.update(report.landed.counts)
    assert set(counts) >= TOKEN_KINDS


def test_runs_with_bearer_tokens_have_all_of_it_and_find_nothing() -> None:
    counts: Counter[str] = Counter()
    for seed in WITH_BEARERS:
        assert plan_of(seed).logins.bearers.is_on
        report = simulate(seed, 200)
        assert report.violations == ()
        counts.update(report.landed.counts)
    assert set(counts) >= BEARER_KINDS


def test_keys_of_credentials_are_replaced_under_load() -> None:
    begins = [plan_of(seed).logins.sealing.stages[0].key for seed in SEALED]
    assert sorted(map(bool, begins)) == [False, True]
    for seed in SEALED:
        report = simulate(seed, 150)
        assert report.violations == ()
        assert report.landed.counts[REPLACED] == 1


def test_what_gateways_seal_is_opened_by_the_format_alone() -> None:
    rng = Random(1)
    credential = ScramCredential("eve", 1, b"salt", b"stored", b"server", 4_096)
    sealed = Sealing(Secret(KEYS[1]), (), rng.randbytes).sealed(credential)
    assert sealed.key_id == key_id(KEYS[1])
    assert opened(sealed) == opened(credential) == credential
    assert opened(msgspec.structs.replace(sealed, user="eva")) is None
    other = Sealing(Secret("another-key-of-at-least-32-characters"), (), rng.randbytes)
    assert opened(other.sealed(credential)) is None


def token() -> KnownToken:
    names = frozenset({"User:alice"})
    return KnownToken("id", b"secret", "User:alice", names, names, max_ms=9_000)


def test_what_is_known_of_a_tokens_end() -> None:
    known = token()
    known.note(1.0, Ends(5_000, 5_000))
    assert known.since(1.0) == Ends(5_000, 5_000)
    assert known.since(0.5) == Ends(NEVER_MS, 5_000)  # the token did not exist yet
    known.note(2.0, known.at_any_time)
    known.note(3.0, Ends(7_000, 7_000))
    assert (known.now(), known.since(3.0)) == (Ends(7_000, 7_000),) * 2
    assert known.since(2.5) == Ends(NEVER_MS, 9_000)
    known.lose_sight(4.0)
    known.note(5.0, Ends(8_000, 8_000))
    assert known.since(5.0) == Ends(NEVER_MS, 9_000)


def test_clocks_may_be_a_little_wrong() -> None:
    ends = Ends(10_000, 20_000)
    assert not wrongly_in(ends, 20_000 + SLACK_MS)
    assert wrongly_in(ends, 20_001 + SLACK_MS)
    assert not wrongly_out(ends, 10_000 - SLACK_MS)
    assert wrongly_out(ends, 9_999 - SLACK_MS)
