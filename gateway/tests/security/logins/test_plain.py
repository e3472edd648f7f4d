"""PLAIN, token by token."""

from __future__ import annotations

import pytest

from tidegate_gateway.security.sasl.mechanism import Refused
from tidegate_gateway.security.sasl.plain import PlainConversation, is_password_in
from tidegate_runtime.secret import Secret

OTHER = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


def conversation() -> PlainConversation:
    return PlainConversation(
        is_password_in({"alice": Secret("secret"), "bob": Secret("b\u00fcro")})
    )


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0bob\0b\u00fcro".encode(), "bob"),
    ],
)
def test_a_user_with_its_password_is_taken(token: bytes, user: str) -> None:
    plain = conversation()
    assert plain.step(token) == b""
    assert plain.user == user


def test_no_password_is_that_of_an_unknown_user() -> None:
    check = is_password_in({"alice": Secret("secret")})
    assert not check("carol", "")
    assert not check("carol", "secret")
    assert not check("alice", "")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0Secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0secret ", "Authentication failed: Invalid username or password"),
        (b"\0Alice\0secret", "Authentication failed: Invalid username or password"),
        (b"\0bob\0b\xfcro", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0secret", OTHER),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_others_are_refused_in_kafkas_words(token: bytes, text: str) -> None:
    plain = conversation()
    with pytest.raises(Refused) as refused:
        plain.step(token)
    assert str(refused.value) == text
    assert plain.user is None
