"""The simulator must find bugs of delegation tokens, and of logins and sessions by them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.rules.security import tokens as rules
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.security.tokens import TokenTable
from tidegate_gateway.network.call import Login, Peer
from tidegate_gateway.requests.tokens import delegation_tokens, guards
from tidegate_gateway.security.sasl.exchange import Exchange
from tidegate_gateway.security.sasl.scram import ScramConversation, TokenLogin
from tidegate_gateway.security.tokens.logins import TokenLogins
from tidegate_simulation.logins import token_client as client
from tidegate_simulation.logins import token_keeper as keeper
from tidegate_simulation.plans.faults import FaultPlan


def tokens_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelegationToken, "is_expired", lambda self, now_ms: False)


def removed_tokens_log_in(patch: pytest.MonkeyPatch) -> None:
    real = TokenLogins._login
    kept: dict[tuple[int, str], DelegationToken] = {}

    class Kept:
        """The token table of a gateway, with all tokens that ever logged in there."""

        def __init__(self, table: TokenTable) -> None:
            self._table = table

        def get(self, token_id: str) -> DelegationToken | None:
            found = self._table.get(token_id)
            return found or kept.get((id(self._table), token_id))

    def login(self: TokenLogins, mechanism: str, token: DelegationToken) -> TokenLogin | None:
        kept[id(self._coordinator.state.tokens), token.token_id] = token
        return real(self, mechanism, token)

    begin = TokenLogins.begin

    def begun(self: TokenLogins) -> Any:
        find, table = begin(self), Kept(self._coordinator.state.tokens)

        def found(mechanism: str, token_id: str) -> TokenLogin | None:
            token = table.get(token_id)
            return find(mechanism, token_id) if token is None else self._login(mechanism, token)

        return found

    patch.setattr(TokenLogins, "_login", login)
    patch.setattr(TokenLogins, "begin", begun)


def takes_any_secret(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScramConversation, "_is_proof", lambda self, proof, signed: True)


def sessions_outlive_tokens(patch: pytest.MonkeyPatch) -> None:
    real = TokenLogins._login

    def login(self: TokenLogins, mechanism: str, token: DelegationToken) -> TokenLogin | None:
        found = real(self, mechanism, token)
        return None if found is None else replace(found, lasts_seconds=inf)

    patch.setattr(TokenLogins, "_login", login)


def tokens_are_of_their_requesters(patch: pytest.MonkeyPatch) -> None:
    real = TokenLogins._login

    def login(self: TokenLogins, mechanism: str, token: DelegationToken) -> TokenLogin | None:
        found = real(self, mechanism, token)
        user = token.requester.partition(":")[2]
        return None if found is None else replace(found, user=user)

    patch.setattr(TokenLogins, "_login", login)


def logins_know_the_first_tokens_only(patch: pytest.MonkeyPatch) -> None:
    real = TokenLogins._login
    known: dict[int, frozenset[str]] = {}

    def login(self: TokenLogins, mechanism: str, token: DelegationToken) -> TokenLogin | None:
        ids = known.setdefault(id(self), frozenset(self._coordinator.state.tokens.ids))
        return real(self, mechanism, token) if token.token_id in ids else None

    patch.setattr(TokenLogins, "_login", login)


def a_token_may_have_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "may_have_tokens", property(lambda self: self.login is not Login.NONE))


def everyone_may_renew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelegationToken, "is_renewed_by", lambda self, principal: True)


def everyone_creates_for_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guards, "owner_of", lambda request, principal: principal)


def everyone_sees_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delegation_tokens, "sees_token", lambda principal, rights, token: True)


def renewals_have_no_bound(patch: pytest.MonkeyPatch) -> None:
    real = rules._expiring_at

    def expiring_at(token: DelegationToken, time_ms: int) -> Decided[Any]:
        return real(msgspec.structs.replace(token, max_ms=time_ms), time_ms)

    patch.setattr(rules, "_expiring_at", expiring_at)


def ended_tokens_are_renewed(patch: pytest.MonkeyPatch) -> None:
    def decide(self: rules.RenewToken, view: View) -> Decided[Any]:
        token = view.state.tokens.get(self.token_id)
        if token is None or not token.is_renewed_by(self.principal):
            return real(self, view)
        return rules._expiring_at(token, rules._now_ms(view) + self.period_ms)

    real = rules.RenewToken.decide
    patch.setattr(delegation_tokens.TokenParts, "has_ended", lambda self, token: False)
    patch.setattr(rules.RenewToken, "decide", decide)


def counts_no_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TokenTable, "requested_by", lambda self, principal: 0)


def forgets_who_renews(patch: pytest.MonkeyPatch) -> None:
    real = rules.CreateToken.decide

    def decide(self: rules.CreateToken, view: Any) -> Any:
        return real(replace(self, renewers=()), view) if self.renewers else real(self, view)

    patch.setattr(rules.CreateToken, "decide", decide)


def a_second_login_lasts_longer_than_it_says(patch: pytest.MonkeyPatch) -> None:
    real = Exchange._step

    def step(self: Exchange, token: bytes, now: float) -> tuple[bytes, int]:
        before, is_again = self.ends_at, self.is_again
        challenge, lifetime_ms = real(self, token, now)
        if is_again and lifetime_ms:
            self.ends_at = max(self.ends_at, before + 4.0)
        return challenge, lifetime_ms

    patch.setattr(Exchange, "_step", step)


def has_tokens(plan: FaultPlan) -> bool:
    return plan.logins.tokens.is_on and plan.logins.is_focused


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (tokens_never_end, {in_rules("has ended, and is renewed"), client.ENDED, keeper.ENDED}, 3),
        (removed_tokens_log_in, {client.ENDED}, 5),
        (takes_any_secret, {client.WRONG}, 4),
        (sessions_outlive_tokens, {client.OUTLIVED}, 3),
        (tokens_are_of_their_requesters, {client.ANOTHER}, 9),
        (logins_know_the_first_tokens_only, {client.REFUSED}, 1),
        (a_token_may_have_tokens, {client.MAKES}, 3),
        (everyone_may_renew, {in_rules("changes"), keeper.FOREIGN}, 3),
        (everyone_creates_for_others, {keeper.CREATED}, 3),
        (everyone_sees_tokens, {keeper.SHOWN}, 3),
        (renewals_have_no_bound, {in_rules("is renewed until"), keeper.LONG}, 3),
        (ended_tokens_are_renewed, {keeper.ENDED}, 22),
        (counts_no_tokens, {keeper.MANY}, 20),
        (forgets_who_renews, {in_rules("is not what was asked"), keeper.REFUSED, keeper.HIDDEN}, 4),
        (a_second_login_lasts_longer_than_it_says, {client.OUTLIVED}, 9),
    ],
)
def test_planted_bug_of_tokens_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, has_tokens, tokens=True)
