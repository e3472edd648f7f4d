"""The admin listener: health, metrics and status over HTTP/1.1, read only.

h11 decides what the bytes mean; this file moves them, with a bound on every request and a deadline
on every wait.  A client that speaks badly gets 400 and is closed; nothing it does gets out of
serve_admin().
"""

from __future__ import annotations

import socket
from typing import Final

import h11
import structlog
import trio

from .admin_pages import Answer, Pages

_log = structlog.get_logger("tidegate.admin")

MAX_REQUEST_BYTES: Final = 16 * 1024
RECEIVE_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 1.0
LINGER_RECEIVES: Final = 16
BAD_REQUEST: Final = Answer(400, "this is not an HTTP/1.1 request that is served here\n")

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


async def serve_admin(accepted: socket.socket, pages: Pages) -> None:
    """Answer the requests of one connection, and close it."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
    client = _Client(stream)
    try:
        await client.serve(pages)
    except _GONE:
        pass  # nobody is left to tell
    except h11.RemoteProtocolError as error:
        await client.refuse(error)
    except trio.TooSlowError:
        pass
    finally:
        with trio.move_on_after(1, shield=True):
            await trio.aclose_forcefully(stream)


class _Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST_BYTES)

    async def serve(self, pages: Pages) -> None:
        """Answer one request after the other, until one side ends it.

        Raises:
          h11.RemoteProtocolError: not HTTP.
          trio.TooSlowError: a request or an answer took too long.
        """
        while True:
            with trio.fail_after(REQUEST_SECONDS):
                request = await self._request()
            if request is None:
                return
            answer = await _answered(pages, request)
            with trio.fail_after(ANSWER_SECONDS):
                await self._send(answer, is_head=request.method == b"HEAD")
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> h11.Request | None:
        """Return the next request, its body read and dropped; None at the end of the stream."""
        request: h11.Request | None = None
        body_bytes = 0
        while True:
            event = await self._next_event()
            match event:
                case h11.Request():
                    request = event
                    await self._expect_nothing()
                case h11.Data():
                    body_bytes += len(event.data)
                    if body_bytes > MAX_REQUEST_BYTES:
                        raise h11.RemoteProtocolError("too large", error_status_hint=413)
                case h11.EndOfMessage():
                    return request
                case _:
                    return None

    async def _expect_nothing(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._http.send(go_on) or b"")

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some(RECEIVE_BYTES))
        return event

    async def _send(self, answer: Answer, *, is_head: bool = False) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        parts = [
            self._http.send(h11.Response(status_code=answer.status, headers=headers)),
            b"" if is_head else self._http.send(h11.Data(data=body)),
            self._http.send(h11.EndOfMessage()),
        ]
        await self._stream.send_all(b"".join(part or b"" for part in parts))

    async def refuse(self, error: h11.RemoteProtocolError) -> None:
        """Say that a request was none, if that can still be said."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        status = error.error_status_hint or BAD_REQUEST.status
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                await self._send(
                    Answer(status, BAD_REQUEST.body, headers=(("Connection", "close"),))
                )
                await self._stream.send_eof()
            await self._linger()
        except _GONE:
            return

    async def _linger(self) -> None:
        """Take what the client still sends: closing before that would reset the answer away."""
        with trio.move_on_after(LINGER_SECONDS):
            for _ in range(LINGER_RECEIVES):
                if not await self._stream.receive_some(RECEIVE_BYTES):
                    return


async def _answered(pages: Pages, request: h11.Request) -> Answer:
    try:
        return await pages.answer(request.method.decode("ascii"), request.target.decode("ascii"))
    except Exception:
        _log.exception("a page could not be made", target=request.target.decode("ascii"))
        return Answer(500, "internal error; see the log\n")
