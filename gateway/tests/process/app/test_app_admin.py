"""The admin listener: pages, metrics, and its answers to bad clients."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.worlds.app_world import pages_of, started_gateway, starting_pages
from tests.worlds.doors import NO_HOSTS, alone
from tests.worlds.metrics_page import families
from tests.worlds.wire_client import records_batch, wire_world
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_gateway.admin.admin_pages import AdminPages
from tidegate_gateway.admin.metrics import render_metrics
from tidegate_gateway.counting.topic_counters import BYTES_IN
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.requests.topics.metrics import MAX_PARTITION_SERIES
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.http.pages import Answer, serve_pages
from tidegate_runtime.listening import stream_of
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable


@asynccontextmanager
async def client_of(pages: AdminPages) -> AsyncIterator[trio.SocketStream]:
    """One connection to the admin server."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    async with trio.open_nursery() as nursery:
        serve = partial(serve_pages, hosts=NO_HOSTS)
        nursery.start_soon(serve, stream_of(theirs), pages, alone())
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        async with stream:
            with trio.fail_after(60):
                yield stream


async def rest_of(stream: trio.SocketStream) -> bytes:
    return b"".join([part async for part in stream])


async def answer_to(sent: bytes, pages: AdminPages | None = None) -> bytes:
    async with client_of(pages or starting_pages()) as stream:
        await stream.send_all(sent)
        await stream.send_eof()
        return await rest_of(stream)


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def page(gateway: Gateway, path: str) -> Answer:
    return await pages_of(gateway).answer("GET", path)


async def test_ready_only_between_start_and_drain() -> None:
    assert await starting_pages().answer("GET", "/readyz") == Answer(503, "starting\n")
    async with started_gateway() as gateway:
        assert (await page(gateway, "/readyz")).status == 200
        gateway.is_stopping = True
        assert (await page(gateway, "/readyz")) == Answer(503, "draining\n")
        for path in ("/livez", "/healthz", "/metrics", "/v1/status", "/version"):
            assert (await page(gateway, path)).status == 200


async def test_before_the_start_all_pages_answer() -> None:
    pages = starting_pages()
    for path in ("/livez", "/healthz", "/metrics", "/v1/status", "/version"):
        assert (await pages.answer("GET", path)).status == 200
    assert b"\ntidegate_ready 0.0\n" in await answer_to(get("/metrics"), pages)
    status = json.loads((await pages.answer("GET", "/v1/status")).body)
    assert (status["state"], status["ready"], status["node_id"]) == ("starting", False, 1)


async def test_status_says_what_is_there() -> None:
    async with started_gateway() as gateway:
        await create(gateway, "greetings", 3)
        status = json.loads((await page(gateway, "/v1/status?pretty")).body)

    assert status["cluster_id"] == "cluster-of-tests"
    assert (status["topics"], status["partitions"]) == (1, 3)
    assert status["gateways"] == [
        {"node_id": 1, "zone": "az1", "version": "0.0.1", "draining": False}
    ]
    assert status["settings"] == {"differing": [], "unknown": []}
    assert status["listeners"] == [{"listener": "PLAINTEXT", "host": "127.0.0.1", "port": 9092}]
    assert status["ready"] is True


async def create(gateway: Gateway, name: str, partitions: int) -> None:
    topic_id = name.encode().ljust(16, b"-")
    await gateway.coordinator.propose(CreateTopics([NewTopic(topic_id, name, partitions)]))


async def test_bytes_of_deleted_topics_are_forgotten() -> None:
    async with started_gateway() as gateway:
        await create(gateway, "greetings", 1)
        for each in ("greetings", "gone"):
            gateway.counters.topics.produced(each, 500, 1)
        text = (await render_metrics(gateway)).decode()
        assert 'bytesin_total{topic="greetings"}' in text
        assert "gone" not in text
        for number in range(1000):
            gateway.counters.topics.produced(f"gone {number}", 500, 1)
        rows = gateway.counters.topics.rows
        assert len(rows) < 200
        assert rows["greetings"][BYTES_IN] == 500
        assert gateway.counters.topics.whole()[BYTES_IN] == 500 * 1002


