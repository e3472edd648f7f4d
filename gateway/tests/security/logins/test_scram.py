"""SCRAM's server side with an independent client, and with spoiled messages."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from tidegate_gateway.requests.scram.scram import credential_from
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials, Refused
from tidegate_gateway.security.sasl.scram import HASHES, ScramConversation, made_up
from tidegate_protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion

SALT = b"salt of at least twelve bytes"
SECRET = b"of the gateways"
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


def credential(mechanism: str, user: str, password: str, iterations: int = 4096) -> Any:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), SALT, iterations)
    number = NUMBERS[mechanism]
    return credential_from(ScramCredentialUpsertion(user, number, iterations, SALT, salted))


def conversation(
    mechanism: str, user: str = "alice", password: str = "secret", iterations: int = 4096
) -> ScramConversation:
    known = {(mechanism, user): credential(mechanism, user, password, iterations)}
    return ScramConversation(
        mechanism, lambda name, wanted: known.get((name, wanted)), "SERVER", SECRET
    )


def log_in(server: ScramConversation, client: Any) -> None:
    client.set_server_first(server.step(client.get_client_first().encode()).decode())
    client.set_server_final(server.step(client.get_client_final().encode()).decode())


@pytest.mark.parametrize("mechanism", NUMBERS)
@pytest.mark.parametrize("user", ["alice", "a=b", "a,b", "a=,=2C=3D,", "A B"])
def test_a_client_of_others_logs_in_and_believes_the_server(mechanism: str, user: str) -> None:
    server = conversation(mechanism, user)
    log_in(server, ScramClient([mechanism], user, "secret"))
    assert server.user == user


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20))
def test_a_wrong_password_never_fits(password: str) -> None:
    mechanism = "SCRAM-SHA-256"
    server = conversation(mechanism)
    client = ScramClient([mechanism], "alice", password)
    if password == "secret":
        log_in(server, client)
        return
    with pytest.raises(InvalidCredentials, match="the password is wrong"):
        log_in(server, client)
    assert server.user is None


def test_the_other_hash_needs_its_own_credential() -> None:
    server = conversation("SCRAM-SHA-256")
    server._mechanism, server._hash = "SCRAM-SHA-512", "sha512"
    with pytest.raises(InvalidCredentials, match="there is no such user"):
        log_in(server, ScramClient(["SCRAM-SHA-512"], "alice", "secret"))


@pytest.mark.parametrize("change", ["x{}", "{}x", "{}"])
def test_the_whole_nonce_must_come_back_even_if_the_proof_fits(change: str) -> None:
    mechanism = "SCRAM-SHA-256"
    server = conversation(mechanism)
    first = server.step(b"n,,n=alice,r=abc").decode()
    nonce = change.format("abcSERVER")
    unproved = f"c=biws,r={nonce}"
    signed = f"n=alice,r=abc,{first},{unproved}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = f"{unproved},p={b64encode(proof).decode()}".encode()
    if change == "{}":
        assert server.step(final).startswith(b"v=")
        return
    with pytest.raises(InvalidCredentials, match="another nonce"):
        server.step(final)


def test_too_few_iterations_are_refused() -> None:
    server = conversation("SCRAM-SHA-256", iterations=4095)
    with pytest.raises(InvalidCredentials, match="fewer than 4096"):
        server.step(b"n,,n=alice,r=abc")


def test_a_login_by_delegation_token_fails_at_the_end() -> None:
    server = conversation("SCRAM-SHA-256")
    client = ScramClient(["SCRAM-SHA-256"], "alice", "secret")
    first = client.get_client_first() + ",tokenauth=true"
    assert b"i=4096" in server.step(first.encode())
    with pytest.raises(InvalidCredentials):
        server.step(b"c=biws,r=" + server._nonce.encode() + b",p=" + b64encode(bytes(32)))


def test_another_id_is_refused_in_kafkas_words() -> None:
    with pytest.raises(Refused, match="an authorization id that is different from username"):
        conversation("SCRAM-SHA-256").step(b"n,a=bob,n=alice,r=abc")


def test_salts_of_unknown_users_are_stable_and_look_like_those_of_kafkas_tools() -> None:
    found = [made_up("SCRAM-SHA-256", name, SECRET) for name in ("carol", "carol", "dave")]
    assert found[0] == found[1] != found[2]
    assert made_up("SCRAM-SHA-512", "carol", SECRET).salt != found[0].salt
    assert made_up("SCRAM-SHA-256", "carol", b"another").salt != found[0].salt
    assert all(20 <= len(each.salt) <= 26 for each in found)
    assert all(each.salt.decode().isalnum() for each in found)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_no_bytes_break_it(first: bytes, second: bytes) -> None:
    server = conversation("SCRAM-SHA-256")
    try:
        server.step(first)
        server.step(second)
    except (Refused, InvalidCredentials):
        pass
    assert server.user is None


@given(st.binary(max_size=64))
def test_no_bytes_break_its_end(second: bytes) -> None:
    server = conversation("SCRAM-SHA-256")
    server.step(b"n,,n=alice,r=abc")
    with pytest.raises(InvalidCredentials):
        server.step(second)
