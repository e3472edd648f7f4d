"""SASL through a whole gateway: what is served before, during and after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.worlds.metrics_page import families
from tests.worlds.security.sasl_client import (
    LISTENER,
    authenticate,
    handshake,
    log_in,
    plain_token,
    sasl_settings,
)
from tests.worlds.wire_client import (
    Closed,
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import sasl_authenticate as sa

METADATA = me.MetadataRequest([])
DELAY_SECONDS = 0.1
VERSIONS = av.ApiVersionsRequest("tests", "1")


@asynccontextmanager
async def sasl_world(**more: str) -> AsyncIterator[WireWorld]:
    """Run a gateway with listeners SASL_PLAINTEXT and PLAINTEXT, and user alice of PLAIN."""
    settings = sasl_settings(more=more)
    async with wire_world(settings, listeners=(LISTENER, "PLAINTEXT")) as world:
        yield world


async def test_a_client_that_proves_its_password_is_served() -> None:
    async with sasl_world() as world:
        client = world.connect()
        assert (await client.call("ApiVersions", 3, VERSIONS)).error_code == 0
        assert (await handshake(client)).mechanisms == ["PLAIN"]
        answer = await authenticate(client, plain_token("alice", "secret"))
        assert answer == sa.SaslAuthenticateResponse(0, "", b"", 0)
        assert (await client.call("Metadata", 12, METADATA)).brokers
        [connection] = world.gateway.connections
        assert connection.peer.principal == "User:alice"


async def test_a_wrong_password_is_answered_late_and_the_connection_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world() as world:
        client = world.connect()
        await handshake(client)
        begun = trio.current_time()
        answer = await authenticate(client, plain_token("alice", "guess"))
        assert trio.current_time() - begun == pytest.approx(DELAY_SECONDS)
        text = "Authentication failed: Invalid username or password"
        assert (answer.error_code, answer.error_message) == (58, text)
        with pytest.raises(Closed):
            await client.receive()


async def test_before_authentication_nothing_else_is_served() -> None:
    async with sasl_world(connection_failed_authentication_delay_ms="0") as world:
        client = world.connect()
        await client.send(request_frame("Metadata", 12, METADATA))
        with pytest.raises(Closed):
            await client.receive()


async def test_a_listener_without_sasl_refuses_it_and_stays_open() -> None:
    async with sasl_world() as world:
        client = world.connect(listener="PLAINTEXT")
        assert (await handshake(client)).error_code == 34
        answer = await authenticate(client, b"")
        assert answer.error_code == 34
        assert (await client.call("Metadata", 12, METADATA)).brokers
        [connection] = world.gateway.connections
        assert connection.peer.principal == "User:ANONYMOUS"


async def test_a_produce_request_before_authentication_stores_nothing() -> None:
    async with sasl_world(connection_failed_authentication_delay_ms="0") as world:
        friend = world.connect()
        await log_in(friend)
        await new_topic(friend)
        # Once the fast path knows these bytes, it does not parse the header any more.
        assert (await friend.produce("t", 0, records_batch(b"x"))).error_code == 0
        client = world.connect()
        await client.call("ApiVersions", 3, VERSIONS)
        request = produce_request([("t", 0, records_batch(b"y"))])
        await client.send(request_frame("Produce", 9, request))
        with pytest.raises(Closed):
            await client.receive()
        assert await friend.fetch_values("t", 0, 0) == [b"x"]


@pytest.mark.parametrize("session_ms", ["0", "5000"])
async def test_large_requests_are_served_after_authentication(session_ms: str) -> None:
    async with sasl_world(connections_max_reauth_ms=session_ms) as world:
        client = world.connect()
        await log_in(client)
        await new_topic(client)
        assert (await client.produce("t", 0, records_batch(bytes(900_000)))).error_code == 0


async def new_topic(client: WireClient) -> None:
    topic = ct.CreatableTopic("t", 1, 1)
    answer = await client.call("CreateTopics", 7, ct.CreateTopicsRequest([topic], 1000))
    assert answer.topics[0].error_code == 0


async def test_a_session_ends_when_its_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client = world.connect()
        assert await log_in(client) == 5000
        await trio.sleep(4.9)
        assert (await client.call("Metadata", 12, METADATA)).brokers
        await trio.sleep(0.2)
        await client.send(request_frame("Metadata", 12, METADATA))
        with pytest.raises(Closed):
            await client.receive()


async def test_a_client_that_authenticates_again_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client = world.connect()
        await log_in(client)
        for _ in range(5):
            await trio.sleep(4.5)
            assert await log_in(client) == 5000
            assert (await client.call("Metadata", 12, METADATA)).brokers


async def test_it_may_do_so_once_a_second(autojump_clock: trio.testing.MockClock) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client = world.connect()
        await log_in(client)
        await log_in(client)
        assert (await handshake(client)).error_code == 34
        assert (await client.call("Metadata", 12, METADATA)).brokers
        await trio.sleep(1)
        await log_in(client)


async def test_another_user_or_mechanism_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    settings = sasl_settings(
        {"alice": "secret", "bob": "secret"},
        "PLAIN,SCRAM-SHA-256",
        {"connections.max.reauth.ms": "9000"},
    )
    async with wire_world(settings, listeners=(LISTENER,)) as world:
        client = world.connect()
        await log_in(client)
        await handshake(client)
        answer = await authenticate(client, plain_token("bob", "secret"))
        text = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert (answer.error_code, answer.error_message) == (58, text)
        with pytest.raises(Closed):
            await client.receive()
        other = world.connect()
        await log_in(other)
        assert (await handshake(other, "SCRAM-SHA-256")).error_code == 0
        with pytest.raises(Closed):
            await authenticate(other, plain_token("alice", "secret"))


async def test_a_waiting_fetch_does_not_outlive_its_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client = world.connect()
        await log_in(client)
        await new_topic(client)
        begun = trio.current_time()
        asked = [fe.FetchTopic(topic="t", partitions=[fe.FetchPartition(0)])]
        request = fe.FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=asked)
        assert (await client.call("Fetch", 12, request)).error_code == 0
        assert trio.current_time() - begun <= 5


async def test_whoever_does_not_authenticate_in_time_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world() as world:
        client = world.connect()
        await client.call("ApiVersions", 3, VERSIONS)
        begun = trio.current_time()
        with pytest.raises(Closed):
            await client.receive()
        assert trio.current_time() - begun == pytest.approx(10, abs=1.1)


async def test_what_happened_is_counted_by_listener(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client, other = world.connect(), world.connect()
        await log_in(client)
        await log_in(client)
        await handshake(other)
        await authenticate(other, plain_token("alice", "guess"))
        await trio.sleep(6)
        with pytest.raises(Closed):
            await client.call("Metadata", 12, METADATA)
        tally = world.gateway.logins.gates.tally
        assert (tally.succeeded, tally.failed, tally.expired) == (
            {LISTENER: 2},
            {LISTENER: 1},
            {LISTENER: 1},
        )
        found = families(world.gateway)
        [failed] = found["kafka_server_socket_server_metrics_failed_authentication"].samples
        assert (failed.labels, failed.value) == ({"listener": LISTENER}, 1)


async def test_requests_that_came_before_the_end_are_answered_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with sasl_world(connections_max_reauth_ms="5000") as world:
        client = world.connect()
        await log_in(client)
        await new_topic(client)
        asked = [fe.FetchTopic(topic="t", partitions=[fe.FetchPartition(0)])]
        request = fe.FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=asked)
        waiting = request_frame("Fetch", 12, request, 7)
        await client.send(waiting + request_frame("Metadata", 12, METADATA, 8))
        assert (await client.receive())[:4] == bytes([0, 0, 0, 7])
        assert (await client.receive())[:4] == bytes([0, 0, 0, 8])


@pytest.mark.parametrize("key", [0, 3, 17])
async def test_a_large_request_before_authentication_takes_no_memory(
    autojump_clock: trio.testing.MockClock, key: int
) -> None:
    async with sasl_world() as world:
        client = world.connect()
        begun = trio.current_time()
        await client.send((100_000).to_bytes(4, "big") + key.to_bytes(2, "big") + bytes(70_000))
        with pytest.raises(Closed):
            await client.receive()
        assert trio.current_time() == begun
