"""An HTTP/1.1 client of one server, with a few connections that are kept and used again.

The client sends a request at most once.  After `HttpUnavailable` the outcome is unknown; the caller
knows whether it may repeat the request.  To make that rare, a connection is used again only within
a few seconds, because servers close idle connections.  If a connection fails, all idle ones are
closed, because a restarted server has lost them, too.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import h11
import trio

from tidegate_runtime.http.values import Headers, HttpAnswer, HttpRequest

Connect = Callable[[], Awaitable[trio.abc.Stream]]

_REUSE_SECONDS: Final = 4.0
_RECEIVE_BYTES: Final = 64 * 1024
_LOST: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class HttpUnavailable(Exception):
    """There was no usable answer; the request may have taken effect, or may still do so.

    The text is for a person.
    """


class HttpClient:
    """Calls may run concurrently; beyond `max_connections` they wait, within their time."""

    def __init__(self, connect: Connect, *, host: str, max_connections: int = 8) -> None:
        """
        Args:
            connect: opens one more connection; `call` passes on its errors other than OSError and
              trio.BrokenResourceError.
            host: the server's name, in requests and in error texts.
        """
        self._connect = connect
        self._host = host
        self._slots = trio.Semaphore(max_connections)
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._is_closed = False

    async def call(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        headers: Headers = (),
        timeout_seconds: float,
        max_answer_bytes: int,
    ) -> HttpAnswer:
        """Send a request and return its answer, with any status.

        Raises:
            HttpUnavailable: the server cannot be reached, disconnects, or is too slow, or its
              answer is not HTTP or too large.
            h11.LocalProtocolError: method, target or headers are not HTTP; nothing was sent.
        """
        request = HttpRequest(method, target, headers, body)
        with trio.move_on_after(timeout_seconds):
            async with self._slots:
                return await self._exchange(request, max_answer_bytes)
        raise HttpUnavailable(f"{self._host} did not answer within {timeout_seconds:g} s")

    async def _exchange(self, request: HttpRequest, max_answer_bytes: int) -> HttpAnswer:
        connection = await self._take()
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request, self._host, max_answer_bytes)
        except (*_LOST, h11.RemoteProtocolError) as error:
            await self._drop_idle()
            raise HttpUnavailable(f"{self._host} gave no whole answer: {error}") from error
        finally:
            self._busy.discard(connection)
            await self._put_back(connection)
        return answer

    async def _take(self) -> "_Connection":
        fresh_since = trio.current_time() - _REUSE_SECONDS
        while self._idle and not self._is_closed:
            connection = self._idle.pop()
            if connection.used_at >= fresh_since:
                return connection
            await trio.aclose_forcefully(connection.stream)
        if self._is_closed:
            raise HttpUnavailable(f"the connections to {self._host} were closed")
        try:
            return _Connection(await self._connect())
        except (trio.BrokenResourceError, OSError, UnicodeError) as error:
            raise HttpUnavailable(f"{self._host} cannot be reached: {_why(error)}") from error

    async def _put_back(self, connection: "_Connection") -> None:
        if not self._is_closed and connection.can_go_on():
            self._idle.append(connection)
        else:
            await trio.aclose_forcefully(connection.stream)

    async def _drop_idle(self) -> None:
        dropped, self._idle = self._idle, []
        for connection in dropped:
            await trio.aclose_forcefully(connection.stream)

    async def aclose(self) -> None:
        """Close all connections; calls under way end with HttpUnavailable."""
        self._is_closed = True
        with trio.CancelScope(shield=True):
            await self._drop_idle()
            for connection in list(self._busy):
                await trio.aclose_forcefully(connection.stream)


class _Connection:
    """One connection, which carries one exchange after the other."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.used_at = trio.current_time()
        self._http = h11.Connection(h11.CLIENT)
        self._is_broken = False

    async def exchange(self, request: HttpRequest, host: str, max_answer_bytes: int) -> HttpAnswer:
        """Send a request, and read its answer.

        Raises: `_LOST`, h11.RemoteProtocolError.
        """
        try:
            await self.stream.send_all(self._sent(request, host))
        except trio.BrokenResourceError:
            # A server that refuses early closes before it has read the whole body; its answer may
            # have arrived.
            self._is_broken = True
        return await self._answer(max_answer_bytes)

    def _sent(self, request: HttpRequest, host: str) -> bytes:
        length = () if request.method == "GET" else (("Content-Length", str(len(request.body))),)
        named = (("Host", host), *length, *request.headers)
        # Values may be Latin-1, which h11 does not make of a text.
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in named]
        head = h11.Request(method=request.method, target=request.target, headers=headers)
        body = h11.Data(data=request.body)
        parts = [
            self._http.send(head),
            self._http.send(body) if request.body else b"",
            self._http.send(h11.EndOfMessage()),
        ]
        return b"".join(part or b"" for part in parts)

    async def _answer(self, max_answer_bytes: int) -> HttpAnswer:
        head: h11.Response | None = None
        body = bytearray()
        while True:
            match await self._next_event():
                case h11.Response() as head:
                    pass
                case h11.InformationalResponse():
                    pass  # more follows
                case h11.Data(data=data):
                    body += data
                    if len(body) > max_answer_bytes:
                        raise h11.RemoteProtocolError(f"it has over {max_answer_bytes} bytes")
                case h11.EndOfMessage() if head is not None:
                    return _answer(head, bytes(body))
                case _:
                    raise h11.RemoteProtocolError("the connection was closed")

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self.stream.receive_some(_RECEIVE_BYTES)))
        return event

    def can_go_on(self) -> bool:
        """Prepare for another exchange; return whether one may follow."""
        # Unexpected bytes would be read as the next answer.
        unasked, has_ended = self._http.trailing_data
        if unasked or has_ended or self._is_broken:
            return False
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.used_at = trio.current_time()
        return True


def _answer(head: h11.Response, body: bytes) -> HttpAnswer:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers
    )
    content_type = next((value for name, value in headers if name == "content-type"), "")
    return HttpAnswer(head.status_code, body, content_type, headers)


def _why(error: BaseException) -> str:
    """Return the cause that a person can act on; with TLS it is one level deeper."""
    return str(error.__cause__ or error) or type(error).__name__
