"""OAUTHBEARER through a whole gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.metrics_page import samples
from tests.worlds.security.sasl_client import LISTENER, authenticate, handshake, oauth_settings
from tests.worlds.security.token_provider import NOW, Provider, first_message, key_of
from tests.worlds.wire_client import NOW_MS, Closed, WireClient, WireWorld, wire_world
from tidegate_gateway.security.oauth.key_place import KeysUnavailable
from tidegate_gateway.security.oauth.key_refresh import LEAST_SECONDS
from tidegate_gateway.security.oauth.key_source import READ_SECONDS
from tidegate_protocol.messages import metadata as me

METADATA = me.MetadataRequest([])
ISSUED = NOW_MS // 1000 - NOW
"""Seconds by which the gateway's clock is ahead of the provider's."""


@asynccontextmanager
async def oauth_world(provider: Provider, **more: str) -> AsyncIterator[WireWorld]:
    settings = oauth_settings(**more)
    async with wire_world(settings, listeners=(LISTENER,), read_keys=provider.read) as world:
        await trio.testing.wait_all_tasks_blocked()
        yield world


def token(provider: Provider, seconds: int = 3600, sub: str = "alice") -> str:
    return provider.token(exp=NOW + ISSUED + seconds, sub=sub)


def principals(world: WireWorld) -> list[str]:
    return [each.peer.principal for each in world.gateway.connections]


async def test_a_client_with_a_token_is_served_until_it_ends(autojump_clock: MockClock) -> None:
    provider = Provider()
    async with oauth_world(provider) as world:
        client = world.connect()
        assert (await handshake(client, "OAUTHBEARER")).mechanisms == ["OAUTHBEARER"]
        answer = await authenticate(client, first_message(token(provider, 60)))
        assert answer.error_code == 0
        assert answer.session_lifetime_ms == pytest.approx(60_000, abs=1000)
        assert (await client.call("Metadata", 12, METADATA)).brokers
        assert principals(world) == ["User:alice"]
        await trio.sleep(61)
        with pytest.raises(Closed):
            await client.call("Metadata", 12, METADATA)


async def test_a_session_goes_on_with_a_new_token_of_the_same_user(
    autojump_clock: MockClock,
) -> None:
    provider = Provider()
    async with oauth_world(provider) as world:
        client = world.connect()
        await log_in(client, token(provider, 60))
        await trio.sleep(50)
        await log_in(client, token(provider, 120))
        await trio.sleep(50)
        assert (await client.call("Metadata", 12, METADATA)).brokers
        await handshake(client, "OAUTHBEARER")
        answer = await authenticate(client, first_message(token(provider, 900, sub="bob")))
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )


async def log_in(client: WireClient, bearer: str) -> None:
    await handshake(client, "OAUTHBEARER")
    assert (await authenticate(client, first_message(bearer))).error_code == 0


async def test_a_bad_token_is_challenged_and_then_refused_late(autojump_clock: MockClock) -> None:
    provider = Provider()
    async with oauth_world(provider) as world:
        client = world.connect()
        await handshake(client, "OAUTHBEARER")
        answer = await authenticate(client, first_message(token(provider, -31)))
        assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
        begun = trio.current_time()
        answer = await authenticate(client, b"\x01")
        assert trio.current_time() - begun == pytest.approx(0.1)
        assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')
        with pytest.raises(Closed):
            await client.receive()


async def test_a_refused_token_is_counted_though_its_client_only_leaves(
    autojump_clock: MockClock,
) -> None:
    provider = Provider()
    async with oauth_world(provider) as world:
        for answers in (0, 1):
            client = world.connect()
            await handshake(client, "OAUTHBEARER")
            await authenticate(client, first_message(token(provider, -31)))
            for _ in range(answers):
                await authenticate(client, b"\x01")
            client.transport.close()
        assert world.gateway.logins.gates.tally.failed == {LISTENER: 2}


async def test_logins_with_a_new_key_wait_until_it_is_read(autojump_clock: MockClock) -> None:
    provider = Provider(key_of("ES256", "old"))
    async with oauth_world(provider) as world:
        provider.keys = [key_of("ES256", "new")]
        provider.seconds = 2.0
        begun = trio.current_time()
        async with trio.open_nursery() as clients:
            for _ in range(3):
                clients.start_soon(log_in, world.connect(), token(provider))
        assert trio.current_time() - begun == LEAST_SECONDS + 2.0
        assert provider.reads == 2


async def test_a_key_that_stays_unknown_is_looked_for_once(autojump_clock: MockClock) -> None:
    provider, stranger = Provider(), Provider(key_of("ES256", "made-up"))
    async with oauth_world(provider) as world:
        for _ in range(3):
            client = world.connect()
            await handshake(client, "OAUTHBEARER")
            answer = await authenticate(client, first_message(token(stranger)))
            assert answer.auth_bytes == b'{"status":"invalid_token"}'
        assert provider.reads == 2
        provider.seconds = 60.0
        client, begun = world.connect(), trio.current_time()
        await handshake(client, "OAUTHBEARER")
        answer = await authenticate(client, first_message(token(Provider(key_of("ES256", "x")))))
        assert answer.auth_bytes == b'{"status":"invalid_token"}'
        assert trio.current_time() - begun == LEAST_SECONDS + READ_SECONDS


async def test_metrics_show_the_keys_and_failed_reads(autojump_clock: MockClock) -> None:
    provider = Provider()
    async with oauth_world(provider) as world:
        assert values(world) == {"keys": 1.0, "failed": 0.0}
        provider.error = KeysUnavailable("it is away")
        await trio.sleep(3600.05)
        assert values(world) == {"keys": 1.0, "failed": 1.0}


def values(world: WireWorld) -> dict[str, float]:
    names = {"tidegate_oauth_keys": "keys", "tidegate_oauth_failed_key_reads_total": "failed"}
    return {
        names[sample.name]: sample.value
        for sample in samples(world.gateway)
        if sample.name in names
    }
