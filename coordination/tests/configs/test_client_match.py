"""The clients that a client metrics subscription is for."""

from __future__ import annotations

import time

import pytest

from tidegate_coordination.configs.client_match import ATTRIBUTES, ClientMatch
from tidegate_coordination.configs.validation import InvalidConfig

CLIENT = {name: "" for name in ATTRIBUTES} | {"client_id": "a1", "client_software_name": "java"}


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("", True),
        ("  ", True),
        ("client_id=a1", True),
        ("client_id=a", False),
        (" client_id = a. , client_software_name = java|go ", True),
        ("client_id=a., client_software_name=go", False),
        ("client_id=b,client_id=a1", True),
        ("client_id=a1==", True),
        ("client_id= =", False),
        ("client_source_port= =", True),
    ],
)
def test_all_patterns_must_match_the_whole_text(text: str, is_meant: bool) -> None:
    assert ClientMatch(text).matches(CLIENT) == is_meant


@pytest.mark.parametrize(
    "text",
    [
        "client_id",
        "client_id=",
        "=a",
        "===",
        "client_id=a=b",
        "client_rack=a",
        "Client_id=a",
        "client_id=(",
        r"client_id=(a)\1",
        "client_id=(?<=a)b",
        "client_id=(a{1000}){1000}",
        "client_id=a,,client_software_name=b",
    ],
)
def test_what_is_no_such_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="Illegal client matching pattern"):
        ClientMatch(text)


def test_a_refusal_shows_the_beginning_of_a_long_pattern() -> None:
    with pytest.raises(InvalidConfig) as refused:
        ClientMatch("client_id" * 5_000)
    assert len(str(refused.value)) < 300


def test_no_pattern_takes_exponential_time() -> None:
    match = ClientMatch("client_id=(a*)*b")
    began = time.process_time()
    assert not match.matches(CLIENT | {"client_id": "a" * 255})
    assert time.process_time() - began < 1
