"""The round trip with a kafka-python of years ago: ADDRESS RECORDS, one line per check.

It runs with Debian's 2.0.2 and with 1.4.7.  Both ask with Fetch v4 and have no fetch sessions.
2.0.2 also has zstd, and reads zstd records with Fetch v4, too.  Record i goes to partition i mod
12, so its offset must be i div 12, and key and value can be computed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

# The copy of six in these releases cannot be imported from Python 3.12 on.
six: Any = import_module("six")
sys.modules["kafka.vendor.six"] = six
sys.modules["kafka.vendor.six.moves"] = six.moves

# Compare types by name: these are of another kafka-python than that of the checks.
kafka: Any = import_module("kafka")
admin: Any = import_module("kafka.admin")
TopicPartition: Any = import_module("kafka.structs").TopicPartition

PARTITIONS = 12
EXTRA = 10 * PARTITIONS
OLD_CODECS = (None, "gzip", "snappy", "lz4")
CODECS = (*OLD_CODECS, "zstd") if kafka.__version__ >= "2" else OLD_CODECS
PATIENCE_SECONDS = 60.0


class Wrong(Exception):
    """A difference from what Kafka would do; its message says which."""


def key(i: int) -> bytes:
    """The key of record i."""
    return b"key-%d" % i


def value(i: int) -> bytes:
    """The value of record i."""
    return b"%d-%s" % (i, b"tide" * (20 + i % 10))


class Run:
    """The steps of the round trip, in order."""

    def __init__(self, address: str, wanted: int) -> None:
        self.address = address
        self.topic = f"old-kafka-python-{time.time_ns()}"
        self.group = f"{self.topic}-group"
        self.records = wanted - wanted % (2 * PARTITIONS)
        self.middle_millis = 0

    def create(self) -> None:
        """Make the topic."""
        client = admin.KafkaAdminClient(bootstrap_servers=self.address)
        client.create_topics([admin.NewTopic(self.topic, PARTITIONS, 1)])
        client.close()

    def first_half(self) -> None:
        """Send with all codecs in turn."""
        self._produce(0, self.records // 2)
        time.sleep(0.05)  # so that no record of either half has this very millisecond
        self.middle_millis = time.time_ns() // 1_000_000
        time.sleep(0.05)

    def second_half(self) -> None:
        """Send the other half, with a batch of every codec in each partition."""
        self._produce(self.records // 2, self.records)

    def _produce(self, first: int, last: int) -> None:
        for number, codec in enumerate(CODECS):
            mine = range(
                first + (last - first) * number // len(CODECS),
                first + (last - first) * (number + 1) // len(CODECS),
            )
            producer = kafka.KafkaProducer(
                bootstrap_servers=self.address,
                compression_type=codec,
                acks="all",
                linger_ms=20,
                retries=5,  # Kafka's new topic is not everywhere at once
            )
            sent = [
                (i, producer.send(self.topic, value(i), key(i), partition=i % PARTITIONS))
                for i in mine
            ]
            for i, future in sent:
                place = future.get(PATIENCE_SECONDS)
                if place.offset != i // PARTITIONS:
                    raise Wrong(f"{codec}: record {i} lies at offset {place.offset}")
            producer.close()

    def _member(self) -> Any:
        return kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.address,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def read_as_a_group(self) -> None:
        """Two members read everything once, and commit."""
        self._read_by(2, 0, self.records)

    def resume(self) -> None:
        """New records, and only those, go to the next member."""
        self._produce(self.records, self.records + EXTRA)
        self._read_by(1, self.records, self.records + EXTRA)

    def _read_by(self, members: int, first: int, last: int) -> None:
        """Each member has a thread, since a member that joins waits until all others join again."""
        found = set[int]()
        deadline = time.monotonic() + PATIENCE_SECONDS

        def read() -> None:
            consumer = self._member()
            while len(found) < last - first and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=100).values():
                    found.update(self._number(record, first, last) for record in records)
                consumer.commit()
            consumer.close(autocommit=False)

        with ThreadPoolExecutor(members) as threads:
            for member in [threads.submit(read) for _ in range(members)]:
                member.result()
        if len(found) < last - first:
            raise Wrong(f"{last - first - len(found)} records are missing")

    def _number(self, record: Any, first: int, last: int) -> int:
        i: int = record.offset * PARTITIONS + record.partition
        if not first <= i < last or (record.key, record.value) != (key(i), value(i)):
            raise Wrong(f"partition {record.partition}, offset {record.offset}: not record {i}")
        return i

    def committed(self) -> None:
        """The group's offsets stand at the end."""
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.address, group_id=self.group)
        for partition in range(PARTITIONS):
            found = consumer.committed(TopicPartition(self.topic, partition))
            if found != self.records // PARTITIONS:
                raise Wrong(f"partition {partition}: {found} is committed")
        consumer.close()

    def seek(self) -> None:
        """A search for the time between the halves finds where the second half begins."""
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.address)
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        found = consumer.offsets_for_times(dict.fromkeys(places, self.middle_millis))
        consumer.close()
        wrong = {place: at for place, at in found.items() if at.offset != self._middle}
        if wrong:
            raise Wrong(f"asked for the middle: {wrong}, not {self._middle}")

    @property
    def _middle(self) -> int:
        return self.records // 2 // PARTITIONS


def main() -> int:
    """Run all steps; 1 at the first that fails."""
    run = Run(sys.argv[1], int(sys.argv[2]))
    steps: list[tuple[str, Callable[[], None]]] = [
        ("create a topic with 12 partitions", run.create),
        ("produce the first half with every codec", run.first_half),
        ("produce the second half", run.second_half),
        ("two members of a group read all", run.read_as_a_group),
        ("the group's offsets stand at the end", run.committed),
        ("a new member resumes where the group stopped", run.resume),
        ("seek by time", run.seek),
    ]
    for name, step in steps:
        try:
            step()
        except Exception as error:  # an error of the client, or Wrong
            print(f"FAILED {name}: {error!r}", flush=True)
            return 1
        print(f"ok {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
