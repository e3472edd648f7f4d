"""The keys of identity providers: when they are read, and what happens if they cannot be."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from trio.testing import MockClock

from tests.worlds.security.token_provider import Provider, key_of
from tidegate_coordination.client.properties.tls import Pem
from tidegate_gateway.security.oauth.key_place import KeyPlace, KeysUnavailable, read_keys
from tidegate_gateway.security.oauth.key_refresh import MAX_MISSING, KeyRefresh, RefreshTimes
from tidegate_gateway.security.oauth.key_source import KeySources
from tidegate_runtime.secret import Secret

TIMES = RefreshTimes(3600.0, 0.1, 10.0)
PLACE = KeyPlace("https://provider.example/keys")
SECONDS = 10.0  # enough for an answer of a real server


# -- when ------------------------------------------------------------------------------------------


def test_keys_are_read_at_once_and_then_at_intervals() -> None:
    plan = KeyRefresh(TIMES)
    assert plan.due_at <= 0
    plan.succeeded(5.0)
    assert plan.due_at == 3605.0


def test_pauses_double_up_to_a_bound_until_a_success() -> None:
    plan = KeyRefresh(TIMES)
    pauses = []
    for _ in range(9):
        plan.failed(0.0)
        pauses.append(plan.due_at)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    plan.succeeded(0.0)
    plan.failed(0.0)
    assert plan.due_at == 0.1


def test_an_unknown_key_is_looked_for_once_a_minute() -> None:
    plan = KeyRefresh(TIMES)
    plan.succeeded(0.0)
    assert plan.misses("new", 10.0)
    assert plan.due_at == 10.0
    plan.succeeded(10.0)
    assert not plan.misses("new", 69.9)
    assert plan.due_at == 3610.0
    assert plan.misses("new", 70.0)


def test_strangers_cannot_have_the_provider_asked_at_will() -> None:
    plan = KeyRefresh(TIMES)
    plan.succeeded(10.0)
    assert plan.misses("made-up", 11.0)
    assert plan.due_at == 14.0  # not at once
    assert all(plan.misses(f"made-up-{number}", 11.0) for number in range(2000))
    assert plan.due_at == 14.0
    plan.failed(14.0)
    assert plan.misses("another", 14.05)
    assert plan.due_at == 14.1


def test_a_key_is_not_kept_out_by_made_up_ones() -> None:
    plan = KeyRefresh(TIMES)
    for now in range(10, 100, 4):
        plan.succeeded(float(now))
        assert all(plan.misses(f"{now}-{number}", now + 1.0) for number in range(100))
        assert plan.misses(f"new at {now}", now + 1.0)
        assert plan.due_at == now + 4.0


# -- sources ---------------------------------------------------------------------------------------


@asynccontextmanager
async def running(sources: KeySources) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sources.run)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_a_new_key_is_known_a_moment_after_its_first_token(
    autojump_clock: MockClock,
) -> None:
    provider = Provider()
    sources = KeySources(provider.read)
    source = sources.of(PLACE, TIMES)
    assert sources.of(PLACE, TIMES) is source
    assert source.find("one", "ES256") is None
    async with running(sources):
        assert source.find("one", "ES256") is not None
        provider.keys.append(key_of("ES256", "two"))
        assert source.misses("two")
        assert source.misses("two")
        await source.wait_for("two")
        assert source.find("two", "ES256") is not None
        assert provider.reads == 2
        assert not source.misses("two")
        await source.wait_for("two")
        await trio.sleep(3601)
        assert provider.reads == 3


async def test_keys_stay_while_the_provider_does_not_answer(autojump_clock: MockClock) -> None:
    provider = Provider()
    sources = KeySources(provider.read)
    source = sources.of(PLACE, TIMES)
    async with running(sources):
        provider.error = KeysUnavailable("it is away")
        await trio.sleep(3700)
        assert source.find("one", "ES256") is not None
        assert source.failed_reads > 10
        provider.error, provider.keys = None, [key_of("ES256", "new")]
        await trio.sleep(11)
        assert source.find("new", "ES256") is not None


async def test_a_token_of_no_named_key_waits_for_the_first_read(
    autojump_clock: MockClock,
) -> None:
    provider = Provider()
    provider.seconds = 2.0
    source = KeySources(provider.read).of(PLACE, TIMES)
    assert source.misses(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        await source.wait_for(None)
        assert trio.current_time() == 2.0
        assert source.find(None, "ES256") is not None
        assert not source.misses(None)
        nursery.cancel_scope.cancel()


async def test_the_keys_that_are_looked_for_are_bounded(autojump_clock: MockClock) -> None:
    provider = Provider()
    sources = KeySources(provider.read)
    source = sources.of(PLACE, TIMES)
    async with running(sources):
        coming = [source.misses(f"made-up-{number}") for number in range(3000)]
        assert coming.count(True) == MAX_MISSING
        await trio.sleep(5)
        assert source.misses("another")


async def test_an_unforeseen_error_leaves_no_login_waiting(autojump_clock: MockClock) -> None:
    async def read(place: KeyPlace) -> bytes:
        await trio.sleep(1.0)
        raise ZeroDivisionError

    source = KeySources(read).of(PLACE, TIMES)
    waited: list[float] = []

    async def wait() -> None:
        await source.wait_for("one")
        waited.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        with pytest.raises(ZeroDivisionError):
            await source.run()
    assert waited == [1.0]


async def test_a_provider_that_hangs_is_asked_again(autojump_clock: MockClock) -> None:
    async def hang(place: KeyPlace) -> bytes:
        await trio.sleep_forever()
        return b""

    sources = KeySources(hang)
    source = sources.of(PLACE, TIMES)
    async with running(sources):
        await trio.sleep(15)
        assert source.failed_reads == 2


# -- real servers and files ------------------------------------------------------------------------


async def answer(text: bytes, stream: trio.abc.Stream) -> None:
    with trio.fail_after(SECONDS):
        await stream.receive_some()
        await stream.send_all(text)
        await stream.aclose()


@asynccontextmanager
async def web_server(text: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def serve(stream: trio.SocketStream) -> None:
        if context is None:
            return await answer(text, stream)
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await answer(text, secured)
        except trio.BrokenResourceError:
            return None  # the client does not trust this server
        return None

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_keys_come_over_http() -> None:
    async with web_server(http(b"keys")) as port:
        assert await read_keys(KeyPlace(f"http://127.0.0.1:{port}/jwks?x=1")) == b"keys"
    async with web_server(http(b"no", "404 Not Found")) as port:
        with pytest.raises(KeysUnavailable, match="answered 404"):
            await read_keys(KeyPlace(f"http://127.0.0.1:{port}/"))
    with pytest.raises(KeysUnavailable, match="cannot be reached"):
        await read_keys(KeyPlace(f"http://127.0.0.1:{port}/"))
    async with web_server(http(b"k" * (2 << 20))) as port:
        with pytest.raises(KeysUnavailable, match="over 1048576 bytes"):
            await read_keys(KeyPlace(f"http://127.0.0.1:{port}/"))


async def test_keys_come_over_https_from_a_server_that_is_trusted(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusted = tmp_path / "trusted.pem"
    authority.cert_pem.write_to_path(str(trusted))
    text = other.cert_pem.bytes().decode()
    async with web_server(http(b"keys"), context) as port:
        url = f"https://localhost:{port}/keys"
        assert await read_keys(KeyPlace(url, Pem(path=str(trusted)))) == b"keys"
        for truststore in (None, Pem(text=Secret(text))):
            with pytest.raises(KeysUnavailable, match="certificate verify failed"):
                await read_keys(KeyPlace(url, truststore))
        with pytest.raises(KeysUnavailable, match=r"ssl.truststore.location=.* cannot be used"):
            await read_keys(KeyPlace(url, Pem(path=str(tmp_path / "none.pem"))))


async def test_keys_come_from_a_file(tmp_path: Path) -> None:
    place = tmp_path / "the keys.json"
    place.write_bytes(b"keys")
    url = place.as_uri()
    assert "%20" in url
    assert await read_keys(KeyPlace(url)) == b"keys"
    place.unlink()
    with pytest.raises(KeysUnavailable, match=r"the keys\.json cannot be read: No such file"):
        await read_keys(KeyPlace(url))
    with pytest.raises(KeysUnavailable, match="null byte"):
        await read_keys(KeyPlace("file:///keys%00.json"))
