"""Large requests: other requests are served meanwhile, and their cost is bounded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import (
    Closed,
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_gateway.network import arenas, large_requests
from tidegate_gateway.network.large_requests import (
    FREED_A_TURN,
    LARGE_BODY_BYTES,
    LargeRequests,
    freed,
)
from tidegate_gateway.requests.records import fetch
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import describe_log_dirs as ld
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm

TOO_MUCH = ErrorCode.POLICY_VIOLATION


def many_names(count: int) -> md.MetadataRequest:
    topics = [md.MetadataRequestTopic(name=f"topic-{number}") for number in range(count)]
    return md.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def added(count: int) -> ap.AddPartitionsToTxnRequest:
    topics = [ap.AddPartitionsToTxnTopic("t", list(range(count)))]
    return ap.AddPartitionsToTxnRequest([], "x", 1, 0, topics)


def staged(count: int) -> tc.TxnOffsetCommitRequest:
    rows = [tc.TxnOffsetCommitRequestPartition(each, 5) for each in range(count)]
    return tc.TxnOffsetCommitRequest(
        "x", "g", 1, 0, topics=[tc.TxnOffsetCommitRequestTopic("t", rows)]
    )


async def rounds_while(client: WireClient, name: str, version: int, request: Any) -> int:
    """Return the number of rounds of the event loop until the answer."""
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await client.call(name, version, request)
        nursery.cancel_scope.cancel()
    return rounds


async def test_other_tasks_run_while_a_large_request_is_answered() -> None:
    async with wire_world() as world:
        client = world.connect()
        few = await rounds_while(client, "Metadata", 12, many_names(10))
        # Reading, looking up and writing take one turn each for a thousand names.
        assert await rounds_while(client, "Metadata", 12, many_names(20_000)) > few + 60


@pytest.mark.parametrize(
    ("name", "make", "rounds"),
    [("AddPartitionsToTxn", added, 850), ("TxnOffsetCommit", staged, 1_250)],
)
async def test_other_tasks_run_while_many_partitions_of_a_transaction_are_answered(
    name: str, make: Callable[[int], Any], rounds: int
) -> None:
    async with wire_world() as world:
        client = world.connect()
        few = await rounds_while(client, name, 3, make(10))
        # The partitions are read, looked up twice, since none exists, answered and written.
        assert await rounds_while(client, name, 3, make(19_000)) > few + rounds


async def test_another_client_is_answered_first() -> None:
    async with wire_world() as world:
        large, small, done = world.connect(), world.connect(), list[str]()

        async def ask(client: WireClient, name: str, version: int, request: Any) -> None:
            await client.call(name, version, request)
            done.append(name)

        await small.call("ApiVersions", 3, av.ApiVersionsRequest("test", "1"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, large, "Metadata", 12, many_names(20_000))
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(ask, small, "ApiVersions", 3, av.ApiVersionsRequest("test", "1"))
        assert done == ["ApiVersions", "Metadata"]


async def test_many_partitions_are_looked_at_in_turns_and_none_is_missed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LOOKED_AT_ONCE", 10_000)
    async with wire_world() as world:
        await world.create_topic("t", 9_000)
        asked = [fe.FetchPartition(each, fetch_offset=0) for each in range(9_000)]
        topics = [fe.FetchTopic(topic="t", partitions=asked)]
        request = fe.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics)
        reader = world.connect()
        few = await rounds_while(reader, "Fetch", 12, request)
        monkeypatch.setattr(fetch, "LOOKED_AT_ONCE", 100)
        assert await rounds_while(reader, "Fetch", 12, request) > few + 80
        request.max_wait_ms, request.min_bytes = 30_000, 1
        found: list[int] = []

        async def ask() -> None:
            answer = await reader.call("Fetch", 12, request)
            found.extend(
                each.partition_index for each in answer.responses[0].partitions if each.records
            )

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                for partition in (0, 8_999):
                    await world.connect().produce("t", partition, records_batch(b"x"))
        assert set(found) & {0, 8_999}


@pytest.mark.parametrize(
    ("name", "version", "request_"),
    [
        ("Metadata", 9, many_names(large_requests.MAX_ELEMENTS + 1)),
        (
            "OffsetFetch",
            6,
            of.OffsetFetchRequest(
                "g",
                [
                    of.OffsetFetchRequestTopic(f"t{number}", list(range(50_000)))
                    for number in range(2)
                ],
            ),
        ),
        (
            "JoinGroup",
            5,
            jg.JoinGroupRequest(
                "g",
                protocol_type="consumer",
                protocols=[jg.JoinGroupRequestProtocol(f"p{number}") for number in range(10_001)],
            ),
        ),
        ("WriteTxnMarkers", 1, wm.WriteTxnMarkersRequest([wm.WritableTxnMarker()] * 10_001)),
        ("AddPartitionsToTxn", 3, added(33_000)),
        ("TxnOffsetCommit", 3, staged(20_000)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_more_elements_than_a_request_may_have_close_its_connection(
    name: str, version: int, request_: Any
) -> None:
    async with wire_world() as world:
        with pytest.raises(Closed):
            await world.connect().call(name, version, request_)
        assert world.gateway.large_requests.elements == 0
        await world.connect().call("Metadata", 9, many_names(1_000))
        assert world.gateway.large_requests.elements == 0


async def test_a_small_request_is_not_counted() -> None:
    assert len(request_frame("Metadata", 9, many_names(1_000))) < LARGE_BODY_BYTES


# -- what one request makes ------------------------------------------------------------------------


async def test_one_request_creates_no_more_topics_than_one_may() -> None:
    async with wire_world({"num.partitions": "900"}) as world:
        request = many_names(15)
        request.allow_auto_topic_creation = True
        answer = await world.connect().call("Metadata", 9, request)
        codes = [each.error_code for each in answer.topics]
        assert codes == [0] * 11 + [TOO_MUCH] * 4
        assert len(world.gateway.coordinator.state.partitions) == 11 * 900
        again = await world.connect().call("Metadata", 9, request)
        # The bound is for each request.
        assert [each.error_code for each in again.topics] == [0] * 15


async def test_partitions_of_one_request_are_counted_over_all_its_proposals() -> None:
    async with wire_world() as world:
        client = world.connect()
        counts = [6_000, 3_000, 500, 600, 400]
        topics = [ct.CreatableTopic(f"t{at}", count, 1) for at, count in enumerate(counts)]
        answer = await client.call("CreateTopics", 5, ct.CreateTopicsRequest(topics, 1000))
        by_name = {each.name: each.error_code for each in answer.topics}
        assert [by_name[f"t{at}"] for at in range(5)] == [0, 0, 0, *[TOO_MUCH] * 2]
        assert len(world.gateway.coordinator.state.partitions) == 9_500


async def test_partitions_that_one_request_adds_are_counted_over_all_its_proposals() -> None:
    async with wire_world() as world:
        client = world.connect()
        names = [f"t{number}" for number in range(600)]
        for first in range(0, 600, 300):
            topics = [ct.CreatableTopic(each, 1, 1) for each in names[first : first + 300]]
            await client.call("CreateTopics", 5, ct.CreateTopicsRequest(topics, 1000))
        grown = [cp.CreatePartitionsTopic(each, 19, None) for each in names]
        answer = await client.call("CreatePartitions", 1, cp.CreatePartitionsRequest(grown))
        codes = [each.error_code for each in answer.results]
        assert codes == [0] * 555 + [TOO_MUCH] * 45  # each topic gets 18 more partitions
        assert len(world.gateway.coordinator.state.partitions) == 600 + 555 * 18


# -- memory ----------------------------------------------------------------------------------------


def begun_join(size_bytes: int) -> bytes:
    """Return a JoinGroup request without its last byte."""
    protocol = jg.JoinGroupRequestProtocol("p", bytes(size_bytes))
    request = jg.JoinGroupRequest("g", protocol_type="consumer", protocols=[protocol])
    return request_frame("JoinGroup", 5, request)[:-1]


async def heartbeat(world: WireWorld) -> int:
    request = hb.HeartbeatRequest("nobody", 1, "m")
    return int((await world.connect().call("Heartbeat", 0, request)).error_code)


async def test_large_frames_that_are_not_produce_wait_for_each_other_and_nothing_else_does(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        slow = [world.connect() for _ in range(5)]
        for each in slow[:4]:
            await each.send(begun_join(7 << 20))
        assert 28 << 20 < world.gateway.writes.pool.control_bytes < arenas.CONTROL_BYTES
        async with trio.open_nursery() as nursery:
            lazy = world.connect()
            await lazy.send(begun_join(70_000)[:-5_000])
            await trio.sleep(0.1)
            nursery.start_soon(slow[4].send, begun_join(7 << 20) + b"\0")
            await trio.sleep(30)
            await lazy.send((begun_join(70_000) + b"\0")[-5_001:])
            assert await lazy.receive()  # a slow small request was not delayed
            assert await heartbeat(world) == ErrorCode.UNKNOWN_MEMBER_ID
            await slow[0].send(b"\0")
            assert await slow[0].receive()
        assert await slow[4].receive()
        await trio.sleep(61)  # the other requests are not complete in time
        assert world.gateway.writes.pool.control_bytes == 0


async def test_stalled_frames_do_not_keep_others_from_memory(autojump_clock: MockClock) -> None:
    """Twelve clients declare 7 MiB each with a few bytes, and connect again when closed."""

    async def stall(world: WireWorld) -> None:
        while True:
            client = world.connect()
            with suppress(Closed):
                await client.send(begun_join(7 << 20)[:20])
                await client.receive()

    async with wire_world() as world, trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(stall, world)
        await trio.sleep(90)
        for _ in range(5):
            with trio.fail_after(20):
                client = world.connect()
                await client.send(begun_join(70_000) + b"\0")
                assert await client.receive()
        nursery.cancel_scope.cancel()


async def test_elements_of_all_requests_that_are_answered_are_bounded(
    autojump_clock: MockClock,
) -> None:
    large = LargeRequests()
    most = large_requests.MAX_ELEMENTS
    held = [large.reading() for _ in range(large_requests.MAX_ELEMENTS_AT_ONCE // most)]
    for each in held:
        await each.count(most)
    with pytest.raises(RemoteProtocolError, match="not answered in time"):
        await large.reading().count(1)
    late = large.reading()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late.count, 2)
        await trio.sleep(1)
        assert late.elements == 0
        held[0].release()
    assert large.elements == large_requests.MAX_ELEMENTS_AT_ONCE - most + 2


@pytest.mark.parametrize("name", ["JoinGroup", "OffsetCommit", "TxnOffsetCommit"])
async def test_group_members_do_not_wait_for_large_requests(
    autojump_clock: MockClock, name: str
) -> None:
    """Members send heartbeats only after these requests.

    If the requests waited, the group would remove the members.
    """
    partitions = [oc.OffsetCommitRequestPartition(each) for each in range(2_000)]
    commit = oc.OffsetCommitRequest(
        "g", topics=[oc.OffsetCommitRequestTopic("t", partitions=partitions)]
    )
    frames = {
        "JoinGroup": begun_join(70_000) + b"\0",
        "OffsetCommit": request_frame("OffsetCommit", 5, commit),
        "TxnOffsetCommit": request_frame("TxnOffsetCommit", 3, staged(2_000)),
    }
    async with wire_world() as world, trio.open_nursery() as nursery:
        large = world.gateway.large_requests
        for _ in range(3):
            await large.reading().count(80_000)
        metadata = request_frame("Metadata", 9, many_names(20_000))
        for _ in range(2):
            nursery.start_soon(world.connect().send, metadata)
        await trio.sleep(1)
        with trio.fail_after(1):
            client = world.connect()
            await client.send(frames[name])
            assert await client.receive()
        nursery.cancel_scope.cancel()


async def test_a_produce_request_of_too_many_batches_closes_its_connection() -> None:
    """A real producer sends at most one batch of each partition."""
    async with wire_world() as world:
        await world.create_topic("t", 5_000)
        batch = records_batch(b"a")
        many = [("t", number, batch) for number in range(5_000)]
        client = world.connect()
        answer = await client.call("Produce", 9, produce_request(many))
        answered = [each for topic in answer.responses for each in topic.partition_responses]
        assert [each.error_code for each in answered] == [0] * 5_000
        with pytest.raises(Closed):
            await client.call("Produce", 9, produce_request(many * 2))
        values = await world.connect().fetch_values("t", 0, 0)
        assert values == [b"a"]


async def test_the_rows_of_a_long_answer_are_dropped_in_turns() -> None:
    topics = [ld.DescribeLogDirsTopic(f"t{each}") for each in range(5 * FREED_A_TURN + 1)]
    short = [ld.DescribeLogDirsTopic("t", [ld.DescribeLogDirsPartition(0, 1)])]
    results = [
        ld.DescribeLogDirsResult(log_dir="a", topics=topics),
        ld.DescribeLogDirsResult(log_dir="b", topics=short),
    ]
    left: list[int] = []

    async def look() -> None:
        while not left or left[-1]:
            left.append(len(topics))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await freed(ld.DescribeLogDirsResponse(results=results))
    assert len(left) > 3
    assert (len(topics), len(short)) == (0, 1)
