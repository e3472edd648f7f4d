"""Produce, Fetch and ListOffsets of the model, by a scripted client."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import Closed, batch_of, classic_world, fetching, raw_of
from tidegate_protocol.batches import TRANSACTIONAL, set_base_offset
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import produce as pr
from tidegate_simulation.classic.log.faults import raise_log_start
from tidegate_simulation.classic.rights import READ, TOPIC, TRANSACTIONAL_ID, WRITE, Denial

SOUND = batch_of(b"v")
DAMAGED = SOUND[:-1] + bytes([SOUND[-1] ^ 1])


async def test_what_is_produced_is_fetched(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        answers = [await client.produce("t", SOUND) for _ in range(2)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1)]
        found = await client.fetch("t", 1)
        assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 2, 0)
        stored = bytearray(SOUND)
        set_base_offset(stored, 0, base_offset=1, leader_epoch=0)
        assert raw_of(found) == stored
        assert await client.offset("t", -1) == (0, 2)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "batch", "code"),
    [
        ("no", 0, -1, SOUND, 3),
        ("t", 2, -1, SOUND, 3),
        ("t", 0, 5, SOUND, 21),
        ("t", 0, 1, DAMAGED, 2),
        ("t", 0, 1, b"", 87),
        ("t", 0, 1, batch_of(b"v", attributes=TRANSACTIONAL, producer_id=5, base_sequence=0), 53),
    ],
)
async def test_produce_errors(
    topic: str, partition: int, acks: int, batch: bytes, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        client = await world.client()
        answer = await client.produce(topic, batch, partition=partition, acks=acks)
        assert (answer.error_code, answer.base_offset) == (code, -1)


async def test_a_fence_is_seen_by_a_probe_that_writes_nothing(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        assert (await client.produce("t", DAMAGED)).error_code == 2
        assert await client.alter("t", "max.message.bytes", "0") == 0
        assert (await client.produce("t", DAMAGED)).error_code == 10
        assert (await client.produce("t", SOUND, acks=1)).error_code == 10
        assert await client.alter("t", "max.message.bytes", None, operation=1) == 0
        assert (await client.produce("t", SOUND)).base_offset == 0


def transactional(producer_id: int, sequence: int) -> pr.ProduceRequest:
    """A Produce of the transactional id "tx" to t-0."""
    raw = batch_of(
        b"v",
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = pr.TopicProduceData("t", partition_data=[pr.PartitionProduceData(0, raw)])
    return pr.ProduceRequest("tx", -1, 9000, [data])


@pytest.mark.parametrize(("version", "code"), [(11, 0), (12, 45)])
async def test_a_transaction_begins_with_sequence_0_since_version_12(
    version: int, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        client = await world.client()
        made = await client.call("InitProducerId", 4, ip.InitProducerIdRequest("tx", 60_000))
        topics = [ap.AddPartitionsToTxnTopic("t", [0])]
        request = ap.AddPartitionsToTxnRequest([], "tx", made.producer_id, 0, topics)
        await client.call("AddPartitionsToTxn", 3, request)
        response = await client.call("Produce", version, transactional(made.producer_id, 3))
        assert response.responses[0].partition_responses[0].error_code == code


async def test_a_torn_batch_fails_the_whole_request(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        request = producing(SOUND)
        torn = pr.PartitionProduceData(1, SOUND[:16] + b"\x03" + SOUND[17:])
        request.topic_data[0].partition_data.append(torn)
        [topic] = (await client.call("Produce", 11, request)).responses
        assert [each.error_code for each in topic.partition_responses] == [2, 2]


async def test_a_leader_may_append_what_it_checked_before_a_fence(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        writer, admin = await world.client(), await world.client()
        world.servers.append_pause = lambda: 5.0
        number = await writer.send("Produce", 11, producing(SOUND))
        await trio.sleep(1)
        await admin.alter("t", "max.message.bytes", "0")
        assert (await admin.produce("t", DAMAGED)).error_code == 10
        assert await admin.offset("t", -1, replica_id=-2) == (0, 0)
        response = await writer.receive("Produce", 11, number)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert await admin.offset("t", -1, replica_id=-2) == (0, 1)


def producing(batch: bytes, *, acks: int = -1, timeout_ms: int = 30_000) -> pr.ProduceRequest:
    """A Produce to t-0."""
    data = pr.TopicProduceData("t", partition_data=[pr.PartitionProduceData(0, batch)])
    return pr.ProduceRequest(None, acks, timeout_ms, [data])


async def test_acks_0_has_no_answer_and_closes_on_an_error(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        await client.send("Produce", 11, producing(SOUND, acks=0))
        assert await client.offset("t", -1) == (0, 1)
        number = await client.send("Produce", 11, producing(DAMAGED, acks=0))
        with pytest.raises(Closed):
            await client.receive("Produce", 11, number)


async def test_acks_all_waits_for_the_followers(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        world.cluster.partition("t", 0).replication_seconds = 2.0
        assert (await client.produce("t", SOUND, acks=1)).error_code == 0
        assert trio.current_time() < 1
        assert await client.offset("t", -1) == (0, 0)
        assert await client.offset("t", -1, replica_id=-2) == (0, 1)
        assert (await client.produce("t", SOUND)).base_offset == 1
        assert 2 <= trio.current_time() < 3
        world.cluster.hold_watermark("t", 0)
        answers = await client.call("Produce", 11, producing(SOUND, timeout_ms=4000))
        assert answers.responses[0].partition_responses[0].error_code == 7
        world.cluster.release_watermark("t", 0)
        assert await client.offset("t", -1) == (0, 3)


async def test_too_few_replicas(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        await client.alter("t", "min.insync.replicas", "2")
        world.cluster.set_isr("t", 0, [1])
        world.cluster.create_topic("lone", 1, configs={"min.insync.replicas": "2"})
        assert (await client.produce("lone", SOUND)).error_code == 0  # it has one replica
        assert (await client.produce("t", SOUND)).error_code == 19
        assert (await client.produce("t", SOUND, acks=1)).error_code == 0


async def test_a_long_poll_ends_when_there_is_enough(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        reader, writer = await world.client(), await world.client()
        request = fetching("t", 0, max_wait_ms=10_000, min_bytes=len(SOUND) + 1)
        number = await reader.send("Fetch", 12, request)
        await trio.sleep(2)
        await writer.produce("t", SOUND)
        await trio.sleep(2)
        await writer.produce("t", SOUND)
        response = await reader.receive("Fetch", 12, number)
        assert trio.current_time() == pytest.approx(4)
        assert len(response.responses[0].partitions[0].records) == 2 * len(SOUND)
        await reader.call("Fetch", 12, fetching("t", 2, max_wait_ms=5000))
        assert trio.current_time() == pytest.approx(9)


@pytest.mark.parametrize(
    ("fetch", "code"),
    [
        ({"offset": 9}, 1),
        ({"offset": 0}, 1),
        ({"offset": 2, "epoch": 0}, 74),
        ({"offset": 2, "epoch": 2}, 75),
        ({"offset": 2, "partition": 7}, 3),
        ({"offset": 2, "last_epoch": 9}, 1),
    ],
)
async def test_fetch_errors(fetch: dict[str, Any], code: int, autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        for _ in range(3):
            await client.produce("t", SOUND)
        raise_log_start(world.cluster.partition("t", 0).log, 1)
        world.cluster.move_leader("t", 0, 1)
        answer = await client.fetch("t", **fetch)
        assert (answer.error_code, answer.high_watermark) == (code, -1)


async def test_a_reader_learns_where_its_history_parts(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        for _ in range(4):
            await client.produce("t", SOUND)
        world.cluster.elect_unclean("t", 0, 1, 2)
        await client.produce("t", SOUND)
        answer = await client.fetch("t", 4, last_epoch=0)
        assert answer.diverging_epoch == fe.EpochEndOffset(0, 2)
        assert (await client.fetch("t", 3, last_epoch=1)).error_code == 0


async def test_only_replicas_answer(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2, 3)) as world:
        world.cluster.create_topic("narrow", 1, replication_factor=2)
        led, follower, stranger = [await world.client(each) for each in (1, 2, 3)]
        await led.produce("narrow", SOUND)
        codes = {
            each: [
                (await each.fetch("narrow", 0, version=version)).error_code for version in (10, 12)
            ]
            for each in (led, follower, stranger)
        }
        assert codes == {led: [0, 0], follower: [6, 0], stranger: [6, 6]}
        answer = await follower.produce("narrow", SOUND)
        assert answer.error_code == 6
        assert answer.current_leader == pr.LeaderIdAndEpoch(1, 0)
        assert await follower.offset("narrow", -1) == (6, -1)
        assert await follower.offset("narrow", -1, replica_id=-2) == (0, 1)


async def test_topics_by_id(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        old_id = world.cluster.topics["t"].topic_id
        await client.produce("", SOUND, version=13, topic_id=old_id)
        found = await client.fetch("", 0, version=13, topic_id=old_id)
        assert len(raw_of(found)) == len(SOUND)
        world.cluster.recreate_topic("t")
        assert (await client.fetch("", 0, version=13, topic_id=old_id)).error_code == 100
        assert (await client.produce("", SOUND, version=13, topic_id=old_id)).error_code == 100


async def test_a_session_notices_that_a_topic_was_made_again(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        topic_id = world.cluster.topics["t"].topic_id
        request = fetching("", 0, topic_id=topic_id, session_epoch=0)
        opened = await client.call("Fetch", 13, request)
        world.cluster.recreate_topic("t")
        more = fe.FetchRequest(session_id=opened.session_id, session_epoch=1, max_bytes=99)
        response = await client.call("Fetch", 13, more)
        assert response.responses[0].partitions[0].error_code == 103


async def test_sessions_send_only_news(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        request = fetching("t", 0, session_epoch=0)
        request.topics[0].partitions.append(fe.FetchPartition(1, partition_max_bytes=1 << 20))
        opened = await client.call("Fetch", 12, request)
        assert shown(opened) == [0, 1]
        assert opened.session_id > 0

        async def next_one(epoch: int, **more: Any) -> fe.FetchResponse:
            following = fe.FetchRequest(
                session_id=opened.session_id, session_epoch=epoch, max_bytes=999, **more
            )
            response: fe.FetchResponse = await client.call("Fetch", 12, following)
            return response

        assert shown(await next_one(1)) == []
        await client.produce("t", SOUND, partition=1)
        assert shown(await next_one(2)) == [1]
        assert shown(await next_one(3)) == [1]  # its fetch offset is unchanged
        forgotten = [fe.ForgottenTopic("t", partitions=[1])]
        assert shown(await next_one(4, forgotten_topics_data=forgotten)) == []
        assert (await next_one(4)).error_code == 71
        world.servers.forget_sessions(1)
        assert (await next_one(5)).error_code == 70


def shown(response: fe.FetchResponse) -> list[int]:
    """The partitions of an answer."""
    return [each.partition_index for topic in response.responses for each in topic.partitions]


async def test_bounds_let_one_batch_through(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        for partition in (0, 1):
            for _ in range(2):
                await client.produce("t", SOUND, partition=partition)
        request = fetching("t", 0, max_bytes=1)
        request.topics[0].partitions.append(fe.FetchPartition(1, partition_max_bytes=1 << 20))
        [topic] = (await client.call("Fetch", 12, request)).responses
        assert [len(each.records) for each in topic.partitions] == [len(SOUND), 0]
        cut = await client.fetch("t", 0, partition_bytes=len(SOUND) + 5)
        assert len(raw_of(cut)) == len(SOUND) + 5


async def test_rights(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        denied = world.cluster.rights.denied
        mine, link = await world.client(), await world.client(principal="User:link")
        denied.add(Denial(WRITE, TOPIC, "t", "User:ANONYMOUS"))
        assert (await mine.produce("t", SOUND)).error_code == 29
        assert (await link.produce("t", SOUND)).error_code == 0
        denied.add(Denial(READ, TOPIC))
        assert (await link.fetch("t", 0)).error_code == 29
        denied.add(Denial(WRITE, TRANSACTIONAL_ID, "tx"))
        answer = await mine.call("InitProducerId", 4, ip.InitProducerIdRequest("tx", 60_000))
        assert answer.error_code == 53


async def test_offsets_by_time_and_from_the_ends(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        await client.produce("t", batch_of(b"a", b"b", b"c"))
        start = world.servers.now_ms() - int(trio.current_time() * 1000)
        raise_log_start(world.cluster.partition("t", 0).log, 1)
        asked = [(-1, 7), (-2, 7), (-3, 7), (-4, 8), (start + 2, 7), (start + 9, 7), (-3, 6)]
        found = [await client.offset("t", time, version=version) for time, version in asked]
        assert found == [(0, 3), (0, 1), (0, 2), (0, 1), (0, 2), (0, -1), (35, -1)]


async def test_an_end_below_the_epochs_start_is_not_available(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        world.cluster.hold_watermark("t", 0)
        await client.produce("t", SOUND, acks=1)
        world.cluster.move_leader("t", 0, 1)
        codes = [(await client.offset("t", -1, version=each))[0] for each in (5, 4)]
        assert codes == [78, 5]
        assert await client.offset("t", -1, replica_id=-2) == (0, 1)
