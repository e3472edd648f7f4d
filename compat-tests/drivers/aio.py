"""aiokafka, in an event loop of its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError, IllegalStateError, RebalanceInProgressError
from aiokafka.structs import TopicPartition

from drivers.records import Got, Sent

READ_SECONDS = 60.0
Result = TypeVar("Result")


class Loop:
    """An asyncio event loop in a thread, for callers that wait."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what the coroutine returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * READ_SECONDS)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Aiokafka:
    """See records.Client."""

    def __init__(self, bootstrap: str, loop: Loop) -> None:
        self._bootstrap = bootstrap
        self._loop = loop

    def create_topic(self, topic: str, partitions: int) -> None:
        """See Client."""

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, partitions, 1)])
            finally:
                await admin.close()

        self._loop.run(create())

    def produce(self, topic: str, records: Sequence[Sent], codec: str) -> list[int]:
        """See Client."""
        return self._loop.run(self._produce(topic, records, codec))

    async def _produce(self, topic: str, records: Sequence[Sent], codec: str) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            linger_ms=5,
        )
        await producer.start()
        try:
            futures: list[Awaitable[Any]] = []
            for each in records:
                future = await producer.send(
                    topic,
                    each.value,
                    key=each.key,
                    partition=each.partition,
                    timestamp_ms=each.timestamp_ms,
                )
                futures.append(future)
            return [answer.offset for answer in await asyncio.gather(*futures)]
        finally:
            await producer.stop()

    async def _with_consumer(
        self, group: str | None, use: Callable[[Any], Coroutine[Any, Any, Result]]
    ) -> Result:
        consumer = self._consumer(group)
        await consumer.start()
        try:
            return await use(consumer)
        finally:
            await consumer.stop()

    def _consumer(self, group: str | None) -> Any:
        return AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=10_000,
        )

    def read(self, topic: str, starts: Mapping[int, int], count: int) -> list[Got]:
        """See Client."""

        async def read(consumer: Any) -> list[Got]:
            consumer.assign([TopicPartition(topic, each) for each in starts])
            for partition, offset in starts.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            got: list[Got] = []
            deadline = asyncio.get_running_loop().time() + READ_SECONDS
            while len(got) < count and asyncio.get_running_loop().time() < deadline:
                got += _got(await consumer.getmany(timeout_ms=200))
            return got

        return self._loop.run(self._with_consumer(None, read))

    def offsets_for_time(
        self, topic: str, partitions: Iterable[int], timestamp_ms: int
    ) -> dict[int, int | None]:
        """See Client."""

        async def ask(consumer: Any) -> dict[int, int | None]:
            asked = {TopicPartition(topic, each): timestamp_ms for each in partitions}
            answers = await consumer.offsets_for_times(asked)
            return {
                place.partition: None if found is None else found.offset
                for place, found in answers.items()
            }

        return self._loop.run(self._with_consumer(None, ask))

    def committed(self, topic: str, group: str, partitions: Iterable[int]) -> dict[int, int]:
        """See Client."""

        async def ask(consumer: Any) -> dict[int, int]:
            places = [TopicPartition(topic, each) for each in partitions]
            consumer.assign(places)
            return {each.partition: await consumer.committed(each) or 0 for each in places}

        return self._loop.run(self._with_consumer(group, ask))

    def member(self, topic: str, group: str) -> AiokafkaMember:
        """See Client."""

        async def join() -> Any:
            consumer = self._consumer(group)
            consumer.subscribe([topic])
            await consumer.start()
            return consumer

        return AiokafkaMember(self._loop.run(join()), self._loop)


class AiokafkaMember:
    """See records.Member."""

    def __init__(self, consumer: Any, loop: Loop) -> None:
        self._consumer = consumer
        self._loop = loop
        self._read_to: dict[TopicPartition, int] = {}

    def poll(self) -> list[Got]:
        """See Member."""
        polled = self._loop.run(self._consumer.getmany(timeout_ms=200, max_records=500))
        self._read_to = {place: records[-1].offset + 1 for place, records in polled.items()}
        return _got(polled)

    def assignment(self) -> set[int]:
        """See Member."""
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> bool:
        """See Member."""
        try:
            self._loop.run(self._consumer.commit(self._read_to))
        except (CommitFailedError, RebalanceInProgressError, IllegalStateError):
            return False
        return True

    def close(self) -> None:
        """See Member."""
        self._loop.run(self._consumer.stop())


def _got(polled: Any) -> list[Got]:
    return [
        Got(place.partition, each.offset, each.key, each.value, each.timestamp)
        for place, records in polled.items()
        for each in records
    ]
