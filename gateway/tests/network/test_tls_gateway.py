"""Clients over TLS, through a whole gateway on connections in memory."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.security.tls_world import (
    ANN,
    TlsClientTransport,
    authority,
    client_context,
    opened,
)
from tests.worlds.wire_client import (
    Closed,
    WireClient,
    WireWorld,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_gateway.network.tls_transport import PLAINTEXT_REFUSED
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.peers.answering import PROBE
from tidegate_protocol.messages.api_versions import ApiVersionsRequest

REQUIRED = {"ssl.client.auth": "required"}


async def connected(
    world: WireWorld, context: ssl.SSLContext, **options: Any
) -> tuple[WireClient, TlsClientTransport]:
    """Open a connection and negotiate.  options: of TlsClientTransport."""
    transport = TlsClientTransport(world.open(listener="SSL"), context, **options)
    await transport.handshake()
    return WireClient(transport), transport


async def principal_of(world: WireWorld, client: WireClient) -> str:
    await client.call("ApiVersions", 0, ApiVersionsRequest())
    [connection] = world.gateway.connections
    return connection.peer.principal


@pytest.mark.parametrize("piece_bytes", [1, 1000, 1 << 18])
async def test_records_go_in_and_out_in_records_of_any_size(piece_bytes: int) -> None:
    async with wire_world(tls=opened()) as world:
        await world.create_topic("t", 1)
        client, _ = await connected(
            world, client_context(authority().root), piece_bytes=piece_bytes
        )
        values = [bytes([at]) * 20_000 for at in range(5)]
        for value in values:
            answer = await client.produce("t", 0, records_batch(value))
            assert answer.error_code == 0
        assert await client.fetch_values("t", 0, 0) == values


async def test_the_principal_is_the_subject_of_the_clients_certificate() -> None:
    async with wire_world(tls=opened(REQUIRED)) as world:
        context = client_context(authority().root, authority().client)
        client, _ = await connected(world, context)
        assert await principal_of(world, client) == ANN


async def test_a_client_without_certificate_is_anonymous_where_it_needs_none() -> None:
    for auth in ("none", "requested"):
        async with wire_world(tls=opened({"ssl.client.auth": auth})) as world:
            client, _ = await connected(world, client_context(authority().root))
            assert await principal_of(world, client) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ("", "peer did not return a certificate"),
        (authority(1).client, "certificate verify failed: unable to get local issuer"),
    ],
)
async def test_a_client_that_is_not_trusted_is_refused_with_a_reason(own: str, reason: str) -> None:
    async with wire_world(tls=opened(REQUIRED)) as world:
        with capture_logs() as logs, suppress(Closed, ssl.SSLError, TransportBroken):
            client, _ = await connected(world, client_context(authority().root, own))
            # With TLS 1.3 the refusal comes after the end of the client's handshake.
            pytest.fail(await client.call("ApiVersions", 0, ApiVersionsRequest()))
        [line] = [each for each in logs if each["event"] == "closed a connection"]
        assert reason in line["reason"]
        assert line["listener"] == "SSL"


async def test_plaintext_gets_one_line_in_the_log() -> None:
    async with wire_world(tls=opened()) as world:
        client = WireClient(world.open(listener="SSL"))
        with capture_logs() as logs, pytest.raises(Closed):
            await client.call("ApiVersions", 0, ApiVersionsRequest())
        [line] = [each for each in logs if each["event"] == "closed a connection"]
        assert line["reason"] == "client spoke no TLS to a listener with TLS"


async def test_tls_to_a_plain_listener_gets_one_line_in_the_log() -> None:
    async with wire_world() as world:
        transport = TlsClientTransport(world.open(), client_context(authority().root))
        with capture_logs() as logs, pytest.raises(TransportBroken):
            await transport.handshake()
        [line] = [each for each in logs if each["event"] == "closed a connection"]
        assert line["reason"] == "client spoke TLS to a PLAINTEXT listener"


async def test_a_silent_client_is_closed_after_ten_seconds(autojump_clock: MockClock) -> None:
    async with wire_world(tls=opened()) as world:
        silent = world.open(listener="SSL")
        began = trio.current_time()
        with capture_logs() as logs:
            await silent.wait_receivable()
        assert trio.current_time() - began == pytest.approx(10)
        assert "no TLS handshake within 10 s" in str(logs)


async def test_a_port_scan_gets_no_line_in_the_log() -> None:
    async with wire_world(tls=opened()) as world:
        with capture_logs() as logs:
            world.open(listener="SSL").close()
            await wait_all_tasks_blocked()
        assert not [each for each in logs if each["event"] == "closed a connection"]


async def test_another_gateways_question_is_answered_without_a_line_in_the_log() -> None:
    async with wire_world(tls=opened()) as world:
        plain = world.open(listener="SSL")
        with capture_logs() as logs:
            question = request_frame("ApiVersions", 0, ApiVersionsRequest(), 1, PROBE.decode())
            plain.send_nowait([question])
            await plain.wait_receivable()
        answer = memoryview(bytearray(100))
        size = plain.receive_nowait(answer)
        assert bytes(answer[:size]) == PLAINTEXT_REFUSED
        assert logs == []
