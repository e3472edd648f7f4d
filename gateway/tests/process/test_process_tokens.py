"""The admin pages of several gateways: how the supervisor asks each of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import memory_stream_pair

from tests.worlds.doors import NO_HOSTS, alone
from tidegate_gateway.admin.admin_access import refusal_of
from tidegate_gateway.cli.admin_reader import Access
from tidegate_gateway.cli.processes.command import token_for
from tidegate_gateway.cli.processes.pages import Asked, ProcessPages
from tidegate_gateway.cli.processes.plan import settings_of
from tidegate_gateway.settings.settings_sources import gather
from tidegate_runtime.http.client import HttpClient
from tidegate_runtime.http.pages import Answer, serve_pages
from tidegate_runtime.http.values import HttpRequest
from tidegate_runtime.secret import Secret

# ASCII, Latin-1, other UTF-8, and a byte of an environment variable that is not UTF-8.
TOKENS = ("plain", "secr\u00e9t", "\u043a\u043b\u044e\u0447", "\udcff")


class Page:
    """A gateway's pages."""

    async def answer(self, method: str, target: str) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer(200, "{}")


@pytest.mark.parametrize("text", TOKENS)
async def test_a_gateway_is_asked_with_any_token(text: str) -> None:
    token = Secret(text)
    refusal = partial(refusal_of, token=token, has_certificate=False)

    async def connect() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        here, there = memory_stream_pair()
        serve = partial(serve_pages, hosts=NO_HOSTS)
        nursery.start_soon(serve, there, Page(), alone(), refusal)
        return here

    async with trio.open_nursery() as nursery:
        client = HttpClient(connect, host="gateway")
        pages = ProcessPages(lambda: [Asked(1, client, 0), Asked(2, None, 0)], token, "0")
        answer = await pages.answer("GET", "/v1/status")
        nursery.cancel_scope.cancel()
    assert (answer.status, answer.body) == (200, b'{"processes":{"1":{},"2":null}}\n')


def test_gateways_without_a_token_are_told_a_random_one() -> None:
    """Otherwise local users could read pages for which remote users need a certificate."""
    words = ["admin.listener=0.0.0.0:9644"]
    token, environ = token_for(gather(defaults={}, environ={}, assignments=words))
    told = settings_of(gather(defaults={}, environ=environ, assignments=words), 2)
    assert told.secret("admin.token") == token
    assert len(token.reveal()) >= 32
    assert token_for(told) == (token, {})


@pytest.mark.parametrize("text", TOKENS)
def test_commands_read_any_token_from_a_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(Secret(text).reveal_bytes() + b"\n")
    sent = [
        (name.lower(), value.encode("latin-1").decode("latin-1"))
        for name, value in Access(file).headers().items()
    ]
    request = HttpRequest("GET", "/metrics", tuple(sent))
    assert refusal_of(request, Secret(text), has_certificate=False) is None
