"""One connection of an HTTP/1.1 server: requests in, one answer each, in order.

h11 parses the bytes; this file moves them.  Every request has a bound, and every wait a deadline
except the handler's own: an answer may be slow on purpose (a long poll).  A client that breaks the
protocol gets an error, if it can still read it, and is disconnected.

A connection is a stranger at its door (doors/slots.py) until a request authenticates its client.
If clients need no login, a client is also a stranger between its requests, so a silent one is
closed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import h11
import structlog
import trio

from tidegate_runtime.doors.slots import STRANGER_SECONDS, Visitor
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.values import Headers, HttpAnswer, HttpRequest, Standing

from ..line_rates import STRANGERS_LINES

_log = structlog.get_logger("tidegate.http", STRANGERS_LINES)

Handle = Callable[[HttpRequest], Awaitable[HttpAnswer]]
StandingOf = Callable[[HttpRequest], Standing]
"""Says by a request's head what is known of its client."""

MAX_HEAD_BYTES: Final = 16 * 1024
_RECEIVE_BYTES: Final = 16 * 1024  # h11 bounds only a head that arrives in parts
_ANSWER_SECONDS: Final = 30.0
_LINGER_SECONDS: Final = 1.0
_LINGER_RECEIVES: Final = 16
_TOO_LARGE: Final = 413
_MISDIRECTED: Final = 421
_WITH_SLOT: Final = frozenset({Standing.GUEST, Standing.KNOWN})
_NO_SLOT: Final = "all connections of this listener are in use: try again in a second\n"
_WITHOUT_BODY: Final = (204, 304)
_CLOSE: Final = ("Connection", "close")
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


def guest(_: HttpRequest) -> Standing:
    """See StandingOf: no client is asked for a proof."""
    return Standing.GUEST


async def serve_http(
    stream: trio.abc.Stream,
    handle: Handle,
    visitor: Visitor,
    *,
    hosts: KnownHosts,
    max_body_bytes: int,
    standing_of: StandingOf = guest,
    idle_seconds: float = 75.0,
    request_seconds: float = 30.0,
) -> None:
    """Answer the requests of one connection, and close it.  Raises nothing but a cancellation.

    Args:
        handle: must end by itself, even if the client disconnects.  Its errors are logged and
          answered with 500.
        max_body_bytes: a larger body is answered with 413, before it is read if its length is
          declared.
        visitor: the connection's visitor; the caller lets it leave.
        hosts: a guest's request gets 421 if its Host header names none of them.
        standing_of: if a request is a stranger's, its body is not read.  `handle` gets the request
          without the body, to refuse it, and the connection is closed.
        idle_seconds: the longest wait for the first byte of a request; for a stranger at most
          STRANGER_SECONDS.
        request_seconds: the longest wait for the rest of a request; the same for a stranger's
          head.
    """
    connection = _Connection(stream, visitor, hosts, max_body_bytes, standing_of)
    try:
        while await connection.begins(idle_seconds):
            request = await connection.request(request_seconds)
            if request is None or not await connection.answer(request, handle):
                return
    except h11.RemoteProtocolError as error:
        await connection.refuse(error)
    except (*_GONE, trio.TooSlowError):
        pass  # the client is gone, or does not read
    except (h11.LocalProtocolError, UnicodeEncodeError):  # UnicodeEncodeError: by a header
        _log.exception("an answer that was no HTTP could not be sent")
    finally:
        await trio.aclose_forcefully(stream)


