"""A slow request is logged in one line with its stages; a quick or only waiting one is not."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from tests.worlds.metrics_page import value_of
from tests.worlds.wire_client import (
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.counting.slow_requests import MAX_LINES, SlowRequests, milliseconds
from tidegate_gateway.network.call import Peer
from tidegate_gateway.produce.produce_times import ObjectTimes
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import list_offsets as lo
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

SLOW_MS = 500
# A cache of this size keeps no object: each fetch reads the store.
SETTINGS = {"slow.request.log.ms": str(SLOW_MS), "fetch.cache.bytes": "0"}


class Store(MemoryObjectStore):
    put_seconds = get_seconds = 0.0

    async def put(self, key: str, body: Buffer) -> None:
        await trio.sleep(self.put_seconds if "/wal/" in key else 0)
        await super().put(key, body)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await trio.sleep(self.get_seconds)
        return await super().get_range(key, start, length)


class Log(MemoryLog):
    append_seconds = 0.0

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await trio.sleep(self.append_seconds)
        return await super().append(position, payload)


def slow(captured: list[Any]) -> list[dict[str, Any]]:
    return [dict(each) for each in captured if each["event"] == "a request was slow"]


def fetch_of(*, offset: int = 0, max_wait_ms: int = 0) -> fe.FetchRequest:
    asked = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [fe.FetchTopic(topic="t", partitions=[asked])]
    return fe.FetchRequest(
        max_bytes=1 << 20, min_bytes=1, max_wait_ms=max_wait_ms, session_epoch=-1, topics=topics
    )


@pytest.mark.parametrize("batches", [1, 2])
async def test_the_stages_of_a_slow_produce_request_add_up(
    batches: int, autojump_clock: trio.testing.MockClock
) -> None:
    store, log = Store(), Log()
    async with wire_world(SETTINGS, store=store, log=log) as world:
        await world.create_topic("t", 1)
        store.put_seconds, log.append_seconds = 0.4, 0.3
        client = world.connect()
        # The gateway learns the form of a request from the first one.  The next one takes a shorter
        # path.
        for _ in range(2):
            with capture_logs() as captured:
                request = produce_request([("t", 0, records_batch(b"a"))] * batches)
                answer = await client.call("Produce", 9, request)
            assert not answer.responses[0].partition_responses[0].error_code
            [line] = slow(captured)
            assert line.pop("peer").startswith("client:")
            queue_ms = line.pop("queue_ms")
            assert line == {
                "event": "a request was slow",
                "log_level": "warning",
                "api": "Produce",
                "client_id": "test",
                "listener": "PLAINTEXT",
                "total_ms": 700 + queue_ms,
                "seal_ms": 0,
                "upload_ms": 400,
                "commit_ms": 300,
            }
        assert value_of(world.gateway, "tidegate_slow_requests_total", request="Produce") == 2


def test_stages_add_up_whatever_is_rounded() -> None:
    stages = ObjectTimes(0.0006, 0.0012, 0.0018).stages_ms(0.0, 0.0024)
    assert sum(stages.values()) == milliseconds(0.0024) == 2
    assert all(each >= 0 for each in stages.values())


async def test_a_produce_request_that_times_out_has_no_stages(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = Store()
    async with wire_world(SETTINGS, store=store) as world:
        await world.create_topic("t", 1)
        store.put_seconds = 5.0
        request = produce_request([("t", 0, records_batch(b"a"))])
        request.timeout_ms = 1_000
        with capture_logs() as captured:
            await world.connect().call("Produce", 9, request)
        [line] = slow(captured)
        assert 1_000 <= line["total_ms"] <= 2_000
        assert "upload_ms" not in line
        # The stages of an object that is settled later do not appear in a later request that times
        # out.
        await trio.sleep(10)
        assert world.gateway.writes.writer.counters.times.of_object is None


async def test_the_wait_of_a_fetch_does_not_count(autojump_clock: trio.testing.MockClock) -> None:
    async with wire_world(SETTINGS) as world:
        await world.create_topic("t", 1)
        with capture_logs() as captured:
            await world.connect().call("Fetch", 12, fetch_of(max_wait_ms=5_000))
        assert not slow(captured)


async def test_a_fetch_that_reads_a_slow_store_shows_its_gets(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = Store()
    async with wire_world(SETTINGS, store=store) as world:
        await world.create_topic("t", 1)
        client = world.connect()

        async def write() -> None:
            await trio.sleep(2)
            await world.connect().produce("t", 0, records_batch(b"a"))

        store.get_seconds = 0.6
        with capture_logs() as captured:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                answer = await client.call("Fetch", 12, fetch_of(max_wait_ms=9_000))
        [partition] = answer.responses[0].partitions
        [line] = slow(captured)
        assert (line["api"], line["gets"], line["bytes"]) == ("Fetch", 1, len(partition.records))
        assert 2_000 <= line["wait_ms"] <= 2_300
        assert line["total_ms"] == pytest.approx(line["wait_ms"] + 600, abs=1)
        with capture_logs() as captured:
            await client.call("Fetch", 12, fetch_of())
        [line] = slow(captured)
        assert (line["gets"], line["wait_ms"]) == (1, 0)  # no figures of the fetch before it


async def test_other_requests_show_their_time_and_queue(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with wire_world(SETTINGS) as world:
        await world.create_topic("t", 1)
        client = world.connect()
        asked = lo.ListOffsetsTopic("t", [lo.ListOffsetsPartition(0, timestamp=-1)])
        wait = request_frame("Fetch", 12, fetch_of(max_wait_ms=800))
        request = request_frame("ListOffsets", 5, lo.ListOffsetsRequest(-1, topics=[asked]))
        with capture_logs() as captured:
            await client.send(wait + request)
            await client.receive()
            await client.receive()
        [line] = slow(captured)
        assert (line["api"], line["total_ms"], line["queue_ms"]) == ("ListOffsets", 800, 800)


async def test_a_member_that_waits_for_others_is_not_slow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with wire_world({**SETTINGS, "group.initial.rebalance.delay.ms": "3000"}) as world:
        join = jg.JoinGroupRequest(
            "g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[jg.JoinGroupRequestProtocol("range", b"")],
        )
        began = trio.current_time()
        with capture_logs() as captured:
            answer = await world.connect().call("JoinGroup", 2, join)
        assert answer.error_code == 0
        assert trio.current_time() - began >= 3
        assert not slow(captured)


@pytest.mark.parametrize("threshold", ["-1", "60000"])
async def test_the_setting_turns_it_off(
    threshold: str, autojump_clock: trio.testing.MockClock
) -> None:
    store = Store()
    async with wire_world({"slow.request.log.ms": threshold}, store=store) as world:
        await world.create_topic("t", 1)
        store.put_seconds = 5.0
        with capture_logs() as captured:
            await world.connect().produce("t", 0, records_batch(b"a"))
        assert not slow(captured)


def test_lines_are_bounded_and_tell_how_many_are_left_out() -> None:
    requests = SlowRequests(0.5)
    peer = Peer("10.0.0.1", 5000, "SSL", client_id="c" * 5_000, principal="User:" + "p" * 5_000)
    with capture_logs() as captured:
        for number in range(1_000):
            requests.note(ApiKey.FETCH, peer, 0.7, {}, 10 + number / 1_001)
        assert len(captured) == MAX_LINES
        requests.note(ApiKey.FETCH, peer, 0.7, {}, 11.0)
        requests.note(ApiKey.FETCH, peer, 0.7, {}, 11.1)
    *_, last, after = captured
    assert last["left_out"] == 1_000 - MAX_LINES
    assert "left_out" not in after
    assert len(str(last)) < 600
    assert last["principal"].startswith("User:p")
    assert requests.counts == {ApiKey.FETCH: 1_002}
