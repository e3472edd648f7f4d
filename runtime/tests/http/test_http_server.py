"""The HTTP server: requests that it answers, refuses, or disconnects."""

import re
from functools import partial

import pytest
import structlog
import trio
from trio.testing import MockClock, memory_stream_pair

from tests.worlds.doors import NO_HOSTS, alone
from tests.worlds.http_world import memory_server
from tidegate_runtime.http.server import Handle, serve_http
from tidegate_runtime.http.values import HttpAnswer, HttpRequest, Standing


async def echo(request: HttpRequest) -> HttpAnswer:
    await trio.lowlevel.checkpoint()
    text = f"{request.method} {request.target} {request.header('X-One')} ".encode()
    return HttpAnswer(200, text + request.body)


async def answers(sent: bytes, handle: Handle = echo) -> bytes:
    """Send these bytes, and then nothing; return all bytes that the client gets."""
    async with memory_server(handle) as server:
        stream = await server.connect()
        assert isinstance(stream, trio.StapledStream)
        await stream.send_all(sent)
        await stream.send_eof()
        return b"".join([part async for part in stream])


def request(line: str, *headers: str, body: str = "") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *headers, "", body]).encode()


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answer)]


async def test_the_server_receives_the_whole_request() -> None:
    sent = request("PUT /a?b=%20", "x-one: 1", "Content-Length: 4", body="body")
    head, _, body = (await answers(sent)).partition(b"\r\n\r\n")
    assert body == b"PUT /a?b=%20 1 body"
    assert b"Content-Length: 19" in head
    assert b"Content-Type: text/plain" in head


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    answer = await answers(request("GET /1") + request("GET /2") + request("GET /3"))
    assert statuses(answer) == [200, 200, 200]
    assert answer.index(b"GET /1") < answer.index(b"GET /2") < answer.index(b"GET /3")