class _Connection:
    """One connection. Its methods raise `_GONE`, h11.RemoteProtocolError and trio.TooSlowError."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        visitor: Visitor,
        hosts: KnownHosts,
        max_body_bytes: int,
        standing_of: StandingOf,
    ) -> None:
        self._stream = stream
        self._visitor = visitor
        self._hosts = hosts
        self._is_misdirected = False
        self._max_body_bytes = max_body_bytes
        self._standing_of = standing_of
        self._standing = Standing.STRANGER
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def begins(self, idle_seconds: float) -> bool:
        """Return whether a request begins; False if the client closes or is silent for too long."""
        if self._http.trailing_data[0]:
            return True
        with trio.move_on_after(self._at_most(idle_seconds)):
            data = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
            self._http.receive_data(data)
            return bool(data)
        return False

    def _at_most(self, seconds: float) -> float:
        """Return how long to wait for the client."""
        return seconds if self._standing in _WITH_SLOT else min(seconds, STRANGER_SECONDS)

    async def request(self, seconds: float) -> HttpRequest | None:
        """Return the request that began; None at the end.

        A stranger's request comes without its body.
        """
        begun = trio.current_time()
        with trio.fail_after(self._at_most(seconds)):
            head = await self._head()
        if head is None:
            return None
        with trio.fail_at(begun + seconds):
            return await self._with_body(head)

    async def _head(self) -> h11.Request | None:
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        self._check_size(_content_length(head))
        request = _request(head, b"")
        self._standing = self._standing_of(request)
        is_guest = self._standing is Standing.GUEST
        self._is_misdirected = is_guest and not self._hosts.admits(request.header("host"))
        if self._is_misdirected:
            self._standing = Standing.STRANGER
        if self._standing is Standing.KNOWN:
            # before its body arrives; without a slot, answer() refuses the request
            self._visitor.known()
        return head

    async def _with_body(self, head: h11.Request) -> HttpRequest | None:
        if _has_body(head) and self._standing is Standing.STRANGER:
            return _request(head, b"")
        await self._go_on()
        body = bytearray()
        while True:
            match await self._next_event():
                case h11.Data(data=data):
                    body += data
                    self._check_size(len(body))
                case h11.EndOfMessage():
                    return _request(head, bytes(body))
                case _:
                    return None

    def _check_size(self, body_bytes: int) -> None:
        if body_bytes > self._max_body_bytes:
            raise h11.RemoteProtocolError("the body is too large", error_status_hint=_TOO_LARGE)

    async def _go_on(self) -> None:
        """Send "100 Continue" to a client that waits for it."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._http.send(go_on) or b"")

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self._stream.receive_some(_RECEIVE_BYTES)))
        return event

    async def answer(self, request: HttpRequest, handle: Handle) -> bool:
        """Answer; return whether another request may follow."""
        answer = await self._answer_of(request, handle)
        is_last = self._http.their_state is h11.SEND_BODY  # the request's body was not read
        if is_last:
            answer = replace(answer, headers=(*answer.headers, _CLOSE))
        try:
            await self._send(answer, is_head=request.method == "HEAD")
        finally:
            answer.on_sent()
        if self._standing is Standing.GUEST:
            self._visitor.strange()
        if is_last:
            await self._linger()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _answer_of(self, request: HttpRequest, handle: Handle) -> HttpAnswer:
        if self._is_misdirected:
            return HttpAnswer(_MISDIRECTED, self._hosts.refusal.encode())
        if self._standing not in _WITH_SLOT or self._visitor.known():
            return await _handled(request, handle)
        return HttpAnswer(503, _NO_SLOT.encode(), headers=(("Retry-After", "1"), _CLOSE))

    async def _send(self, answer: HttpAnswer, *, is_head: bool = False) -> None:
        has_body = not is_head and answer.status not in _WITHOUT_BODY
        head = h11.Response(status_code=answer.status, headers=_headers(answer))
        parts = [
            self._http.send(head),
            self._http.send(h11.Data(data=answer.body)) if has_body else b"",
            self._http.send(h11.EndOfMessage()),
        ]
        with trio.fail_after(_ANSWER_SECONDS):
            await self._stream.send_all(b"".join(part or b"" for part in parts))

    async def refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer a malformed request with an error, if the connection still permits it."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        status = error.error_status_hint or 400
        text = "this is not an HTTP/1.1 request that is served here\n"
        if status == _TOO_LARGE:
            text = f"a body may have {self._max_body_bytes} bytes here\n"
        try:
            await self._send(HttpAnswer(status, text.encode(), headers=(_CLOSE,)))
            await self._linger()
        except (*_GONE, trio.TooSlowError):
            return

    async def _linger(self) -> None:
        """Read what the client still sends.

        Closing the connection earlier would reset it, and lose the answer.
        """
        with trio.move_on_after(_LINGER_SECONDS):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            for _ in range(_LINGER_RECEIVES):
                if not await self._stream.receive_some(_RECEIVE_BYTES):
                    return


async def _handled(request: HttpRequest, handle: Handle) -> HttpAnswer:
    try:
        return await handle(request)
    except Exception:
        # Log only the path: a query may hold secrets.
        path = request.target.partition("?")[0]
        _log.exception("a request could not be answered", method=request.method, path=path)
        return HttpAnswer(500, b"internal error; see the log of this server\n")


def _content_length(head: h11.Request) -> int:
    return next((int(value) for name, value in head.headers if name == b"content-length"), 0)


def _has_body(head: h11.Request) -> bool:
    return _content_length(head) > 0 or any(
        name == b"transfer-encoding" for name, _ in head.headers
    )


def _request(head: h11.Request, body: bytes) -> HttpRequest:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers
    )
    return HttpRequest(head.method.decode("ascii"), head.target.decode("latin-1"), headers, body)


def _headers(answer: HttpAnswer) -> list[tuple[str, str]]:
    of_body = [("Content-Type", answer.content_type), ("Content-Length", str(len(answer.body)))]
    return [
        *([] if answer.status in _WITHOUT_BODY else of_body),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *answer.headers,
    ]
