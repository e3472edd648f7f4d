"""The times on the metrics page are those that clients measure, within 2 %; so are the errors."""

from __future__ import annotations

from collections import Counter
from math import ceil
from random import Random

import pytest
import trio

from tests.worlds.metrics_page import families, samples, value_of
from tests.worlds.wire_client import (
    Closed,
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.admin.request_metrics import QUANTILES
from tidegate_gateway.network.memory_transport import PIPE_BYTES
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as me
from tidegate_runtime.histograms import SHOWN
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

TWO_PERCENT = 0.02


class Store(MemoryObjectStore):
    """PUTs of WAL objects take random times of a fixed seed."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = Random(3)

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            await trio.sleep(0.004 * 500 ** self.rng.random())
        await super().put(key, body)


class Log(MemoryLog):
    """Appends take append_seconds."""

    append_seconds = 0.0

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await trio.sleep(self.append_seconds)
        return await super().append(position, payload)


def assert_shows(world: WireWorld, name: str, measured: list[float]) -> None:
    """Compare a histogram with the times that clients measured."""
    found = families(world.gateway)[name].samples
    buckets = {float(each.labels["le"]): each.value for each in found if each.labels}
    assert len(buckets) == len(SHOWN) + 1
    for bound, count in buckets.items():
        low = sum(each <= bound * (1 - TWO_PERCENT) for each in measured)
        high = sum(each <= bound * (1 + TWO_PERCENT) for each in measured)
        assert low <= count <= high, bound
    values = {each.name: each.value for each in found if not each.labels}
    assert values[f"{name}_count"] == len(measured)
    assert values[f"{name}_sum"] == pytest.approx(sum(measured), rel=TWO_PERCENT, abs=1e-6)


def assert_quantiles(world: WireWorld, request: str, measured: list[float]) -> None:
    """Compare Kafka's quantiles with the times that clients measured."""
    ordered = sorted(measured)
    name = "kafka_network_requestmetrics_totaltimems"
    found = {
        float(each.labels["quantile"]): each.value
        for each in samples(world.gateway)
        if each.name == name and each.labels["request"] == request
    }
    assert list(found) == list(QUANTILES)
    for share, found_ms in found.items():
        wanted = ordered[max(ceil(len(ordered) * share - 1e-9), 1) - 1]
        assert found_ms == pytest.approx(wanted * 1000, rel=TWO_PERCENT + 0.001), share


async def timed_produce(client: WireClient, measured: list[float], count: int) -> None:
    for number in range(count):
        began = trio.current_time()
        # Some requests have several batches, which another code path answers.
        batches = [("t", at, records_batch(b"a")) for at in range(1 + number % 2)]
        answer = await client.call("Produce", 9, produce_request(batches))
        assert not any(p.error_code for t in answer.responses for p in t.partition_responses)
        measured.append(trio.current_time() - began)


async def test_produce_takes_as_long_as_clients_measure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log, measured = Log(), list[float]()
    async with wire_world(store=Store(), log=log) as world:
        await world.create_topic("t", 2)
        log.append_seconds = 0.015
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(timed_produce, world.connect(), measured, 25)
        assert_shows(world, "tidegate_produce_seconds", measured)
        assert_quantiles(world, "Produce", measured)
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        assert value_of(world.gateway, name, topic="t") == 8 * (13 + 2 * 12)


async def test_the_stages_of_a_lone_client_add_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log, measured = Log(), list[float]()
    async with wire_world(store=Store(), log=log) as world:
        await world.create_topic("t", 2)
        log.append_seconds = 0.2
        client = world.connect()
        await timed_produce(client, measured, 20)
        stages = {
            stage: value_of(world.gateway, f"tidegate_produce_{stage}_seconds_sum")
            for stage in ("queue", "seal", "upload", "commit")
        }
        assert sum(stages.values()) == pytest.approx(sum(measured), rel=TWO_PERCENT)
        assert stages["commit"] == pytest.approx(20 * 0.2, rel=TWO_PERCENT)
        assert value_of(world.gateway, "tidegate_store_put_seconds_sum") == pytest.approx(
            stages["upload"], rel=TWO_PERCENT
        )
        assert value_of(world.gateway, "tidegate_log_append_seconds_count") >= 20


async def test_fetch_takes_as_long_as_clients_measure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    measured = list[float]()
    async with wire_world() as world:
        await world.create_topic("t", 1)
        reader, writer = world.connect(), world.connect()
        for number in range(30):
            request = fetch_of("t", offset=number, max_wait_ms=10_000)

            async def write(delay: float = 0.003 * 1.2**number) -> None:
                await trio.sleep(delay)
                await writer.produce("t", 0, records_batch(b"a"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                began = trio.current_time()
                answer = await reader.call("Fetch", 12, request)
                assert answer.responses[0].partitions[0].records
                measured.append(trio.current_time() - began)
        assert_shows(world, "tidegate_fetch_seconds", measured)
        assert_shows(world, "tidegate_fetch_wait_seconds", measured)
        assert_quantiles(world, "FetchConsumer", measured)
        name = "kafka_server_brokertopicmetrics_{}_total"
        size = value_of(world.gateway, name.format("bytesin"), topic="t")
        assert value_of(world.gateway, name.format("bytesout"), topic="t") == size > 0
        assert value_of(world.gateway, name.format("totalfetchrequests"), topic="t") == 30


def fetch_of(topic: str, *, offset: int = 0, max_wait_ms: int = 0) -> fe.FetchRequest:
    asked = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [fe.FetchTopic(topic=topic, partitions=[asked])]
    return fe.FetchRequest(
        max_bytes=1 << 20, min_bytes=1, max_wait_ms=max_wait_ms, session_epoch=-1, topics=topics
    )


async def test_what_a_client_takes_late_is_the_time_of_sending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client = world.connect()
        for late, count in ((False, 0), (True, 1)):
            size = PIPE_BYTES * 2 if late else PIPE_BYTES // 2
            await client.produce("t", 0, records_batch(bytes(size)))
            await client.send(request_frame("Fetch", 12, fetch_of("t", offset=count)))
            await trio.sleep(2)
            await client.receive()
            await trio.testing.wait_all_tasks_blocked()
            name = "tidegate_reply_send_seconds"
            assert value_of(world.gateway, f"{name}_count") == count
            assert value_of(world.gateway, f"{name}_sum") == pytest.approx(2 * count)
        assert value_of(world.gateway, "tidegate_fetch_seconds_sum") < 0.1


async def test_requests_that_come_together_wait_for_each_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client = world.connect()
        request = fetch_of("t", max_wait_ms=1_000)
        await client.send(request_frame("Fetch", 12, request) * 2)
        await client.receive()
        await client.receive()
        name = "kafka_network_requestmetrics_requestqueuetimems"
        times = {"request": "FetchConsumer", "quantile": "0.99"}
        assert value_of(world.gateway, name, **times) == pytest.approx(1_000, rel=TWO_PERCENT)
        assert value_of(world.gateway, "tidegate_fetch_seconds_sum") == pytest.approx(3.0)


async def test_errors_are_those_that_clients_get(autojump_clock: trio.testing.MockClock) -> None:
    seen = Counter[tuple[str, str]]()
    async with wire_world({"auto.create.topics.enable": "false"}) as world:
        await world.create_topic("t", 1, max_message_bytes="200")
        client = world.connect()
        for topic, partition, batch in (
            ("t", 0, records_batch(b"a")),
            ("t", 7, records_batch(b"a")),
            ("gone", 0, records_batch(b"a")),
            ("t", 0, records_batch(b"a" * 300)),
            ("t", 0, records_batch(b"a")[:-1] + b"?"),
        ):
            answer = await client.produce(topic, partition, batch)
            if answer.error_code:
                seen["Produce", E(answer.error_code).name] += 1
        for topic, offset in (("t", 0), ("t", 99), ("gone", 0)):
            answer = await client.call("Fetch", 12, fetch_of(topic, offset=offset))
            [found] = answer.responses[0].partitions
            if found.error_code:
                seen["Fetch", E(found.error_code).name] += 1
                seen["FetchConsumer", E(found.error_code).name] += 1
        topics = [me.MetadataRequestTopic(name="gone")]
        answer = await client.call("Metadata", 8, me.MetadataRequest(topics))
        seen["Metadata", E(answer.topics[0].error_code).name] += 1
        name = "kafka_network_requestmetrics_errors_total"
        found = {
            (each.labels["request"], each.labels["error"]): each.value
            for each in samples(world.gateway)
            if each.name == name
        }
        assert found == seen
        assert len(found) == 8
        name = "kafka_server_brokertopicmetrics_{}_total"
        assert value_of(world.gateway, name.format("failedproducerequests"), topic="t") == 3
        assert value_of(world.gateway, name.format("failedfetchrequests"), topic="t") == 1
        assert value_of(world.gateway, name.format("bytesrejected"), topic="t") > 300
        assert value_of(world.gateway, "tidegate_produce_seconds_count") == 5


async def test_waiting_requests_are_shown(autojump_clock: trio.testing.MockClock) -> None:
    log = Log()
    async with wire_world(log=log) as world:
        await world.create_topic("t", 1)
        log.append_seconds = 5.0
        await world.connect().send(request_frame("Fetch", 12, fetch_of("t", max_wait_ms=9_000)))
        await world.connect().send(
            request_frame("Produce", 9, produce_request([("t", 0, records_batch(b"a"))]))
        )
        await trio.sleep(1)
        name = "kafka_server_delayedoperationpurgatory_purgatorysize"
        assert value_of(world.gateway, name, delayedOperation="Fetch") == 1
        assert value_of(world.gateway, name, delayedOperation="Produce") == 1
        await trio.sleep(10)
        assert value_of(world.gateway, name, delayedOperation="Fetch") == 0
        assert value_of(world.gateway, name, delayedOperation="Produce") == 0


async def test_connections_show_the_software_of_their_clients(
    autojump_clock: trio.testing.MockClock,
) -> None:
    name = "kafka_server_socket_server_metrics_connections_software"
    async with wire_world() as world:
        for number in range(150):
            software = f"client-{min(number, 120)}" + "x" * 100 * (number == 0)
            request = av.ApiVersionsRequest(software, "1.2")
            await world.connect().call("ApiVersions", 3, request)
        await world.connect().call("ApiVersions", 2, av.ApiVersionsRequest())
        found = [each for each in samples(world.gateway) if each.name == name]
        assert len(found) == 101
        assert sum(each.value for each in found) == 151
        labels = {"clientSoftwareName": "client-120", "clientSoftwareVersion": "1.2"}
        assert value_of(world.gateway, name, listener="PLAINTEXT", **labels) == 30
        assert max(len(each.labels["clientSoftwareName"]) for each in found) == 50
        assert found[-1].labels["clientSoftwareName"] == "_other"


async def test_requests_without_an_answer_are_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = Log()
    async with wire_world(log=log) as world:
        log.append_seconds = 10_000.0
        topic = ct.CreatableTopic("t", 1, 1)
        with pytest.raises(Closed):
            await world.connect().call("CreateTopics", 7, ct.CreateTopicsRequest([topic], 1000))
        name = "tidegate_unanswered_requests_total"
        assert value_of(world.gateway, name, request="CreateTopics") == 1
        assert ApiKey.CREATE_TOPICS not in world.gateway.counters.times