async def test_metrics_are_of_the_moment() -> None:
    async with started_gateway() as gateway:
        await create(gateway, "greetings", 2)
        gateway.counters.count(ApiKey.PRODUCE)
        gateway.counters.count(ApiKey.FETCH)
        gateway.counters.count(31_000)
        gateway.counters.topics.produced("greetings", 500, 3)
        gateway.writes.writer.counters.objects = 7
        text = (await render_metrics(gateway)).decode()

    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert values['kafka_network_requestmetrics_requests_total{request="Produce"}'] == "1.0"
    assert values['kafka_network_requestmetrics_requests_total{request="FetchConsumer"}'] == "1.0"
    assert "31000" not in text
    assert values['kafka_server_brokertopicmetrics_bytesin_total{topic="greetings"}'] == "500"
    assert values['kafka_server_brokertopicmetrics_messagesin_total{topic="greetings"}'] == "3"
    assert values["kafka_server_brokertopicmetrics_messagesin_total"] == "3"
    assert values['kafka_log_log_logendoffset{partition="1",topic="greetings"}'] == "0"
    assert values["kafka_controller_kafkacontroller_globalpartitioncount"] == "2.0"
    assert values["kafka_controller_kafkacontroller_activecontrollercount"] == "1.0"
    assert values["tidegate_wal_objects_total"] == "7.0"
    assert float(values["process_resident_memory_bytes"]) > 1e6
    assert float(values["process_cpu_seconds_total"]) > 0


class FullStore(MemoryObjectStore):
    """A store that refuses all PUTs while it is full."""

    is_full = False

    async def put(self, key: str, body: Buffer) -> None:
        if self.is_full:
            raise StoreUnavailable("no space left")
        await super().put(key, body)


async def test_metrics_show_the_age_of_the_last_stored_object(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def ages(gateway: Gateway) -> dict[str, float]:
        found = families(gateway)
        names = ("tidegate_wal_put_age_seconds", "tidegate_wal_commit_age_seconds")
        return {name: found[name].samples[0].value for name in names if name in found}

    store = FullStore()
    async with wire_world(store=store) as world:
        await world.create_topic("t", 1)
        assert ages(world.gateway) == {}
        client = world.connect()
        assert (await client.produce("t", 0, records_batch(b"a"))).error_code == 0
        await trio.sleep(20)
        assert list(ages(world.gateway).values()) == pytest.approx([20, 20], abs=1)
        store.is_full = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.produce, "t", 0, records_batch(b"b"))
            await trio.sleep(100)
            assert list(ages(world.gateway).values()) == pytest.approx([120, 120], abs=1)
            assert (await page(world.gateway, "/readyz")).status == 200
            nursery.cancel_scope.cancel()


async def test_series_of_partitions_are_capped() -> None:
    async with started_gateway() as gateway:
        await create(gateway, "large", MAX_PARTITION_SERIES + 5)
        text = (await render_metrics(gateway)).decode()

    found = len(re.findall("^kafka_log_log_size{partition", text, re.MULTILINE))
    assert found == MAX_PARTITION_SERIES
    assert 'kafka_log_log_size{topic="_other"} 0' in text
    assert "tidegate_partitions_without_series 5.0" in text


async def test_an_admin_connection_serves_several_requests() -> None:
    async with client_of(starting_pages()) as stream:
        await stream.send_all(get("/livez"))
        first = await stream.receive_some(4096)
        await stream.send_all(get("/version", "Connection: close"))
        second = await rest_of(stream)

    assert first.endswith(b"\r\n\r\nok\n")
    assert second.endswith(b'{"version":"0.0.1"}\n')


async def test_head_has_no_body() -> None:
    answer = await answer_to(get("/livez").replace(b"GET", b"HEAD"))
    assert status_of(answer) == 200
    assert b"Content-Length: 3" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (get("/nothing"), 404),
        (get("/livez").replace(b"GET", b"DELETE"), 405),
        (get("/livez", "Content-Length: 2").replace(b"GET", b"POST") + b"xx", 405),
        (b"hello\r\n\r\n", 400),
        (b"\x00\x00\x00\x20\x00\x12\x00\x03binary\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400),
        (get("/livez", "X: " + "x" * 40_000), 431),
        (get("/livez", "Content-Length: 20000") + b"x" * 20_000, 413),
        (get("/livez", "Content-Length: 3") + b"xxx", 200),
    ],
)
async def test_the_admin_listener_answers_each_bad_request_with_its_status(
    sent: bytes, status: int
) -> None:
    assert status_of(await answer_to(sent)) == status


@pytest.mark.parametrize("sent", [b"", b"GET /livez HT", get("/livez", "Content-Length: 9") + b"x"])
async def test_the_admin_listener_closes_a_client_that_stops_half_way(sent: bytes) -> None:
    answer = await answer_to(sent)
    assert answer == b"" or status_of(answer) == 400


async def test_the_listener_closes_a_silent_client(autojump_clock: trio.testing.MockClock) -> None:
    async with client_of(starting_pages()) as stream:
        await stream.send_all(b"GET /liv")
        assert await rest_of(stream) == b""
    assert trio.current_time() >= 10


async def test_a_page_that_fails_is_a_500() -> None:
    async with started_gateway() as gateway:
        del gateway.keepers
        assert status_of(await answer_to(get("/v1/status"), pages_of(gateway))) == 500
