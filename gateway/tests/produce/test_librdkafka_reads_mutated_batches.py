"""librdkafka reads the mutated batches that a gateway accepts as our decoder does."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import trio
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from mutated_batches.cases import PLAIN, TOPICS, cases, partitions_of
from mutated_batches.playing import SETTINGS
from mutated_batches.record_mutations import RARE
from transactions.differential.wire import Caller, Request, connect

from tests.produce.test_mutated_batches import ROOM, is_for_readers
from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tests.worlds.wire_client import NOW_MS
from tidegate_protocol.batches import read_header
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, decode_records

NOT_READ = {
    # librdkafka takes bit 3 for LogAppendTime, which records of version 2 no longer have.
    "record attributes 255",
    # The Python binding refuses to return such headers.
    "a header key that is not UTF-8",
    *RARE,
}

Row = tuple[int, int, bytes | None, bytes | None, tuple[Any, ...]]
Rows = dict[int, list[Row]]


def row_of(record: Record) -> Row:
    headers = tuple((key, value) for key, value in record.headers)
    return (record.offset, record.timestamp, record.key, record.value, headers)


def decoded(batch: bytes) -> list[Row]:
    return [row_of(each) for each in decode_records(batch, max_decompressed_bytes=ROOM)]


def row_read(message: Message) -> Row:
    offset, (_, timestamp) = message.offset(), message.timestamp()
    assert offset is not None
    return (offset, timestamp, message.key(), message.value(), tuple(message.headers() or ()))


def is_sent(batch: bytes) -> bool:
    """Return whether the test sends a batch: a transactional one would fail the whole request."""
    return is_for_readers(batch) and not read_header(batch).is_transactional


def batches() -> dict[int, bytes]:
    """Return the batches with an acceptable header, by partition."""
    chosen = (each for each in cases() if each.topic == PLAIN and not {*each.changes} & NOT_READ)
    built = {each.partition: each.draft(NOW_MS).built() for each in chosen}
    return {at: batch for at, batch in built.items() if batch and is_sent(batch)}


async def create(caller: Caller) -> None:
    configs = [ct.CreatableTopicConfig(key, value) for key, value in TOPICS[PLAIN].items()]
    topic = ct.CreatableTopic(PLAIN, partitions_of(PLAIN), 1, configs=configs)
    answer = await caller.call(Request("CreateTopics", 7, ct.CreateTopicsRequest([topic], 30_000)))
    assert answer.topics[0].error_code == 0


async def accepted(servers: str) -> Rows:
    """Produce all batches; return the records that our decoder reads from accepted batches."""
    caller = await connect(servers)
    await create(caller)
    sent = batches()
    data = [pr.PartitionProduceData(*each) for each in sent.items()]
    topic = pr.TopicProduceData(PLAIN, partition_data=data)
    answer = await caller.call(Request("Produce", 9, pr.ProduceRequest(None, -1, 30_000, [topic])))
    await caller.close()
    rows = answer.responses[0].partition_responses
    return {each.index: decoded(sent[each.index]) for each in rows if each.error_code == 0}


def read_by_librdkafka(servers: str, partitions: Collection[int]) -> Rows:
    """Read each partition to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: Rows = {each: [] for each in partitions}
    ended = set[int]()
    consumer.assign([TopicPartition(PLAIN, each, 0) for each in partitions])
    until = time.monotonic() + PATIENCE_SECONDS
    while ended < set(partitions) and time.monotonic() < until:
        for message in consumer.consume(len(found), 1.0):
            at, error = message.partition(), message.error()
            assert at is not None
            if error is None:
                found[at].append(row_read(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, f"partition {at}: {error}"
                ended.add(at)
    consumer.close()
    assert ended == set(partitions)
    return found


async def test_librdkafka_reads_what_is_accepted(tmp_path: Path) -> None:
    settings = [word for each in SETTINGS.items() for word in ("--set", "=".join(each))]
    ports = ("--port", "0", "--admin-port", "0")
    with serving("dev", "--memory", *ports, *settings, cwd=tmp_path) as process:
        expected = await accepted(process.servers)
        assert len(expected) > 400
        found = await trio.to_thread.run_sync(read_by_librdkafka, process.servers, expected)
        assert found == expected
