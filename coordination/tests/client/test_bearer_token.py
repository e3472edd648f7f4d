"""Tokens, and the answers of brokers and token endpoints about them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.unsigned_tokens import jwt_of
from tidegate_coordination.client.errors import (
    AuthenticationFailed,
    ClassicError,
    TokenUnavailable,
)
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.tokens.bearer import BadToken, BearerToken, expiry_of, refusal
from tidegate_coordination.client.tokens.requests import token_in, token_request
from tidegate_runtime.http.values import HttpAnswer
from tidegate_runtime.secret import Secret

SECRET = "hun ter+2"
CREDENTIALS = BearerCredentials("https://idp.example:8443/token", "app:1", Secret(SECRET))


@pytest.mark.parametrize("seconds", [1_700_000_000, 1_700_000_000.9, 0])
def test_a_token_says_when_it_expires(seconds: float) -> None:
    assert expiry_of(jwt_of({"sub": "a", "exp": seconds})) == int(seconds)


BAD_CLAIMS: list[Any] = [
    {},
    {"exp": None},
    {"exp": "1700000000"},
    {"exp": True},
    [1],
    b"",
    b"\xff",
    b'{"exp": 1e400}',
    b'{"exp": NaN}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("claims", BAD_CLAIMS, ids=range(len(BAD_CLAIMS)))
def test_a_token_without_an_end_is_refused(claims: Any) -> None:
    with pytest.raises(BadToken, match=r"expires|JWT"):
        expiry_of(jwt_of(claims))


@pytest.mark.parametrize(
    "text", ["", "opaque", "a.b", "a..b", "a.b.", "a.b.c.d", "a.b\x01auth=x.c", "a.é.c"]
)
def test_what_is_no_jwt_is_refused(text: str) -> None:
    with pytest.raises(BadToken, match=r"JWT|expires"):
        expiry_of(text)


def test_the_first_message_has_the_extensions() -> None:
    token = BearerToken(Secret("a.b.c"), 0.0, "client a")
    assert token.first_message() == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    more = replace(token, extensions=(("traceId", Secret("7")), ("tenant", Secret("x y"))))
    assert more.first_message() == (b"n,,\x01auth=Bearer a.b.c\x01traceId=7\x01tenant=x y\x01\x01")
    assert "a.b.c" not in repr(more)
    assert "x y" not in repr(more)


REFUSALS = {
    '{"status":"invalid_token"}': "the token is refused (invalid_token)",
    '{"status":"insufficient_scope","scope":"kafka"}': (
        "the token is refused (insufficient_scope, and scope kafka is asked for)"
    ),
    '{"status":5}': "the token is refused (no reason is given)",
    "Authentication failed.": "the token is refused: Authentication failed.",
    "a\nb\x1b[31m": "the token is refused: a b [31m",
    "x" * 300: f"the token is refused: {'x' * 200}...",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_is_one_short_line(said: str) -> None:
    assert refusal(said, Secret(jwt_of({}))) == REFUSALS[said]


@pytest.mark.parametrize(
    "form", ["bad {}", '{{"status":"bad {}"}}', '{{"scope":"{}"}}', "{:->400}"]
)
def test_a_broker_that_repeats_the_token_is_not_quoted(form: str) -> None:
    token = "e30.e30.c2lnbmF0dXJl"
    for repeated in (token, "c2lnbmF0dXJl"):
        said = refusal(form.format(repeated), Secret(token))
        assert said == "the token is refused (the answer repeats it, and is not shown)"


# -- the token endpoint ----------------------------------------------------------------------------


def test_id_and_secret_are_sent_as_kafka_does() -> None:
    headers, body = token_request(CREDENTIALS)
    assert dict(headers)["authorization"] == "Basic YXBwOjE6aHVuIHRlcisy"  # app:1:hun ter+2
    assert dict(headers)["content-type"] == "application/x-www-form-urlencoded"
    assert body == b"grant_type=client_credentials"
    headers, body = token_request(replace(CREDENTIALS, scope="a b%2Fc"))
    assert body == b"grant_type=client_credentials&scope=a+b%2Fc"


def test_id_secret_and_scope_may_be_encoded() -> None:
    headers, body = token_request(replace(CREDENTIALS, scope="a b&c", is_urlencoded=True))
    assert dict(headers)["authorization"] == "Basic YXBwJTNBMTpodW4rdGVyJTJCMg=="
    assert body == b"grant_type=client_credentials&scope=a+b%26c"


def said_by(status: int, content: Any) -> HttpAnswer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return HttpAnswer(status, body)


@pytest.mark.parametrize("status", [200, 201])
def test_the_token_is_in_the_answer(status: int) -> None:
    assert token_in(said_by(status, {"access_token": " a.b.c\n"}), CREDENTIALS) == "a.b.c"
    assert token_in(said_by(status, {"id_token": "d", "access_token": ""}), CREDENTIALS) == "d"


def failure(status: int, content: Any) -> ClassicError:
    with pytest.raises(ClassicError) as caught:
        token_in(said_by(status, content), CREDENTIALS)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("content", [{}, [], b"<html>", b'{"access_token":5}', b"", b"\xff"])
def test_an_answer_without_a_token_is_refused(content: Any) -> None:
    error = failure(200, content)
    assert isinstance(error, AuthenticationFailed)
    assert str(error).startswith("idp.example:8443 answers without access_token")


REFUSED = {
    (401, "invalid_client"): "check sasl.oauthbearer.client.credentials.client.id and",
    (400, "unauthorized_client"): "let the provider allow the grant client_credentials",
    (400, "invalid_scope"): "check sasl.oauthbearer.scope",
    (400, "other"): "check sasl.oauthbearer.token.endpoint.url",
}


@pytest.mark.parametrize(("status", "code"), REFUSED)
def test_a_refusal_of_the_endpoint_says_what_to_check(status: int, code: str) -> None:
    error = failure(status, {"error": code, "error_description": "No\nway."})
    assert isinstance(error, AuthenticationFailed)
    assert str(error).startswith(
        f"idp.example:8443 gives client app:1 no token (HTTP {status}, {code}: No way.): "
    )
    assert REFUSED[status, code] in str(error)


def test_a_refusal_need_not_have_a_reason() -> None:
    assert "(HTTP 401): check sasl.oauthbearer.client.credentials" in str(failure(401, b"<html>"))
    assert "(HTTP 404): check sasl.oauthbearer.token.endpoint.url" in str(failure(404, b""))
    assert "(HTTP 302): check sasl.oauthbearer.token.endpoint.url" in str(failure(302, b""))
    error = failure(400, {"errorCode": "E7", "errorSummary": "no client"})
    assert "(HTTP 400, E7: no client)" in str(error)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_endpoint_that_is_busy_is_asked_again(status: int) -> None:
    error = failure(status, {"error": "temporarily_unavailable"})
    assert isinstance(error, TokenUnavailable)
    assert "temporarily_unavailable); it is asked again." in str(error)


@pytest.mark.parametrize("repeated", [SECRET, "hun+ter%2B2", "YXBwOjE6aHVuIHRlcisy"])
def test_a_provider_that_repeats_the_secret_is_not_quoted(repeated: str) -> None:
    error = failure(401, {"error": "invalid_client", "error_description": f"bad {repeated}!"})
    assert repeated not in str(error)
    assert "idp.example:8443 gives no token (HTTP 401)" in str(error)


def test_a_secret_that_would_be_cut_is_not_quoted_either() -> None:
    error = failure(401, {"error": "invalid_client", "error_description": "-" * 196 + SECRET})
    assert SECRET[:4] not in str(error)
