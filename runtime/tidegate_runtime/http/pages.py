"""Pages that a process answers over HTTP/1.1, read only: health, metrics, status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
import trio

from tidegate_runtime.doors.slots import Visitor

from .hosts import KnownHosts
from .server import serve_http
from .values import JSON, TEXT, HttpAnswer, HttpRequest, Standing

MAX_BODY_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0
HEALTH: Final = frozenset({"/livez", "/healthz", "/readyz"})
"""For load balancers, which carry no secrets.  A stranger is answered, and needs no slot for it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: str | bytes
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = field(default=())


class Pages(Protocol):
    """The pages of a process, served over HTTP."""

    async def answer(self, method: str, target: str) -> Answer:
        """Answer a request; a query after the path is ignored."""
        ...


async def answer_from(
    pages: Mapping[str, Callable[[], Awaitable[Answer]]], method: str, target: str
) -> Answer:
    """Answer with the page of a path; all pages are read only."""
    page = pages.get(target.partition("?")[0])
    if page is None:
        return Answer(404, "not found; there are: " + " ".join(pages) + "\n")
    if method not in ("GET", "HEAD"):
        return Answer(405, "read only\n", headers=(("Allow", "GET, HEAD"),))
    return await page()


def path_of(request: HttpRequest) -> str:
    """Return a request's path, without its query."""
    return request.target.partition("?")[0]


def json_answer(value: object) -> Answer:
    """Return a value as JSON."""
    return Answer(200, msgspec.json.encode(value) + b"\n", JSON)


Refusal = Callable[[HttpRequest], Answer | None]
"""Why a request is not answered; None if it is."""


async def serve_pages(
    stream: trio.abc.Stream,
    pages: Pages,
    visitor: Visitor,
    refusal: Refusal = lambda _: None,
    *,
    hosts: KnownHosts,
    asks_proof: bool = False,
) -> None:
    """Answer the requests of one connection, and close it.

    hosts: see serve_http().  asks_proof: a request that is not refused has authenticated its
    client.
    """

    def standing_of(request: HttpRequest) -> Standing:
        if refusal(request) is not None:
            return Standing.STRANGER
        if path_of(request) in HEALTH:
            return Standing.ANYONE
        return Standing.KNOWN if asks_proof else Standing.GUEST

    async def handle(request: HttpRequest) -> HttpAnswer:
        answer = refusal(request) or await pages.answer(request.method, request.target)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        return HttpAnswer(answer.status, body, answer.content_type, answer.headers)

    await serve_http(
        stream,
        handle,
        visitor,
        hosts=hosts,
        max_body_bytes=MAX_BODY_BYTES,
        standing_of=standing_of,
        idle_seconds=REQUEST_SECONDS,
        request_seconds=REQUEST_SECONDS,
    )
