"""GetTelemetrySubscriptions and PushTelemetry, from the bytes of clients to the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.clients.otlp_writer import gauge, metrics, point, total
from tests.worlds.inline_pool import after
from tests.worlds.metrics_page import families, samples, value_of
from tests.worlds.wire_client import Closed, WireClient, WireWorld, wire_world
from tidegate_gateway.telemetry import telemetry as module
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.compression import Codec, compress
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import get_telemetry_subscriptions as gt
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import push_telemetry as pt

CLIENT_METRICS, SET = 16, 0
MAX_BYTES = 10_000
PUSHED = metrics(gauge("org.apache.kafka.producer.g", point(1.5)), total("s", point(2)))
G, S = "tidegate_client_producer_g", "tidegate_client_s_total"
LABELS = {"client_id": "test", "client_software_name": "lib"}


@pytest.fixture
async def world(autojump_clock: MockClock) -> AsyncIterator[WireWorld]:
    async with wire_world({"telemetry.max.bytes": str(MAX_BYTES)}) as found:
        yield found


async def subscribe(world: WireWorld, **configs: str) -> int:
    """Set configs of a subscription; return the error code."""
    changes = [
        ia.AlterableConfig(name.replace("_", "."), SET, value) for name, value in configs.items()
    ]
    request = ia.IncrementalAlterConfigsRequest(
        [ia.AlterConfigsResource(CLIENT_METRICS, "one", changes)]
    )
    answer = await world.connect().call("IncrementalAlterConfigs", 1, request)
    return int(answer.responses[0].error_code)


async def connected(world: WireWorld) -> WireClient:
    """Return a client that has told its software name and version."""
    client = world.connect("10.0.0.7")
    await client.call("ApiVersions", 3, av.ApiVersionsRequest("lib", "1.0"))
    return client


async def get(client: WireClient, instance_id: bytes = bytes(16)) -> Any:
    request = gt.GetTelemetrySubscriptionsRequest(instance_id)
    return await client.call("GetTelemetrySubscriptions", 0, request)


async def push(client: WireClient, told: Any, data: bytes, **more: Any) -> int:
    """Push data as the answer of get() demands; return the error code."""
    request = pt.PushTelemetryRequest(
        told.client_instance_id, told.subscription_id, metrics=data, **more
    )
    return int((await client.call("PushTelemetry", 0, request)).error_code)


async def test_what_is_pushed_is_on_the_page(autojump_clock: MockClock, world: WireWorld) -> None:
    assert await subscribe(world, metrics="*", interval_ms="1000", match="client_id=te.*") == 0
    client = await connected(world)
    told = await get(client)
    assert (told.error_code, told.push_interval_ms, told.requested_metrics) == (0, 1_000, ["*"])
    assert (told.telemetry_max_bytes, told.delta_temporality) == (MAX_BYTES, True)
    assert told.accepted_compression_types == [4, 3, 1, 2]
    assert told.client_instance_id[6] >> 4 == 4
    assert await push(client, told, PUSHED) == 0
    assert value_of(world.gateway, G, **LABELS) == 1.5
    assert value_of(world.gateway, S, **LABELS) == 2
    assert {families(world.gateway)[name].type for name in (G, "tidegate_client_s")} == {
        "gauge",
        "counter",
    }
    await trio.sleep(1)
    assert await push(client, told, PUSHED) == 0
    assert value_of(world.gateway, S, **LABELS) == 4
    await trio.sleep(3)
    assert [each for each in samples(world.gateway) if each.name in (G, S)] == []


@pytest.mark.parametrize("codec", [each for each in Codec if each])
async def test_pushes_may_be_compressed(
    autojump_clock: MockClock, world: WireWorld, codec: Codec
) -> None:
    await subscribe(world, metrics="*")
    client = await connected(world)
    told = await get(client)
    packed = compress(PUSHED * 50, codec)
    assert await push(client, told, packed, compression_type=codec) == 0
    assert value_of(world.gateway, S, **LABELS) == 100


async def test_a_client_without_a_subscription_pushes_nothing(
    autojump_clock: MockClock, world: WireWorld
) -> None:
    await subscribe(world, metrics="*", match="client_id=other")
    client = await connected(world)
    told = await get(client)
    assert (told.error_code, told.push_interval_ms, told.requested_metrics) == (0, 300_000, [])
    assert await push(client, told, b"not even metrics") == 0
    assert value_of(world.gateway, "tidegate_telemetry_clients") == 0
    assert value_of(world.gateway, "tidegate_telemetry_instances") == 1


@pytest.mark.parametrize(
    ("data", "codec", "error"),
    [
        (b"\xff", 0, ErrorCode.INVALID_RECORD),
        (b"\xff", 1, ErrorCode.INVALID_RECORD),
        (PUSHED, 4, ErrorCode.INVALID_RECORD),
        (compress(b"\xff" * 50, Codec.LZ4), 3, ErrorCode.INVALID_RECORD),
        (bytes(MAX_BYTES + 1), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(bytes(MAX_BYTES + 1), Codec.GZIP), 1, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(bytes(MAX_BYTES + 1), Codec.SNAPPY), 2, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(bytes(MAX_BYTES + 1), Codec.LZ4), 3, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(bytes(MAX_BYTES + 1), Codec.ZSTD), 4, ErrorCode.TELEMETRY_TOO_LARGE),
        (PUSHED, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"", 0, ErrorCode.NONE),
    ],
)
async def test_bad_pushes(
    autojump_clock: MockClock, world: WireWorld, data: bytes, codec: int, error: ErrorCode
) -> None:
    await subscribe(world, metrics="*")
    client = await connected(world)
    told = await get(client)
    assert await push(client, told, data, compression_type=codec) == error
    assert [each for each in samples(world.gateway) if each.name in (G, S)] == []


async def test_an_id_that_no_client_can_have_is_refused(
    autojump_clock: MockClock, world: WireWorld
) -> None:
    client = await connected(world)
    told = await get(client)
    for reserved in (bytes(16), bytes(15) + b"\1"):
        told.client_instance_id = reserved
        assert await push(client, told, PUSHED) == ErrorCode.INVALID_REQUEST


async def test_a_client_learns_of_a_changed_subscription(
    autojump_clock: MockClock, world: WireWorld
) -> None:
    await subscribe(world, metrics="*", interval_ms="60000")
    client = await connected(world)
    told = await get(client)
    await subscribe(world, metrics="s")
    assert await push(client, told, PUSHED) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = await get(client, told.client_instance_id)
    assert (again.error_code, again.requested_metrics) == (0, ["s"])
    assert again.client_instance_id == told.client_instance_id
    await trio.sleep(60)
    assert await push(client, again, PUSHED) == 0
    assert value_of(world.gateway, S, **LABELS) == 2
    assert [each for each in samples(world.gateway) if each.name == G] == []


async def test_a_client_that_connects_again_may_ask_at_once(
    autojump_clock: MockClock, world: WireWorld
) -> None:
    client = await connected(world)
    told = await get(client)
    assert (await get(client, told.client_instance_id)).error_code == (
        ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )
    client.transport.reset()
    await trio.sleep(1)
    assert value_of(world.gateway, "tidegate_telemetry_instances") == 0
    assert (await get(await connected(world), told.client_instance_id)).error_code == 0


async def test_a_push_is_answered_for_itself(autojump_clock: MockClock, world: WireWorld) -> None:
    await subscribe(world, metrics="*", interval_ms="60000")
    one, two = await connected(world), await connected(world)
    told = await get(one)
    begun, may_end = trio.Event(), trio.Event()

    async def wait() -> None:
        begun.set()
        await may_end.wait()

    world.gateway.telemetry._pool = inline_pools(after(wait)).telemetry
    answers: list[int] = []

    async def push_one() -> None:
        packed = compress(PUSHED, Codec.ZSTD)
        answers.append(await push(one, told, packed, compression_type=Codec.ZSTD))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(push_one)
        await begun.wait()
        # The same instance pushes over another connection while its first push is read.
        assert await push(two, told, PUSHED) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        may_end.set()
    assert answers == [ErrorCode.NONE]
    assert value_of(world.gateway, S, **LABELS) == 2


async def test_clients_choose_no_series(autojump_clock: MockClock, world: WireWorld) -> None:
    await subscribe(world, metrics="*")
    client = world.connect()
    client.client_id = '"} 1\nup{x="' + "y" * 1_000
    names = ['tidegate_ready{a="b"} 1\n# TYPE x', "up", "total", ".", "a_total", "a.total"]
    told = await get(client)
    data = metrics(*[gauge(each, point(7)) for each in names], total("a", point(1)))
    assert await push(client, told, data) == 0
    page = families(world.gateway)
    pushed = [each for each in page.values() if each.documentation == "Pushed by clients"]
    found = [each for family in pushed for each in family.samples]
    assert [each.name for each in found if not each.name.startswith("tidegate_client_")] == []
    assert {each.labels["client_id"] for each in found} == {client.client_id[: module.MAX_TEXT]}
    assert {each.labels["client_software_name"] for each in found} == {"unknown"}
    assert value_of(world.gateway, "tidegate_ready") == 1


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        ({"match": "client_id=(?=a)"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=(a{1000}){1000}"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"interval_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"interval_ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"no_such": "1"}, ErrorCode.INVALID_REQUEST),
        ({"match": "client_id=a,client_source_port=9..."}, ErrorCode.NONE),
    ],
)
async def test_bad_subscriptions(
    autojump_clock: MockClock, world: WireWorld, configs: dict[str, str], error: ErrorCode
) -> None:
    assert await subscribe(world, **configs) == error


async def test_damaged_requests_cost_their_own_connection_only(
    autojump_clock: MockClock, world: WireWorld
) -> None:
    client, other = await connected(world), await connected(world)
    frame = b"\0\0\0\x0c\0\x48\0\0\0\0\0\1\0\4test"
    await client.send(frame[:4] + frame[4:16])
    with pytest.raises(Closed):
        await client.receive()
    assert (await get(other)).error_code == 0
