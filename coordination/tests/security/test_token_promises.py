"""The rules keep the promises to clients of delegation tokens, compared with a simple model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.security.test_token_rules import ALICE, BOB, CAROL, HOUR_MS, LONG_MAX, Cluster
from tidegate_coordination.rules.security import tokens as rules
from tidegate_coordination.rules.security.tokens import (
    ExpireToken,
    RemoveExpiredTokens,
    RenewToken,
    TokenRefusal,
)
from tidegate_coordination.security.tokens import DelegationToken


@dataclass
class Promise:
    """The answers that clients got about a token."""

    owner: str
    renewers: tuple[str, ...]
    max_ms: int
    expires_ms: int


@dataclass
class Model:
    """Clients that create, renew and expire tokens, and what they were promised."""

    cluster: Cluster = field(default_factory=Cluster)
    promises: dict[str, Promise] = field(default_factory=dict[str, Promise])

    def create(self, owner: str, renewers: tuple[str, ...], lifetime_ms: int) -> None:
        token_id = f"{len(self.cluster.entries)}"
        token = self.cluster.create(token_id, owner, renewers, lifetime_ms)
        now_ms = self.cluster.now_ms
        assert token.max_ms == now_ms + lifetime_ms
        expires_ms = now_ms + min(lifetime_ms, HOUR_MS)
        self.promises[token_id] = Promise(owner, renewers, token.max_ms, expires_ms)

    def renew(self, token_id: str, principal: str, period_ms: int) -> None:
        answer = self.cluster.propose(RenewToken(token_id, principal, period_ms))
        self._check_moved(token_id, principal, period_ms, answer, late_first=True)

    def expire(self, token_id: str, principal: str, period_ms: int) -> None:
        answer = self.cluster.propose(ExpireToken(token_id, principal, period_ms))
        promise = self.promises.get(token_id)
        if period_ms >= 0 or promise is None or not self._may(promise, principal):
            self._check_moved(token_id, principal, period_ms, answer, late_first=False)
            return
        assert answer == self.cluster.now_ms
        del self.promises[token_id]

    def _check_moved(
        self, token_id: str, principal: str, period_ms: int, answer: Any, *, late_first: bool
    ) -> None:
        now_ms, promise = self.cluster.now_ms, self.promises.get(token_id)
        if promise is None:
            assert answer is TokenRefusal.NOT_FOUND
            return
        is_late, may = promise.expires_ms < now_ms, self._may(promise, principal)
        if is_late and (late_first or may):
            assert answer is TokenRefusal.EXPIRED
        elif not may:
            assert answer is TokenRefusal.NOT_ALLOWED
        else:
            assert answer == min(promise.max_ms, now_ms + period_ms)
            promise.expires_ms = answer

    def _may(self, promise: Promise, principal: str) -> bool:
        return principal in (promise.owner, *promise.renewers)

    def remove(self) -> None:
        while self.cluster.propose(RemoveExpiredTokens()):
            pass
        late = [k for k, each in self.promises.items() if each.expires_ms < self.cluster.now_ms]
        for each in late:
            del self.promises[each]

    def pass_time(self, passed_ms: int) -> None:
        self.cluster.clock_ms += passed_ms

    def check(self) -> None:
        found = {
            each.token_id: Promise(each.owner, each.renewers, each.max_ms, each.expires_ms)
            for each in self.cluster.state.tokens
        }
        assert found == self.promises


PRINCIPALS = st.sampled_from((ALICE, BOB, CAROL))
PERIODS = st.sampled_from((-1, 0, 1, HOUR_MS, 2 * HOUR_MS, 9 * HOUR_MS, LONG_MAX))
STEPS = st.one_of(
    st.tuples(
        st.just("create"),
        PRINCIPALS,
        st.lists(PRINCIPALS, max_size=2).map(tuple),
        st.sampled_from((1, HOUR_MS, 3 * HOUR_MS)),
    ),
    st.tuples(st.just("renew"), st.integers(0, 3), PRINCIPALS, PERIODS),
    st.tuples(st.just("expire"), st.integers(0, 3), PRINCIPALS, PERIODS),
    st.tuples(st.just("pass_time"), st.sampled_from((1, HOUR_MS // 2, HOUR_MS))),
    st.tuples(st.just("remove")),
)


def run_steps(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    names = ["none"]
    for what, *arguments in steps:
        if what in ("renew", "expire"):
            arguments[0] = names[-1 - arguments[0] % len(names)]
        getattr(model, what)(*arguments)
        names += [each for each in model.promises if each not in names]
        model.check()
    model.cluster.check_replay()


@given(st.lists(STEPS, max_size=20))
@settings(deadline=None, max_examples=150, derandomize=True)
def test_clients_get_what_they_were_promised(steps: list[tuple[Any, ...]]) -> None:
    run_steps(steps)


def lets_renewers_of_others_renew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelegationToken, "is_renewed_by", lambda self, principal: True)


def renews_beyond_the_greatest_age(patch: pytest.MonkeyPatch) -> None:
    real = rules._expiring_at

    def expiring_at(token: DelegationToken, time_ms: int) -> Any:
        unbounded = replace(token, max_ms=max(token.max_ms, time_ms))
        return real(unbounded, time_ms)

    patch.setattr(rules, "_expiring_at", expiring_at)


def renews_what_has_expired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelegationToken, "is_expired", lambda self, now_ms: False)


def removes_before_the_end(patch: pytest.MonkeyPatch) -> None:
    real = DelegationToken.is_expired
    patch.setattr(DelegationToken, "is_expired", lambda self, now: real(self, now + 1))


def forgets_renewers_when_it_renews(patch: pytest.MonkeyPatch) -> None:
    real = rules._expiring_at
    patch.setattr(
        rules,
        "_expiring_at",
        lambda token, time_ms: real(replace(token, renewers=()), time_ms),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        lets_renewers_of_others_renew,
        renews_beyond_the_greatest_age,
        renews_what_has_expired,
        removes_before_the_end,
        forgets_renewers_when_it_renews,
    ],
)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    @given(st.lists(STEPS, max_size=20))
    @settings(
        deadline=None,
        max_examples=150,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    def look(steps: list[tuple[Any, ...]]) -> None:
        run_steps(steps)

    with pytest.raises(AssertionError):
        look()
