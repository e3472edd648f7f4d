"""The exchange, frame by frame: cases that no whole authentication shows."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.security.sasl_client import plain_token
from tests.worlds.wire_client import request_frame
from tidegate_gateway.security.sasl.exchange import End, Exchange, Verdict
from tidegate_gateway.security.sasl.mechanism import Mechanism
from tidegate_gateway.security.sasl.plain import PlainConversation
from tidegate_protocol.frames import LENGTH_BYTES
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh

VERSIONS = av.ApiVersionsRequest("tests", "1")


def exchange(session_ms: int = 0) -> Exchange:
    """Return an exchange whose mechanisms accept users whose password is their name."""
    begin = lambda: PlainConversation(lambda user, password: user == password)  # noqa: E731
    return Exchange([Mechanism("PLAIN", begin, session_ms), Mechanism("OTHER", begin, 0)])


def give(machine: Exchange, name: str, version: int, request: Any, now: float = 0.0) -> Verdict:
    frame = memoryview(request_frame(name, version, request))[LENGTH_BYTES:]
    return machine.receive(frame, now)


def shake(machine: Exchange, mechanism: str = "PLAIN", now: float = 0.0) -> Verdict:
    return give(machine, "SaslHandshake", 1, sh.SaslHandshakeRequest(mechanism), now)


def token(machine: Exchange, user: str, now: float = 0.0, password: str = "") -> Verdict:
    data = plain_token(user, password or user)
    return give(machine, "SaslAuthenticate", 2, sa.SaslAuthenticateRequest(data), now)


def proved(machine: Exchange) -> tuple[str | None, float, bool]:
    return machine.principal, machine.ends_at, machine.is_done


def test_a_principal_comes_from_a_proof_alone() -> None:
    machine = exchange()
    assert give(machine, "ApiVersions", 3, VERSIONS).is_served
    assert not machine.is_done
    shake(machine)
    assert proved(machine) == (None, inf, False)
    assert token(machine, "alice").end is None
    assert proved(machine) == ("User:alice", inf, True)


@pytest.mark.parametrize("user", ["*"])
def test_no_user_becomes_all_users(user: str) -> None:
    machine = exchange()
    shake(machine)
    verdict = token(machine, user)
    assert verdict.end is End.LATE
    assert b"due to invalid credentials" in (verdict.answer or b"")
    assert machine.principal is None


def test_a_failure_is_the_end() -> None:
    machine = exchange()
    shake(machine)
    assert token(machine, "alice", password="x").end is End.LATE
    assert not machine.is_done
    assert token(machine, "alice").end is not None
    assert machine.principal is None


def test_a_session_that_ends_counts_from_its_last_proof() -> None:
    machine = exchange(5000)
    shake(machine, now=10.0)
    token(machine, "alice", now=11.0)
    assert machine.ends_at == 16.0
    assert machine.begin_again(14.0)
    assert not machine.is_done
    shake(machine, now=14.0)
    token(machine, "alice", now=15.0)
    assert machine.ends_at == 20.0


def test_a_session_without_end_does_not_begin_again() -> None:
    machine = exchange()
    shake(machine)
    token(machine, "alice")
    assert not machine.begin_again(1e9)
    assert machine.is_done


def test_it_begins_again_once_a_second() -> None:
    machine = exchange(5000)
    shake(machine)
    token(machine, "alice")
    for now, may in ((0.0, True), (0.9, False), (0.99, False), (1.0, True), (1.5, False)):
        assert machine.begin_again(now) is may, now
        if may:
            shake(machine, now=now)
            token(machine, "alice", now=now)


def test_a_failed_second_proof_leaves_no_session() -> None:
    machine = exchange(5000)
    shake(machine)
    token(machine, "alice")
    machine.begin_again(1.0)
    shake(machine, now=1.0)
    assert token(machine, "bob", now=1.0).end is End.LATE
    assert not machine.is_done
    assert machine.principal == "User:alice"


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_no_bytes_authenticate_or_break_it(frames: list[bytes]) -> None:
    machine = exchange(5000)
    for frame in frames:
        if machine.receive(memoryview(frame), 0.0).end is not None:
            break
    assert machine.principal is None
    assert not machine.is_done
