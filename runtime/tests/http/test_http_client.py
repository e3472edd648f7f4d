"""The HTTP client: connections that it keeps or closes; it repeats no request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tests.worlds.http_world import MemoryServer, memory_server
from tidegate_runtime.http.client import HttpClient, HttpUnavailable
from tidegate_runtime.http.values import HttpAnswer, HttpRequest


class Counting:
    """Answers with the body, and counts requests; `/slow` takes an hour."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most_at_once = self._now = 0

    async def __call__(self, request: HttpRequest) -> HttpAnswer:
        self.asked.append(request.target)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await trio.sleep(3600 if request.target == "/slow" else 0.01)
        finally:
            self._now -= 1
        return HttpAnswer(200, request.body, "x/y", (("X-Two", "2"),))


@asynccontextmanager
async def counted() -> AsyncIterator[tuple[Counting, MemoryServer]]:
    counting = Counting()
    async with memory_server(counting) as server:
        yield counting, server


async def ask(client: HttpClient, target: str = "/", *, seconds: float = 5.0) -> HttpAnswer:
    return await client.call(
        "PUT", target, body=b"hello", timeout_seconds=seconds, max_answer_bytes=100
    )


async def test_calls_share_a_connection(autojump_clock: MockClock) -> None:
    async with counted() as (_, server):
        client = server.client()
        for _ in range(3):
            answer = await ask(client)
            assert (answer.status, answer.body, answer.content_type) == (200, b"hello", "x/y")
            assert answer.header("x-TWO") == "2"
        assert len(server.streams) == 1
        await client.aclose()


async def test_a_connection_that_waited_long_is_not_used(autojump_clock: MockClock) -> None:
    async with counted() as (_, server):
        client = server.client()
        for _ in range(2):
            await ask(client)
            await trio.sleep(5)
        assert len(server.streams) == 2


async def test_calls_at_once_are_bounded_and_wait_in_their_time(autojump_clock: MockClock) -> None:
    async with counted() as (counting, server):
        client = server.client(max_connections=2)
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(ask, client)
        assert (counting.most_at_once, len(server.streams)) == (2, 2)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(fails, client, "within 9 s", 9.0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(fails, client, "within 3 s", 3.0)
        assert counting.asked.count("/slow") == 2


async def fails(client: HttpClient, words: str, seconds: float = 5.0) -> None:
    with pytest.raises(HttpUnavailable, match=words):
        await ask(client, "/slow", seconds=seconds)


async def test_a_slow_answer_is_given_up_with_its_connection(autojump_clock: MockClock) -> None:
    async with counted() as (counting, server):
        client = server.client()
        await fails(client, "memory did not answer within 7 s", 7.0)
        assert trio.current_time() == pytest.approx(7)
        await ask(client)
        assert (counting.asked, len(server.streams)) == (["/slow", "/"], 2)


async def test_a_cancelled_call_leaves_no_half_connection(autojump_clock: MockClock) -> None:
    async with counted() as (_, server):
        client = server.client()
        with trio.move_on_after(1):
            await ask(client, "/slow", seconds=100)
        assert (await ask(client)).body == b"hello"
        assert len(server.streams) == 2


async def test_a_refused_connection_is_reported(autojump_clock: MockClock) -> None:
    async with counted() as (_, server):
        server.is_down = True
        with pytest.raises(HttpUnavailable, match="memory cannot be reached: no server listens"):
            await ask(server.client())


async def test_no_request_is_repeated_and_one_failure_closes_all_connections(
    autojump_clock: MockClock,
) -> None:
    async with counted() as (counting, server):
        client = server.client()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client)
            nursery.start_soon(ask, client)
        for stream in server.streams:  # as if the server had restarted
            assert isinstance(stream.receive_stream, trio.testing.MemoryReceiveStream)
            stream.receive_stream.put_eof()
        with pytest.raises(HttpUnavailable, match="gave no whole answer"):
            await ask(client)
        before = len(counting.asked)
        await ask(client)
        assert (len(counting.asked), len(server.streams)) == (before + 1, 3)


async def test_a_closed_client_ends_its_calls(autojump_clock: MockClock) -> None:
    async with counted() as (_, server):
        client = server.client()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, client, "no whole answer")
            await trio.testing.wait_all_tasks_blocked()
            await client.aclose()
        with pytest.raises(HttpUnavailable, match="were closed"):
            await ask(client)
        assert trio.current_time() == 0


async def answered_with(sent: bytes, *, calls: int = 1) -> HttpAnswer:
    """Return the client's result if a server sends these bytes and reads nothing."""

    async def connect() -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        await theirs.send_all(sent)
        await theirs.send_eof()
        return ours

    client = HttpClient(connect, host="odd")
    for _ in range(calls - 1):
        await ask(client)
    return await ask(client)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "gave no whole answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "gave no whole answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101, "over 100 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101, "over 100 bytes"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "gave no whole answer"),
        (b"HTTP/1.1 101 Other\r\nUpgrade: x\r\n\r\n", "gave no whole answer"),
    ],
)
async def test_a_bad_answer_is_no_answer(
    sent: bytes, words: str, autojump_clock: MockClock
) -> None:
    with pytest.raises(HttpUnavailable, match=words):
        await answered_with(sent)


async def test_an_answer_until_the_end_of_the_stream(autojump_clock: MockClock) -> None:
    for _ in range(2):
        assert (await answered_with(b"HTTP/1.0 404 No\r\n\r\nall", calls=2)).body == b"all"


async def test_unrequested_bytes_are_no_answer(autojump_clock: MockClock) -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
    assert (await answered_with(ok + b"1" + ok + b"2", calls=2)).body == b"1"


async def test_a_refusal_before_the_body_was_read_is_heard(autojump_clock: MockClock) -> None:
    async def connect() -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        await theirs.send_all(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")

        async def broken() -> None:
            raise trio.BrokenResourceError

        ours.send_stream.send_all_hook = broken
        return ours

    client = HttpClient(connect, host="small")
    for _ in range(2):
        assert (await ask(client)).status == 413


async def test_malformed_http_is_not_sent(autojump_clock: MockClock) -> None:
    async with counted() as (counting, server):
        client = server.client()
        with pytest.raises(h11.LocalProtocolError):
            await ask(client, "/a b")
        await ask(client)
        assert counting.asked == ["/"]


async def test_a_name_that_is_none_cannot_be_reached() -> None:
    async def connect() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return await trio.open_tcp_stream("gw..example", 1)

    client = HttpClient(connect, host="gw..example:1")
    with pytest.raises(HttpUnavailable, match="cannot be reached"):
        await client.call("GET", "/", timeout_seconds=5, max_answer_bytes=10)
    await client.aclose()
