"""The simulator must find bugs of logins, sessions and quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.state.security.scram import ScramTable
from tidegate_gateway.network.connection import Connection
from tidegate_gateway.quotas.client_quotas import ClientLimits, ClientQuotas
from tidegate_gateway.quotas.rates import SampledRate
from tidegate_gateway.security.sasl import listeners
from tidegate_gateway.security.sasl.exchange import Exchange, Verdict
from tidegate_gateway.security.sasl.gate import SaslGate
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials, Refused
from tidegate_gateway.security.sasl.scram import ScramConversation
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import RequestHeader
from tidegate_runtime.doors.slots import Visitor
from tidegate_runtime.secret import Secret
from tidegate_simulation.plans.faults import FaultPlan

WRONG, OLD, REFUSED = (
    "a wrong password got in",
    "an old password got in",
    "a right password was refused",
)
ANOTHER_ANSWER = "a failed login got another answer"
SERVED, STAYED, UNSERVED = (
    "a stranger was served",
    "a stranger stayed",
    "a client with a login was not served",
)
OUTLIVED = "a session outlived its end"
BELOW, ABOVE, UNMUTED = (
    "a client was throttled below its quota",
    "a client was not throttled above its quota",
    "a throttled client was not muted",
)


def takes_any_password(patch: pytest.MonkeyPatch) -> None:
    def check(users: Mapping[str, Secret]) -> Callable[[str, str], bool]:
        return lambda user, _: user in users

    patch.setattr(listeners, "is_password_in", check)


def takes_any_proof(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScramConversation, "_is_proof", lambda self, proof, signed: True)


def keeps_credentials_for_ever(patch: pytest.MonkeyPatch) -> None:
    real = ScramTable.by_sasl_name
    kept: dict[tuple[int, str], Any] = {}

    def by_sasl_name(self: ScramTable, mechanism: str, user: str) -> Any:
        found = kept.setdefault((id(self), user), real(self, mechanism, user))
        return found or real(self, mechanism, user)

    patch.setattr(ScramTable, "by_sasl_name", by_sasl_name)


def tells_who_exists(patch: pytest.MonkeyPatch) -> None:
    real = ScramConversation._final

    def final(self: ScramConversation, text: str) -> bytes:
        try:
            return real(self, text)
        except InvalidCredentials as error:
            raise Refused(str(error)) from None

    patch.setattr(ScramConversation, "_final", final)


def serves_before_the_login(patch: pytest.MonkeyPatch) -> None:
    real = Exchange._before_tokens

    def before_tokens(self: Exchange, header: RequestHeader, body: memoryview) -> Verdict:
        is_served = header.api_key == ApiKey.METADATA
        return Verdict(is_served=True) if is_served else real(self, header, body)

    patch.setattr(Exchange, "_before_tokens", before_tokens)


def sessions_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SaslGate, "_has_ended", lambda self, connection: False)


def the_first_login_decides_when_a_session_ends(patch: pytest.MonkeyPatch) -> None:
    real = Exchange._step

    def step(self: Exchange, token: bytes, now: float) -> tuple[bytes, int]:
        before, is_again = self.ends_at, self.is_again
        found = real(self, token, now)
        if is_again:
            self.ends_at = before
        return found

    patch.setattr(Exchange, "_step", step)


def strangers_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "allow_seconds", lambda self, seconds: None)


def who_logs_in_stays_a_stranger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Visitor, "known", lambda self: True)


def quotas_are_of_client_ids_only(patch: pytest.MonkeyPatch) -> None:
    real = ClientQuotas._looked_up

    def looked_up(self: ClientQuotas, user: str, client_id: str) -> ClientLimits:
        return real(self, "", client_id)

    patch.setattr(ClientQuotas, "_looked_up", looked_up)


def quotas_are_of_one_second(patch: pytest.MonkeyPatch) -> None:
    def throttle_ms(self: SampledRate, quota: float, now_ms: int) -> int:
        return 1_000 if sum(each.total for each in self._samples) > quota else 0

    patch.setattr(SampledRate, "throttle_ms", throttle_ms)


def reads_on_while_it_throttles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "mute", lambda self, seconds: None)


def has_logins(plan: FaultPlan) -> bool:
    return plan.logins.is_on and plan.logins.is_focused


def has_calm_logins(plan: FaultPlan) -> bool:
    return has_logins(plan) and plan.logins.is_calm


@pytest.mark.parametrize(
    ("plant", "expected", "is_concerned", "first_seed"),
    [
        (takes_any_password, {WRONG}, has_logins, 1),
        (takes_any_proof, {WRONG, OLD}, has_logins, 2),
        (keeps_credentials_for_ever, {in_rules("finds"), OLD, REFUSED}, has_logins, 3),
        (tells_who_exists, {ANOTHER_ANSWER}, has_logins, 1),
        (serves_before_the_login, {SERVED}, has_logins, 1),
        (sessions_never_end, {OUTLIVED}, has_logins, 1),
        (the_first_login_decides_when_a_session_ends, {UNSERVED}, has_calm_logins, 5),
        (strangers_wait_for_ever, {STAYED}, has_calm_logins, 43),
        (who_logs_in_stays_a_stranger, {UNSERVED}, has_calm_logins, 52),
        (quotas_are_of_client_ids_only, {ABOVE}, has_logins, 3),
        (quotas_are_of_one_second, {BELOW}, has_logins, 1),
        (reads_on_while_it_throttles, {UNMUTED}, has_logins, 3),
    ],
)
def test_planted_bug_of_logins_is_found(
    plant: Plant,
    expected: set[str],
    is_concerned: Callable[[FaultPlan], bool],
    first_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, logins=True)
