"""The admin listener: health, metrics and status over HTTP/1.1, read only."""

from __future__ import annotations

import socket
from typing import Final

import trio

from tidegate_runtime.http.server import serve_http
from tidegate_runtime.http.values import HttpAnswer, HttpRequest

from .admin_pages import Pages

MAX_BODY_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0


async def serve_admin(accepted: socket.socket, pages: Pages) -> None:
    """Answer the requests of one connection, and close it."""

    async def handle(request: HttpRequest) -> HttpAnswer:
        answer = await pages.answer(request.method, request.target)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        return HttpAnswer(answer.status, body, answer.content_type, answer.headers)

    await serve_http(
        trio.SocketStream(trio.socket.from_stdlib_socket(accepted)),
        handle,
        max_body_bytes=MAX_BODY_BYTES,
        idle_seconds=REQUEST_SECONDS,
        request_seconds=REQUEST_SECONDS,
    )
