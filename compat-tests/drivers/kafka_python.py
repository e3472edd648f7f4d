"""kafka-python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drivers.records import Got, Sent

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka as kafka  # also for tests that need no driver
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import CommitFailedError, RebalanceInProgressError
    from kafka.structs import OffsetAndMetadata

READ_SECONDS = 60.0
# Longer than any rebalance here.  If a poll of kafka-python 3.0.12 times out while the member
# joins, the client sometimes drops the assignment that arrives before the next poll.  Its log then
# shows the SyncGroup answer, and a member that holds no partition, sends no heartbeat and never
# joins again.
POLL_MS = 3000


class KafkaPython:
    """See records.Client."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _consumer(self, group: str | None) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )

    def create_topic(self, topic: str, partitions: int) -> None:
        """See Client."""
        with KafkaAdminClient(bootstrap_servers=self._bootstrap) as admin:
            new = {topic: {"num_partitions": partitions, "replication_factor": 1}}
            admin.create_topics(new, wait_for_metadata=True)

    def produce(self, topic: str, records: Sequence[Sent], codec: str) -> list[int]:
        """See Client."""
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    each.value,
                    key=each.key,
                    partition=each.partition,
                    timestamp_ms=each.timestamp_ms,
                )
                for each in records
            ]
            return [future.get(timeout=READ_SECONDS).offset for future in futures]
        finally:
            producer.close()

    def read(self, topic: str, starts: Mapping[int, int], count: int) -> list[Got]:
        """See Client."""
        consumer = self._consumer(None)
        try:
            consumer.assign([TopicPartition(topic, each) for each in starts])
            for partition, offset in starts.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            got: list[Got] = []
            deadline = time.monotonic() + READ_SECONDS
            while len(got) < count and time.monotonic() < deadline:
                got += _got(consumer.poll(timeout_ms=200, max_records=5000))
            return got
        finally:
            consumer.close()

    def offsets_for_time(
        self, topic: str, partitions: Iterable[int], timestamp_ms: int
    ) -> dict[int, int | None]:
        """See Client."""
        consumer = self._consumer(None)
        try:
            asked = {TopicPartition(topic, each): timestamp_ms for each in partitions}
            answers = consumer.offsets_for_times(asked)
            return {
                place.partition: None if found is None else found.offset
                for place, found in answers.items()
            }
        finally:
            consumer.close()

    def committed(self, topic: str, group: str, partitions: Iterable[int]) -> dict[int, int]:
        """See Client."""
        consumer = self._consumer(group)
        try:
            return {
                each: consumer.committed(TopicPartition(topic, each)) or 0 for each in partitions
            }
        finally:
            consumer.close()

    def member(self, topic: str, group: str) -> KafkaPythonMember:
        """See Client."""
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        return KafkaPythonMember(consumer)


class KafkaPythonMember:
    """See records.Member."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._read_to: dict[Any, int] = {}

    def poll(self) -> list[Got]:
        """See Member."""
        polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=500)
        self._read_to = {place: records[-1].offset + 1 for place, records in polled.items()}
        return _got(polled)

    def assignment(self) -> set[int]:
        """See Member."""
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> bool:
        """See Member."""
        offsets = {
            place: OffsetAndMetadata(offset, "", -1) for place, offset in self._read_to.items()
        }
        try:
            self._consumer.commit(offsets)
        except (CommitFailedError, RebalanceInProgressError):
            return False
        return True

    def close(self) -> None:
        """See Member."""
        self._consumer.close(autocommit=False)


def _got(polled: Any) -> list[Got]:
    return [
        Got(place.partition, each.offset, each.key, each.value, each.timestamp)
        for place, records in polled.items()
        for each in records
    ]
