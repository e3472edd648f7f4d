"""The proxy that delays a store: by how much, and which answers.  In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio
from trio.testing import MockClock, memory_stream_pair

from tidegate_bench.brokers.delay_proxy import relay

DELAY = 0.06
Stream = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]


@dataclass
class Ends:
    client: Stream
    server: Stream

    async def exchange(self, request: bytes, *answer: bytes) -> float:
        """Send a request and its answer in pieces; return when the client has the whole answer."""
        begun = trio.current_time()
        await self.client.send_all(request)
        received = b""
        while len(received) < len(request):
            received += await self.server.receive_some()
        assert received == request
        for piece in answer:
            await self.server.send_all(piece)
        received = b""
        while len(received) < len(b"".join(answer)):
            received += await self.client.receive_some()
        assert received == b"".join(answer)
        return trio.current_time() - begun


@asynccontextmanager
async def relayed() -> AsyncIterator[Ends]:
    client, near = memory_stream_pair()
    far, server = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, near, far, DELAY, "PUT")
        yield Ends(client, server)
        nursery.cancel_scope.cancel()


def close_to(seconds: float, expected: float) -> bool:
    return abs(seconds - expected) < 1e-6


async def test_each_answer_to_a_put_is_late_once(autojump_clock: MockClock) -> None:
    async with relayed() as ends:
        for _ in range(2):
            assert close_to(await ends.exchange(b"PUT /k", b"HTTP/1.1 200", b" OK"), DELAY)


async def test_answers_to_other_requests_are_not_late(autojump_clock: MockClock) -> None:
    async with relayed() as ends:
        assert close_to(await ends.exchange(b"GET /k", b"HTTP/1.1 200 OK"), 0)
        assert close_to(await ends.exchange(b"PUT /k", b"HTTP/1.1 200 OK"), DELAY)
        assert close_to(await ends.exchange(b"GET /k", b"HTTP/1.1 200 OK"), 0)


async def test_a_body_is_no_request(autojump_clock: MockClock) -> None:
    async with relayed() as ends:
        await ends.client.send_all(b"GET /k")
        assert await ends.server.receive_some() == b"GET /k"
        assert close_to(await ends.exchange(b"PUT in a body", b"HTTP/1.1 200 OK"), 0)


async def test_connections_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    took: list[float] = []

    async def put(ends: Ends) -> None:
        took.append(await ends.exchange(b"PUT /k", b"HTTP/1.1 200 OK"))

    async with relayed() as one, relayed() as other, trio.open_nursery() as nursery:
        nursery.start_soon(put, one)
        nursery.start_soon(put, other)
    assert len(took) == 2
    assert all(close_to(each, DELAY) for each in took)


async def test_the_end_of_one_side_is_the_end_of_both(autojump_clock: MockClock) -> None:
    client, near = memory_stream_pair()
    far, server = memory_stream_pair()
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relay, near, far, DELAY, "PUT")
            await client.aclose()
            assert await server.receive_some() == b""
