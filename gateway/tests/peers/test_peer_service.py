"""The requests that a gateway accepts at its peer listener."""

from __future__ import annotations

from contextlib import aclosing
from random import Random

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tests.worlds.doors import NO_HOSTS, alone
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.forwarding.messages import (
    MAX_QUESTION_BYTES,
    PROPOSALS_PATH,
    VERSION,
    Ask,
    encode,
)
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.peers.peer_service import PeerService
from tidegate_gateway.peers.peers import HttpPeers
from tidegate_runtime.http.client import Connect
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
            nursery.start_soon(service.serve, theirs, alone(), NO_HOSTS)
            await ours.send_all(head.encode())
            answer = b"".join([bytes(part) async for part in ours])
    # With the right token the gateway waits for the body.
    assert answer[len("HTTP/1.1 ") :][:3] == status
    assert (trio.current_time() < 2) is bool(status)


@pytest.mark.parametrize("token", [b"secret", b"s\xc3\xa9cret", b"\xff"])
async def test_a_peer_token_may_be_any_text_and_bytes_that_are_none(token: bytes) -> None:
    """A variable of the environment may have bytes that are no UTF-8."""
    log = MemoryLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: 1e6)
    given = Secret(token.decode(errors="surrogateescape"))
    services = {"good": PeerService(coordinator, log, given)}
    services["bad"] = PeerService(coordinator, log, Secret("another"))
    async with trio.open_nursery() as nursery:

        def dial(host: str, port: int) -> Connect:
            async def connect() -> trio.abc.Stream:
                ours, theirs = memory_stream_pair()
                nursery.start_soon(services[host].serve, theirs, alone(), NO_HOSTS)
                return ours

            return connect

        async with aclosing(HttpPeers(dial, given)) as peers:
            question = Ask(VERSION, "", 1, 0, 0, 0, [])
            assert (await peers.ask(peer("good"), question, 5)).answers == []
            with pytest.raises(PeerUnavailable, match="give all gateways the same"):
                await peers.ask(peer("bad"), question, 5)
        nursery.cancel_scope.cancel()


def peer(host: str) -> Gateway:
    endpoint = Endpoint(PEER_LISTENER, host, 9645)
    return Gateway(7, 2, "key", "az", (endpoint,), "1", False, 0, 0)


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
