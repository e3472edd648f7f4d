"""The requests of a transactional client, as tests send them over the wire."""

from __future__ import annotations

from typing import Any

from tests.worlds.wire_client import WireClient, WireWorld, records_batch
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import walk

COMMITTED = 1
T = "t"
Producer = tuple[int, int]


async def init(client: WireClient, name: str = "x", version: int = 5) -> Producer:
    answer = await client.call("InitProducerId", version, ip.InitProducerIdRequest(name, 60_000))
    assert answer.error_code == E.NONE
    return answer.producer_id, answer.producer_epoch


async def write(
    client: WireClient,
    topic_id: bytes,
    producer: Producer,
    sequence: int,
    *,
    partition: int = 0,
    version: int = 13,
    name: str | None = "x",
    topic_name: str = T,
) -> int:
    """Write one record; return the error code."""
    data = records_batch(
        b"v%d" % sequence,
        attributes=TRANSACTIONAL,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    parts = [pr.PartitionProduceData(partition, data)]
    topic = pr.TopicProduceData(topic_name, topic_id if version >= 13 else bytes(16), parts)
    answer = await client.call("Produce", version, pr.ProduceRequest(name, -1, 30_000, [topic]))
    return int(answer.responses[0].partition_responses[0].error_code)


async def end(
    client: WireClient, producer: Producer, *, committed: bool = True, version: int = 5
) -> Any:
    request = et.EndTxnRequest("x", *producer, committed)
    return await client.call("EndTxn", version, request)


async def fetch(
    client: WireClient, offset: int, *, isolation: int, wait_ms: int = 0, size: int = 1 << 20
) -> Any:
    asked = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=size)
    request = fe.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[fe.FetchTopic(topic=T, partitions=[asked])],
    )
    answer = await client.call("Fetch", 12, request)
    [found] = answer.responses[0].partitions
    return found


def offsets_of(found: Any) -> list[int]:
    data = memoryview(found.records or b"")
    return [header.base_offset for _, header in walk(data)]


async def end_offset(client: WireClient, isolation: int) -> int:
    part = lo.ListOffsetsPartition(0, -1, -1)
    request = lo.ListOffsetsRequest(-1, isolation, [lo.ListOffsetsTopic(T, [part])])
    answer = await client.call("ListOffsets", 5, request)
    return int(answer.topics[0].partitions[0].offset)


async def started(world: WireWorld) -> tuple[WireClient, bytes]:
    return world.connect(), await world.create_topic(T, 2)
