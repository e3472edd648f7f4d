"""A topic that clients know by another id than objects and events, in all APIs with topic ids.

Only mirrored topics of other tenants will have two ids, so the tests give the topic `orders` two.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    wire_world,
)
from tidegate_coordination.events.cluster import TopicCreated
from tidegate_coordination.state.topics import TopicTable
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import describe_topic_partitions as dp
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of

SHOWN = b"shown as this id"
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture(autouse=True)
def other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show clients the topic `orders` with another id."""
    fold = TopicTable.fold_created

    def fold_shown(self: TopicTable, event: TopicCreated, numbers: list[int], *_: object) -> None:
        fold(self, event, numbers, "", SHOWN if event.name == "orders" else b"")

    monkeypatch.setattr(TopicTable, "fold_created", fold_shown)


async def orders(world: WireWorld) -> tuple[WireClient, bytes]:
    """Return a client, and the stored id of the topic."""
    stored = await world.create_topic("orders", 1)
    await world.create_topic("others", 1)
    return world.connect(), stored


async def test_metadata_has_the_shown_id() -> None:
    async with wire_world() as world:
        client, stored = await orders(world)
        asked = [md.MetadataRequestTopic(SHOWN, None), md.MetadataRequestTopic(stored, None)]
        answer = await client.call("Metadata", 13, md.MetadataRequest(asked))
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("orders", SHOWN, 0),
            (None, stored, UNKNOWN),
        ]
        everything = await client.call("Metadata", 13, md.MetadataRequest(None))
        assert {each.name: each.topic_id == SHOWN for each in everything.topics} == {
            "orders": True,
            "others": False,
        }
        request = dp.DescribeTopicPartitionsRequest([dp.TopicRequest("orders")])
        described = await client.call("DescribeTopicPartitions", 0, request)
        assert described.topics[0].topic_id == SHOWN


def fetch_request(topic_id: bytes) -> fe.FetchRequest:
    asked = fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fe.FetchTopic(topic_id=topic_id, partitions=[asked])]
    return fe.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics)


async def test_records_go_by_the_shown_id() -> None:
    async with wire_world() as world:
        client, stored = await orders(world)
        for topic_id, code in ((SHOWN, 0), (stored, UNKNOWN), (SHOWN, 0)):
            request = produce_request([("", 0, records_batch(b"x"))], topic_id=topic_id)
            [topic] = (await client.call("Produce", 13, request)).responses
            found = topic.partition_responses[0].error_code
            assert (topic.topic_id, found) == (topic_id, code)
            [topic] = (await client.call("Fetch", 13, fetch_request(topic_id))).responses
            found = topic.partitions[0].error_code
            assert (topic.topic_id, found) == (topic_id, code)
            assert bool(topic.partitions[0].records) == (not code)


def commit_request(topic_id: bytes) -> oc.OffsetCommitRequest:
    row = oc.OffsetCommitRequestPartition(0, 7)
    return oc.OffsetCommitRequest(
        "readers", topics=[oc.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[row])]
    )


async def fetched(client: WireClient, topics: list[Any] | None) -> list[tuple[bytes, int, int]]:
    wanted = of.OffsetFetchRequestGroup("readers", topics=topics)
    answer = await client.call("OffsetFetch", 10, of.OffsetFetchRequest(groups=[wanted]))
    return [
        (each.topic_id, part.committed_offset, part.error_code)
        for each in answer.groups[0].topics
        for part in each.partitions
    ]


async def test_offsets_go_by_the_shown_id() -> None:
    async with wire_world() as world:
        client, stored = await orders(world)
        for topic_id, code in ((SHOWN, 0), (stored, UNKNOWN)):
            answer = await client.call("OffsetCommit", 10, commit_request(topic_id))
            assert answer.topics[0].topic_id == topic_id
            assert answer.topics[0].partitions[0].error_code == code
        asked = [
            of.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
            for each in (SHOWN, stored)
        ]
        assert await fetched(client, asked) == [(SHOWN, 7, 0), (stored, -1, UNKNOWN)]
        assert await fetched(client, None) == [(SHOWN, 7, 0)]


async def test_a_topic_is_deleted_by_the_shown_id() -> None:
    async with wire_world() as world:
        client, stored = await orders(world)
        for topic_id, name, code in ((stored, None, UNKNOWN), (SHOWN, "orders", 0)):
            request = dt.DeleteTopicsRequest([dt.DeleteTopicState(None, topic_id)])
            [row] = (await client.call("DeleteTopics", 6, request)).responses
            assert (row.name, row.topic_id, row.error_code) == (name, topic_id, code)
