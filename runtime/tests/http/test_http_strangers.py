"""Strangers at a listener for HTTP: they take no slot, and health pages need none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import (
    MemoryReceiveStream,
    MemorySendStream,
    MockClock,
    memory_stream_pair,
    wait_all_tasks_blocked,
)

from tests.worlds.doors import NO_HOSTS
from tidegate_runtime.doors.slots import HTTP_STRANGERS, STRANGER_SECONDS, ConnectionSlots
from tidegate_runtime.http.pages import HEALTH, Answer, path_of, serve_pages
from tidegate_runtime.http.values import HttpRequest

Stream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
TOKEN = "Authorization: Bearer right"


class Page:
    """Pages that are answered at once, but for /slow."""

    async def answer(self, method: str, target: str) -> Answer:
        await trio.lowlevel.checkpoint()
        if target == "/slow":
            await trio.sleep(50)
        return Answer(200, "ok")


def refusal(request: HttpRequest) -> Answer | None:
    is_open = path_of(request) in HEALTH or request.header("authorization") == "Bearer right"
    return None if is_open else Answer(401, "no")


@dataclass
class Door:
    """A listener in memory; asks_token: for pages that are not of health."""

    nursery: trio.Nursery
    asks_token: bool
    slots: ConnectionSlots = field(
        default_factory=lambda: ConnectionSlots(4, beside=HTTP_STRANGERS)
    )

    def connect(self, host: str = "10.0.0.1") -> Stream:
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self._serve, theirs, host)
        return ours

    async def _serve(self, stream: Stream, host: str) -> None:
        def close() -> None:
            stream.send_stream.close()
            stream.receive_stream.close()

        visitor = self.slots.enter(host, close)
        assert visitor is not None
        try:
            if self.asks_token:
                await serve_pages(stream, Page(), visitor, refusal, hosts=NO_HOSTS, asks_proof=True)
            else:
                await serve_pages(stream, Page(), visitor, hosts=NO_HOSTS)
        finally:
            visitor.leave()

    async def crowd(self, count: int, sent: bytes = b"") -> list[Stream]:
        """Connect strangers from a few addresses; each sends the same bytes, and then nothing."""
        streams = [self.connect(f"10.0.1.{each % 3}") for each in range(count)]
        for each in streams:
            with suppress(trio.BrokenResourceError):  # the stranger was closed for later ones
                await each.send_all(sent)
        await wait_all_tasks_blocked()
        return streams


@asynccontextmanager
async def door(*, asks_token: bool) -> AsyncIterator[Door]:
    async with trio.open_nursery() as nursery:
        yield Door(nursery, asks_token)
        nursery.cancel_scope.cancel()


async def ask(stream: Stream, path: str, *headers: str) -> int:
    """Return the status of an answer."""
    await stream.send_all(
        "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()
    )
    received = b""
    while not received.endswith((b"ok", b"no", b"second\n")):
        part = await stream.receive_some()
        assert part, received
        received += part
    return int(received.split(b" ")[1])


@pytest.mark.parametrize("asks_token", [True, False])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHo", b"GET /livez HTTP/1.1\r\n"])
async def test_a_crowd_of_strangers_keeps_nobody_out(
    sent: bytes, asks_token: bool, autojump_clock: MockClock
) -> None:
    async with door(asks_token=asks_token) as here:
        await here.crowd(3 * HTTP_STRANGERS, sent)
        assert here.slots.strangers == HTTP_STRANGERS
        begun = trio.current_time()
        assert await ask(here.connect(), "/livez") == 200
        assert await ask(here.connect(), "/metrics", TOKEN) == 200
        assert trio.current_time() == begun


async def test_a_dripping_stranger_is_as_silent_as_others(autojump_clock: MockClock) -> None:
    async with door(asks_token=True) as here:
        dripping = await here.crowd(3)
        for _ in range(int(STRANGER_SECONDS) - 1):
            for each in dripping:
                await each.send_all(b"G")
            await trio.sleep(1)
        assert here.slots.strangers == 3
        await trio.sleep(1.5)
        assert here.slots.strangers == 0


async def test_a_client_with_the_token_keeps_its_connection(autojump_clock: MockClock) -> None:
    async with door(asks_token=True) as here:
        client = here.connect()
        assert await ask(client, "/metrics", TOKEN) == 200
        await here.crowd(3 * HTTP_STRANGERS)
        assert await ask(client, "/metrics", TOKEN) == 200


async def test_a_wrong_token_takes_no_slot(autojump_clock: MockClock) -> None:
    async with door(asks_token=True) as here:
        clients = [here.connect(f"10.0.0.{each}") for each in range(8)]
        for each in clients:
            assert await ask(each, "/metrics", "Authorization: Bearer wrong") == 401
        assert here.slots.strangers == 8
        assert await ask(here.connect(), "/metrics", TOKEN) == 200


@pytest.mark.parametrize("asks_token", [True, False])
async def test_health_is_answered_while_all_slots_are_taken(
    asks_token: bool, autojump_clock: MockClock
) -> None:
    async with door(asks_token=asks_token) as here:
        for each in range(4):
            busy = here.connect(f"10.0.0.{each}")
            await busy.send_all(f"GET /slow HTTP/1.1\r\nHost: x\r\n{TOKEN}\r\n\r\n".encode())
        await wait_all_tasks_blocked()
        assert here.slots.strangers == 0
        assert await ask(here.connect(), "/livez") == 200
        assert await ask(here.connect(), "/metrics", TOKEN) == 503
        await trio.sleep(61)
        assert await ask(here.connect(), "/metrics", TOKEN) == 200


async def test_silent_guests_take_no_slot(autojump_clock: MockClock) -> None:
    """If clients need no login, a client between its requests is a stranger."""
    async with door(asks_token=False) as here:
        for each in range(20):
            assert await ask(here.connect(f"10.0.0.{each}"), "/metrics") == 200
        assert here.slots.strangers == 20
