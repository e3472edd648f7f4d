"""The simulator must find bugs of logins by an identity provider's tokens (OAUTHBEARER)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_gateway.security.oauth import token_check
from tidegate_gateway.security.oauth.key_refresh import KeyRefresh
from tidegate_gateway.security.oauth.key_set import Keys, KeySet
from tidegate_gateway.security.oauth.key_source import KeySource
from tidegate_gateway.security.oauth.token_check import BearerToken, WantedClaims
from tidegate_gateway.security.sasl import listeners
from tidegate_gateway.security.sasl.bearer import BearerConversation
from tidegate_gateway.security.sasl.exchange import Exchange
from tidegate_simulation.logins import bearer_client as client
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.plans.security import bearer_plan


def part_of(token: str, place: int) -> bytes:
    text = token.split(".")[place]
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def checks_no_signature(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(token_check, "_verified", lambda text, keys: part_of(text, 1))


def takes_unsigned_tokens(patch: pytest.MonkeyPatch) -> None:
    real = token_check._verified

    def verified(text: str, keys: Keys) -> bytes:
        is_none = json.loads(part_of(text, 0))["alg"] == "none"
        return part_of(text, 1) if is_none else real(text, keys)

    patch.setattr(token_check, "_verified", verified)


def checks_no_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(token_check, "_check_times", lambda claims, skew_seconds, now: None)


def checks_no_audience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(token_check, "_check_audience", lambda said, expected: None)


def checks_no_issuer(patch: pytest.MonkeyPatch) -> None:
    real = token_check.check_token

    def check(text: str, keys: Keys, wanted: WantedClaims, now: float) -> BearerToken:
        issuer = json.loads(part_of(text, 1)).get("iss", wanted.issuer)
        return real(text, keys, replace(wanted, issuer=issuer), now)

    patch.setattr(listeners, "check_token", check)


def sessions_outlive_tokens(patch: pytest.MonkeyPatch) -> None:
    real = BearerConversation.step

    def step(self: BearerConversation, token: bytes) -> bytes:
        answer = real(self, token)
        self.lasts_seconds = inf
        return answer

    patch.setattr(BearerConversation, "step", step)


def never_looks_for_keys_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyRefresh, "misses", lambda self, key_id, now: False)
    patch.setattr(KeyRefresh, "succeeded", lambda self, now: setattr(self, "due_at", inf))


def never_forgets_a_key(patch: pytest.MonkeyPatch) -> None:
    real = KeySource._look

    async def look(self: KeySource) -> None:
        before = self._keys
        await real(self)
        self._keys = KeySet((*self._keys._keys, *before._keys))

    patch.setattr(KeySource, "_look", look)


def a_failed_read_leaves_no_key(patch: pytest.MonkeyPatch) -> None:
    real = KeySource._fail

    def fail(self: KeySource, reason: str) -> None:
        self._keys = KeySet()
        real(self, reason)

    patch.setattr(KeySource, "_fail", fail)
    patch.setattr(bearer_plan, "_FAILURES", (0.7,))  # else the next read often succeeds in time


def a_client_may_become_another(patch: pytest.MonkeyPatch) -> None:
    def take(self: Exchange, user: str) -> None:
        self.principal = f"User:{user}"

    patch.setattr(Exchange, "_take", take)


def has_bearers(plan: FaultPlan) -> bool:
    return plan.logins.bearers.is_on and plan.logins.is_focused


def has_calm_bearers(plan: FaultPlan) -> bool:
    return has_bearers(plan) and plan.logins.is_calm


def has_failed_reads(plan: FaultPlan) -> bool:
    return has_bearers(plan) and plan.logins.bearers.failures > 0.2


@pytest.mark.parametrize(
    ("plant", "expected", "is_concerned", "first_seed"),
    [
        (checks_no_signature, {client.WRONG}, has_bearers, 3),
        (takes_unsigned_tokens, {client.WRONG}, has_bearers, 4),
        (checks_no_times, {client.WRONG}, has_bearers, 3),
        (checks_no_audience, {client.WRONG}, has_bearers, 3),
        (checks_no_issuer, {client.WRONG}, has_bearers, 3),
        (sessions_outlive_tokens, {client.OUTLIVED}, has_bearers, 3),
        (never_looks_for_keys_again, {client.WRONG, client.REFUSED}, has_calm_bearers, 93),
        (never_forgets_a_key, {client.WRONG}, has_bearers, 11),
        (a_failed_read_leaves_no_key, {client.REFUSED}, has_failed_reads, 95),
        (a_client_may_become_another, {client.CHANGED}, has_bearers, 5),
    ],
)
def test_planted_bug_of_bearer_tokens_is_found(
    plant: Plant,
    expected: set[str],
    is_concerned: Callable[[FaultPlan], bool],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, bearers=True)