async def test_a_body_in_chunks() -> None:
    sent = request("PUT /", "Transfer-Encoding: chunked", body="3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert (await answers(sent)).endswith(b"PUT / None abcde")


async def test_head_and_no_content_have_no_body() -> None:
    async def nothing(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        return HttpAnswer(204)

    assert (await answers(request("HEAD /"))).endswith(b"\r\n\r\n")
    twice = await answers(request("PUT /") * 2, nothing)
    assert statuses(twice) == [204, 204]
    assert b"Content-Length" not in twice


@pytest.mark.parametrize("header", [("X-One", "caf\xe9"), ("X-One", "a\r\nb")])
async def test_an_answer_that_is_no_http_ends_the_connection_and_nothing_else(
    header: tuple[str, str],
) -> None:
    async def bad(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        return HttpAnswer(200, headers=(header,))

    with structlog.testing.capture_logs() as told:
        assert await answers(request("GET /"), bad) == b""
    assert [each["event"] for each in told] == ["an answer that was no HTTP could not be sent"]


async def test_a_body_is_called_for_where_the_client_waits() -> None:
    sent = request("PUT /", "Expect: 100-continue", "Content-Length: 2", body="xx")
    async with memory_server(echo) as server:
        stream = await server.connect()
        await stream.send_all(sent[:-2])
        assert statuses(bytes(await stream.receive_some())) == [100]
        await stream.send_all(sent[-2:])
        assert statuses(bytes(await stream.receive_some())) == [200]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (request("GET /", "Content-Length: 1", "Content-Length: 2"), 400),
        (request("GET /", "X: " + "x" * 40_000), 431),
        (request("PUT /", "Content-Length: 1001"), 413),  # before a byte of the body arrives
        (request("PUT /", "Transfer-Encoding: chunked", body="3e9\r\n" + "x" * 1001), 413),
        (request("PUT /", "Content-Length: 1000", body="x" * 1000), 200),
        (request("PUT /", "Content-Length: 1000", body="x" * 999), 400),
    ],
)
async def test_bad_requests_get_an_error_status(
    sent: bytes, status: int, autojump_clock: MockClock
) -> None:
    assert statuses(await answers(sent)) == [status]


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
async def test_the_http_server_drops_a_client_that_disconnects(
    sent: bytes, autojump_clock: MockClock
) -> None:
    assert statuses(await answers(sent)) in ([], [400])


@pytest.mark.parametrize(("sent", "seconds"), [(b"", 75), (b"GET / HT", 10)])
async def test_the_server_closes_a_silent_client(
    sent: bytes, seconds: float, autojump_clock: MockClock
) -> None:
    async with memory_server(echo) as server:
        stream = await server.connect()
        await stream.send_all(sent or request("GET /"))
        answered = [bytes(part) async for part in stream]
        assert bool(answered) is not bool(sent)
    assert trio.current_time() == pytest.approx(seconds, abs=0.1)


async def test_an_answer_may_take_long(autojump_clock: MockClock) -> None:
    async def slow(request: HttpRequest) -> HttpAnswer:
        await trio.sleep(1000)
        return HttpAnswer(200, b"at last")

    assert (await answers(request("GET /"), slow)).endswith(b"at last")


async def test_an_answer_that_the_client_does_not_read_ends_the_connection(
    autojump_clock: MockClock,
) -> None:
    ours, theirs = memory_stream_pair()

    async def stuck() -> None:
        await trio.sleep_forever()

    theirs.send_stream.send_all_hook = stuck
    await ours.send_all(request("GET /"))
    await serve_http(theirs, echo, alone(), hosts=NO_HOSTS, max_body_bytes=10)
    assert trio.current_time() == pytest.approx(30, abs=0.1)


async def test_a_handler_that_fails_is_a_500_and_a_line_in_the_log() -> None:
    async def broken(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        raise ValueError("secret of the house")

    with structlog.testing.capture_logs() as lines:
        answer = await answers(request("GET /x?token=1") * 2, broken)
    assert statuses(answer) == [500, 500]
    assert b"secret" not in answer
    assert [(line["log_level"], line["path"]) for line in lines] == [("error", "/x")] * 2


async def test_an_answer_that_is_no_http_closes(autojump_clock: MockClock) -> None:
    async def bad(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        return HttpAnswer(200, headers=(("two\r\nlines", "x"),))

    with structlog.testing.capture_logs() as lines:
        assert await answers(request("GET /"), bad) == b""
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("framing", "body"),
    [("Content-Length: 900", ""), ("Transfer-Encoding: chunked", "3\r\nabc\r\n")],
)
async def test_the_body_of_a_stranger_is_not_read(
    framing: str, body: str, autojump_clock: MockClock
) -> None:
    """The server answers before the body arrives, and then closes the connection."""

    def standing_of(head: HttpRequest) -> Standing:
        return Standing.KNOWN if head.header("X-One") == "secret" else Standing.STRANGER

    async def guarded(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        return HttpAnswer(401 if standing_of(request) is Standing.STRANGER else 200, request.body)

    async with trio.open_nursery() as nursery:
        ours, theirs = memory_stream_pair()
        serve = partial(serve_http, hosts=NO_HOSTS, max_body_bytes=1000, standing_of=standing_of)
        nursery.start_soon(serve, theirs, guarded, alone())
        await ours.send_all(request("GET /", "X-One: no"))
        await ours.send_all(request("PUT /", "X-One: secret", "Content-Length: 1", body="x"))
        await ours.send_all(request("PUT /", "X-One: no", framing, body=body))
        answer = b"".join([bytes(part) async for part in ours])
    assert statuses(answer) == [401, 200, 401]
    assert answer.count(b"Connection: close") == 1
    assert trio.current_time() < 2


async def test_the_rest_of_a_refused_request_is_read_before_the_connection_ends(
    autojump_clock: MockClock,
) -> None:
    """If the server closed earlier, the connection would be reset and the answer lost."""
    ours, theirs = memory_stream_pair()
    calls: list[str] = []

    async def sends() -> None:
        await trio.lowlevel.checkpoint()
        calls.append("send")

    async def receives() -> None:
        await trio.lowlevel.checkpoint()
        calls.append("receive")

    theirs.send_stream.send_all_hook = sends
    theirs.receive_stream.receive_some_hook = receives
    await ours.send_all(request("PUT /", "Content-Length: 900"))
    await serve_http(
        theirs,
        echo,
        alone(),
        hosts=NO_HOSTS,
        max_body_bytes=1000,
        standing_of=lambda _: Standing.STRANGER,
    )
    assert calls == ["receive", "send", "receive"]
