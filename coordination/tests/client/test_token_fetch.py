"""Tokens from real token endpoints on this machine, and from files."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from tidegate_coordination.client.errors import (
    AuthenticationFailed,
    BadProperties,
    TokenUnavailable,
)
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.properties.tls import Pem, TlsProperties
from tidegate_coordination.client.tokens.fetch import MAX_BYTES, fetch_token
from tidegate_runtime.secret import Secret

SECONDS = 10.0
TOKEN = b'{"access_token":"a.b.c","token_type":"Bearer"}'


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def endpoint(
    said: bytes, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer each request; yield the address, and the requests."""
    received: list[bytes] = []

    async def serve(stream: trio.abc.Stream) -> None:
        data = b""
        try:
            while not data.endswith(b"=client_credentials"):
                more = await stream.receive_some()
                if not more:
                    return
                data += more
            received.append(data)
            await stream.send_all(said)
        except trio.BrokenResourceError:
            return
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        if context is None:
            listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        else:
            listeners = await nursery.start(
                partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1")
            )
        yield f"127.0.0.1:{port_of(listeners[0])}", received
        nursery.cancel_scope.cancel()


def port_of(listener: trio.SocketListener | trio.SSLListener[trio.SocketStream]) -> int:
    plain = listener if isinstance(listener, trio.SocketListener) else listener.transport_listener
    assert isinstance(plain, trio.SocketListener)
    port: int = plain.socket.getsockname()[1]
    return port


def credentials(url: str, tls: TlsProperties | None = None) -> BearerCredentials:
    return BearerCredentials(url, "app", Secret("hunter2"), tls=tls or TlsProperties())


async def fetched(found: BearerCredentials) -> str:
    with trio.fail_after(SECONDS):
        return await fetch_token(found)


async def test_a_token_is_got_by_http() -> None:
    async with endpoint(answer(TOKEN)) as (address, received):
        assert await fetched(credentials(f"http://{address}/a/token?tenant=b")) == "a.b.c"
    [request] = received
    assert request.startswith(b"POST /a/token?tenant=b HTTP/1.1\r\n")
    assert b"authorization: Basic YXBwOmh1bnRlcjI=" in request
    assert request.endswith(b"\r\n\r\ngrant_type=client_credentials")


async def test_a_token_is_got_by_https_if_the_endpoint_is_trusted() -> None:
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    trusted = TlsProperties(Pem(text=Secret(ca.cert_pem.bytes().decode())))
    async with endpoint(answer(TOKEN), context) as (address, received):
        assert await fetched(credentials(f"https://{address}/", trusted)) == "a.b.c"
        with pytest.raises(TokenUnavailable, match=rf"{address} cannot be reached: .*CERTIFICATE"):
            await fetched(credentials(f"https://{address}/"))
        with pytest.raises(TokenUnavailable, match=rf"{address} cannot be reached: .*CERTIFICATE"):
            await fetched(credentials(f"HTTPS://{address}/"))
        assert len(received) == 1  # the untrusted endpoints got no secret
        with pytest.raises(BadProperties, match=r"ssl\.truststore\.location=/nowhere"):
            await fetched(credentials(f"https://{address}/", TlsProperties(Pem("/nowhere"))))


async def test_a_refusal_is_a_sentence() -> None:
    said = answer(b'{"error":"invalid_client"}', "401 Unauthorized")
    async with endpoint(said) as (address, _):
        with pytest.raises(AuthenticationFailed, match=r"\(HTTP 401, invalid_client\): check"):
            await fetched(credentials(f"http://{address}/"))


async def test_a_redirection_is_not_followed() -> None:
    async with endpoint(answer(TOKEN)) as (other, received):
        head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{other}/\r\n"
        async with endpoint(f"{head}Content-Length: 0\r\n\r\n".encode()) as (address, _):
            with pytest.raises(AuthenticationFailed, match="HTTP 307"):
                await fetched(credentials(f"http://{address}/"))
        assert received == []


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n", answer(b" " * (MAX_BYTES + 1))])
async def test_an_answer_that_is_none_is_a_sentence(said: bytes) -> None:
    async with endpoint(said) as (address, _):
        with pytest.raises(TokenUnavailable, match=rf"^there is no token: {address} gave no whole"):
            await fetched(credentials(f"http://{address}/"))


async def test_an_endpoint_that_is_away_is_named() -> None:
    async with endpoint(answer(TOKEN)) as (address, _):
        pass
    with pytest.raises(TokenUnavailable, match=rf"{address} cannot be reached"):
        await fetched(credentials(f"http://{address}/"))


async def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    found = BearerCredentials(file.as_uri())
    with pytest.raises(AuthenticationFailed, match=rf"{file} cannot be read \(No such file"):
        await fetched(found)
    file.write_text("a.b.c\n")
    assert await fetched(found) == "a.b.c"
    file.write_text("d.e.f")
    assert await fetched(found) == "d.e.f"
    file.write_bytes(b"\xff")
    assert await fetched(found) == "�"
