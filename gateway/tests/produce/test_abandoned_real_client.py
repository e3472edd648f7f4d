"""librdkafka with five batches in flight, whose first object is abandoned."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.worlds.app_world import PATIENCE_SECONDS

COUNT = 20
GATEWAY = """
import trio
from tidegate_coordination.state.records.producer_ids import ProducerIdTable
from tidegate_gateway.testing.child import main
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreUnavailable

put, lost = MemoryObjectStore.put, []

async def losing(self, key, body):
    if not lost and b"record-00" in bytes(body):
        lost.append(key)
    if key in lost:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("planted")
    await put(self, key, body)

MemoryObjectStore.put = losing
# The producer is older than what the log knows of producers.
ProducerIdTable.is_young = lambda self, producer_id: False
main()
"""


@contextmanager
def losing_gateway() -> Iterator[str]:
    """A gateway that abandons the first object of records; yields its address."""
    settings = ["wal.put.timeout.ms=1500"]
    with subprocess.Popen(
        [sys.executable, "-c", GATEWAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
        try:
            yield json.loads(process.stdout.readline())["bootstrap_servers"]
        finally:
            process.kill()


def test_no_record_is_lost_or_out_of_order_and_no_error_is_fatal() -> None:
    failed: list[str] = []
    fatal: list[str] = []

    def on_error(error: KafkaError) -> None:
        if error.fatal():
            fatal.append(str(error))

    with losing_gateway() as servers:
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "max.in.flight": 5,
                "batch.num.messages": 1,
                "linger.ms": 0,
                "error_cb": on_error,
            }
        )
        producer.produce("t", b"connects", partition=1)
        assert producer.flush(PATIENCE_SECONDS) == 0
        for number in range(COUNT):
            producer.produce(
                "t",
                b"record-%02d" % number,
                partition=0,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
            producer.poll(0.05)  # so that each record has its own object
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert not fatal
        assert not failed
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        messages = consumer.consume(COUNT, PATIENCE_SECONDS)
        values = [each.value() for each in messages]
        assert values == [b"record-%02d" % number for number in range(COUNT)]
        consumer.close()
