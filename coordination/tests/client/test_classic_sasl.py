"""Conversations of SASL mechanisms; scramp's server stands for the broker's."""

from __future__ import annotations

from typing import Any

import pytest
from scramp import ScramMechanism

from tidegate_coordination.client.errors import AuthenticationFailed, TokenRefused
from tidegate_coordination.client.login.sasl import MAX_ITERATIONS, conversation
from tidegate_coordination.client.properties.jaas import SaslCredentials
from tidegate_coordination.client.tokens.bearer import BearerToken
from tidegate_gateway.security.oauth.token_check import BadToken
from tidegate_gateway.security.oauth.token_check import BearerToken as Claims
from tidegate_gateway.security.sasl.bearer import BearerConversation
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials, Refused
from tidegate_gateway.security.sasl.scram import MadeUp, ScramConversation, TokenLogin
from tidegate_runtime.secret import Secret

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
BEARER = BearerToken(Secret("a.b.c"), 0.0, "client app", (("tenant", Secret("x y")),))


def scram_server(mechanism: str, password: str, iterations: int = 4096) -> Any:
    known = ScramMechanism(mechanism)
    info = known.make_auth_info(password, iteration_count=iterations)
    return known.make_server(lambda user: info if user == "a,b=c" else None)


def test_plain_sends_user_and_password_at_once() -> None:
    tokens = conversation(SaslCredentials("PLAIN", "alice", Secret("sécret")))
    assert next(tokens) == b"\0alice\0s\xc3\xa9cret"
    with pytest.raises(StopIteration):
        tokens.send(b"")


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_proves_the_password_to_a_server(mechanism: str) -> None:
    server = scram_server(mechanism, "secret")
    tokens = conversation(SaslCredentials(mechanism, "a,b=c", Secret("secret")))
    first = next(tokens).decode()
    assert "n=a=2Cb=3Dc" in first
    server.set_client_first(first)
    server.set_client_final(tokens.send(server.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        tokens.send(server.get_server_final().encode())


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_server_that_does_not_know_the_password_is_refused(mechanism: str) -> None:
    server = scram_server(mechanism, "other")
    tokens = conversation(SaslCredentials(mechanism, "a,b=c", Secret("secret")))
    server.set_client_first(next(tokens).decode())
    tokens.send(server.get_server_first().encode())
    with pytest.raises(AuthenticationFailed, match="do not trust it"):
        tokens.send(b"v=" + b"A" * 86 + b"==")


@pytest.mark.parametrize("challenge", [b"", b"nonsense", b"\xff", b"r=x,s=YWJj,i=1", b"v=abc"])
def test_a_challenge_that_is_none_is_refused(challenge: bytes) -> None:
    tokens = conversation(SaslCredentials("SCRAM-SHA-256", "alice", Secret("secret")))
    next(tokens)
    with pytest.raises(AuthenticationFailed, match="does not prove"):
        tokens.send(challenge)


def test_a_server_cannot_make_us_compute_for_long() -> None:
    tokens = conversation(SaslCredentials("SCRAM-SHA-256", "alice", Secret("secret")))
    nonce = next(tokens).decode().partition("r=")[2]
    salt = "c2FsdHNhbHRzYWx0"
    with pytest.raises(AuthenticationFailed, match="iterations"):
        tokens.send(f"r={nonce}more,s={salt},i={MAX_ITERATIONS + 1}".encode())


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "ﬁsh"), ("a\u00adb", "x"), ("a", "\u0007")]
)
def test_what_clients_write_differently_is_refused(name: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed, match="ASCII") as caught:
        next(conversation(SaslCredentials("SCRAM-SHA-256", name, Secret(password))))
    assert password not in str(caught.value) or password == "x"


# -- delegation tokens -----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("is_token", [True, False])
def test_a_delegation_token_logs_in_as_its_owner(mechanism: str, is_token: bool) -> None:
    """The server is our gateway, which looks up tokens and users in different tables."""
    hmac_of_token = "aGVsbG8="
    server = ScramMechanism(mechanism)
    salt, stored_key, server_key, iterations = server.make_auth_info(hmac_of_token)
    credential = MadeUp(salt, iterations, stored_key, server_key)

    def find_token(_: str, token_id: str) -> TokenLogin | None:
        return TokenLogin(credential, "alice", 60.0) if token_id == "id-1" else None

    gateway = ScramConversation(mechanism, lambda *_: None, "nonce", b"secret", find_token)
    tokens = conversation(SaslCredentials(mechanism, "id-1", Secret(hmac_of_token), is_token))
    challenge = gateway.step(next(tokens))
    if not is_token:
        with pytest.raises(InvalidCredentials):
            gateway.step(tokens.send(challenge))
        return
    signature = gateway.step(tokens.send(challenge))
    with pytest.raises(StopIteration):
        tokens.send(signature)
    assert (gateway.user, gateway.token_id) == ("alice", "id-1")


# -- bearer tokens ---------------------------------------------------------------------------------


def test_a_bearer_token_is_sent_at_once() -> None:
    seen: list[str] = []

    def check(token: str) -> Any:
        seen.append(token)
        return Claims("alice", 60.0)

    gateway = BearerConversation(check, lambda: 0.0)
    tokens = conversation(BEARER)
    challenge = gateway.step(next(tokens))
    with pytest.raises(StopIteration):
        tokens.send(challenge)
    assert (seen, gateway.user) == (["a.b.c"], "alice")


def test_a_refused_bearer_token_ends_the_conversation() -> None:
    def check(_: str) -> Any:
        raise BadToken("its issuer is another")

    gateway = BearerConversation(check, lambda: 0.0)
    tokens = conversation(BEARER)
    agreed = tokens.send(gateway.step(next(tokens)))
    with pytest.raises(Refused):
        gateway.step(agreed)
    # If the broker accepts after that, the client still refuses.
    with pytest.raises(TokenRefused, match=r"the token is refused \(invalid_token\)"):
        tokens.send(b"")
