"""The requests that a gateway accepts at its peer listener."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.messages import (
    MAX_QUESTION_BYTES,
    PROPOSALS_PATH,
    VERSION,
    Ask,
    encode,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.peers.peer_service import PeerService
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret

TOKEN = "secret"


@pytest.mark.parametrize("path", ["/v1/proposals", "/v1/objects/x", "/v1/entries/1", "/"])
@pytest.mark.parametrize(("token", "status"), [(TOKEN, b""), ("guess", b"401")])
async def test_a_wrong_peer_token_is_refused_before_the_body(
    path: str, token: str, status: bytes, autojump_clock: MockClock
) -> None:
    log = MemoryLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: 1e6)
    service = PeerService(coordinator, log, Secret(TOKEN))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {MAX_QUESTION_BYTES}\r\n\r\n"
    )
    with trio.fail_after(600):
        async with trio.open_nursery() as nursery:
            ours, theirs = memory_stream_pair()
            nursery.start_soon(service.serve, theirs)
            await ours.send_all(head.encode())
            answer = b"".join([bytes(part) async for part in ours])
    # The gateway waits for the body of a peer.
    assert answer[len("HTTP/1.1 ") :][:3] == status
    assert (trio.current_time() < 2) is bool(status)


@pytest.mark.parametrize(
    ("method", "body", "status", "words"),
    [
        ("GET", b"", 405, b"sent with POST"),
        ("POST", b"no message", 400, b""),
        ("POST", encode(Ask(VERSION, "another", 1, 0, 0, 0, [])), 409, b"of cluster another"),
        ("POST", encode(Ask(VERSION, "", 1, 0, 0, 0, [])), 200, b""),
    ],
)
async def test_a_malformed_question_gets_a_sentence(
    method: str, body: bytes, status: int, words: bytes
) -> None:
    log = MemoryLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: 1e6)
    service = PeerService(coordinator, log, Secret())
    answer = await service.handle(HttpRequest(method, PROPOSALS_PATH, (), body))
    assert answer.status == status
    assert words in answer.body
    assert answer.body
