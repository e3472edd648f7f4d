"""OAUTHBEARER, message by message, and the length of its sessions."""

from __future__ import annotations

from math import inf

import pytest

from tests.security.test_exchange import give, shake
from tests.worlds.security.token_provider import NOW, first_message
from tidegate_gateway.security.oauth.token_check import BadToken, BearerToken
from tidegate_gateway.security.sasl.bearer import BearerConversation
from tidegate_gateway.security.sasl.exchange import Exchange
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials, Mechanism, Refused
from tidegate_protocol.messages import sasl_authenticate as sa

REFUSAL = b'{"status":"invalid_token"}'


def check(token: str) -> BearerToken:
    if token.startswith("good-"):
        return BearerToken(token.removeprefix("good-"), NOW + 100)
    raise BadToken("it is bad")


def begin() -> BearerConversation:
    return BearerConversation(check, lambda: NOW)


def test_a_good_token_is_a_user_for_as_long_as_it_says() -> None:
    one = begin()
    assert one.lasts_seconds == inf
    assert one.step(first_message("good-alice")) == b""
    assert (one.user, one.lasts_seconds) == ("alice", 100)


def test_a_bad_token_fails_after_the_clients_answer_to_the_challenge() -> None:
    one = begin()
    assert one.step(first_message("bad")) == REFUSAL
    with pytest.raises(Refused) as refused:
        one.step(b"\x01")
    assert (str(refused.value).encode(), refused.value.why) == (REFUSAL, "it is bad")
    assert one.user is None


def test_a_good_token_may_follow_a_bad_one() -> None:
    one = begin()
    one.step(first_message("bad"))
    one.step(first_message("good-alice"))
    assert one.user == "alice"


def test_after_a_bad_token_only_one_answer_ends_the_exchange_so() -> None:
    one = begin()
    one.step(first_message("bad"))
    with pytest.raises(InvalidCredentials):
        one.step(b"\x01\x01")
    with pytest.raises(InvalidCredentials):
        one.step(b"\x01")


def test_a_third_bad_token_ends_the_exchange() -> None:
    one = begin()
    assert [one.step(first_message("bad")) for _ in range(2)] == [REFUSAL] * 2
    with pytest.raises(Refused, match="invalid_token"):
        one.step(first_message("bad"))


def test_a_long_authorization_id_is_cut_short() -> None:
    with pytest.raises(Refused) as refused:
        begin().step(first_message("good-alice", "b" * 400_000))
    assert len(str(refused.value)) < 500


def test_an_authorization_id_is_the_user_or_nothing() -> None:
    one = begin()
    one.step(first_message("good-alice", "alice"))
    assert one.user == "alice"
    with pytest.raises(Refused, match=r"id \(bob\) that is different .* name \(alice\)"):
        begin().step(first_message("good-alice", "bob"))


@pytest.mark.parametrize(
    "message",
    [
        first_message("good-alice", scheme="bEaReR"),
        b"n,,\x01auth=Bearer   good-alice\x01\x01",
        b"n,,\x01traceId=1\x01auth=Bearer good-alice\x01cluster=a b\t=\x01\x01",
    ],
)
def test_other_good_first_messages(message: bytes) -> None:
    one = begin()
    one.step(message)
    assert one.user == "alice"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01trace=1\x01\x01",
        b"n,,auth=Bearer good-alice",
        b"n,,\x01auth=Bearer good-alice\x01",
        b"n,,\x01auth=Bearer good-alice\x01\x01more",
        b"y,,\x01auth=Bearer good-alice\x01\x01",
        b"n,a=,\x01auth=Bearer good-alice\x01\x01",
        b"n,a=x,y,\x01auth=Bearer good-alice\x01\x01",
        b"n,,\x01auth=Basic good-alice\x01\x01",
        b"n,,\x01auth=Bearer good\xff\x01\x01",
        b"n,,\x01auth=Bearer good=x\x01\x01",
        b"n,,\x01auth=good-alice\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good-alice\x01\x01",
        b"n,,\x01AUTH=Bearer good-alice\x01\x01",
    ],
)
def test_what_is_no_first_message(message: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        begin().step(message)


@pytest.mark.parametrize(
    ("most_ms", "lifetime_ms"), [(0, 100_000), (5_000, 5_000), (200_000, 100_000)]
)
def test_a_session_ends_with_the_token_or_before(most_ms: int, lifetime_ms: int) -> None:
    machine = Exchange((Mechanism("OAUTHBEARER", begin, most_ms),))
    shake(machine, "OAUTHBEARER")
    request = sa.SaslAuthenticateRequest(first_message("good-alice"))
    verdict = give(machine, "SaslAuthenticate", 2, request, 50.0)
    assert (machine.principal, machine.ends_at) == ("User:alice", 50 + lifetime_ms / 1000)
    assert verdict.answer is not None
    assert lifetime_ms.to_bytes(8) in verdict.answer


def test_a_token_that_only_the_clocks_skew_saves_ends_at_once() -> None:
    begin_late = lambda: BearerConversation(check, lambda: NOW + 110)  # noqa: E731
    machine = Exchange((Mechanism("OAUTHBEARER", begin_late, 0),))
    shake(machine, "OAUTHBEARER")
    request = sa.SaslAuthenticateRequest(first_message("good-alice"))
    give(machine, "SaslAuthenticate", 2, request, 50.0)
    assert machine.ends_at == 50.0
