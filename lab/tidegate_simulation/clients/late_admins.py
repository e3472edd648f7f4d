"""Administrators that name topics, as real ones do, and change gateways after an unknown outcome.

Each administrates its topic alone, so it knows which changes its requests allow. late_checks.py
reports every other change.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from tidegate_gateway.topics.looks import LOOK_SECONDS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    create_topics,
    delete_records,
    delete_topics,
    incremental_alter_configs,
    produce,
)

from ..checks.late_checks import CREATE, DELETE
from .client import Client, Disconnected
from .workload import Workload, batch_bytes, create_topic

_TOPIC: Final = 2
_SET: Final = 0
_CONFIG: Final = "max.message.bytes"
_LEAST: Final = 1_048_588
_HIGH_WATERMARK: Final = -1
# A gateway works on a request for less time than this (decision 22), transport included.
_HASTE_SECONDS: Final = LOOK_SECONDS + 1.0
_EXPECTED: Final = {
    CREATE: (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS),
    DELETE: (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


class CleanClient(Client):
    """A client whose requests arrive before their time-out or never.

    Else a request by name could arrive at any later time, which no gateway can prevent.
    """

    async def call(
        self,
        name: str,
        messages: ModuleType,
        version: int,
        request: Any,
        *,
        node_id: int | None = None,
        timeout_seconds: float = 20.0,
    ) -> Any:
        """See Client."""
        try:
            return await super().call(
                name, messages, version, request, node_id=node_id, timeout_seconds=timeout_seconds
            )
        except Disconnected:
            for node in self.world.nodes.values():
                node.drop(self.name)
            raise


class ConfigSetter:
    """Two connections that set one config of a topic in turn, with or without an answer."""

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client: Client = CleanClient(workload.world, name)
        self._other = CleanClient(workload.world, f"{name} 2")
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Set the config until no operation is left."""
        await create_topic(self.client, self._topic, 1)
        value = _LEAST
        while self._workload.operations_left > 0:
            value += 1
            client = self.client.rng.choice((self.client, self._other))
            is_answered = await self._set(client, str(value))
            await self.client.pause(1.5 if is_answered else 0.3)
        self.client.close()
        self._other.close()

    async def _set(self, client: Client, value: str) -> bool:
        """Set the config once.

        Return False if no answer came; then the other connection continues soon.
        """
        row = incremental_alter_configs.AlterableConfig(_CONFIG, _SET, value)
        resource = incremental_alter_configs.AlterConfigsResource(_TOPIC, self._topic, [row])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        lateness = client.world.watch.lateness
        lateness.begins(self._topic, value)
        try:
            response = await client.call(
                "IncrementalAlterConfigs", incremental_alter_configs, 1, request
            )
        except Disconnected:
            return False
        code = ErrorCode(response.responses[0].error_code)
        if code == ErrorCode.NONE:
            lateness.acknowledged(self._topic)
        elif code != ErrorCode.REQUEST_TIMED_OUT:
            client.world.complain("false error", f"IncrementalAlterConfigs: {code.name}")
        return True


class Emptier:
    """Writes to a topic, and now and then deletes all of its records, whatever their offsets."""

    partitions = 1

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client: Client = CleanClient(workload.world, name)
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Write and delete until no operation is left."""
        # No retention: only requests may remove records.
        await create_topic(self.client, self._topic, self.partitions, {"retention.ms": "-1"})
        while self._workload.operations_left > 0:
            await self._write(self.client)
            if self.client.rng.random() < 0.5:
                await self._empty()
            await self.client.pause(1.0)
        self.client.close()

    async def _write(self, client: Client, timeout_seconds: float = 20.0) -> None:
        batch = batch_bytes(self._workload.values(1), 0, sequence=-1)
        parts = [
            produce.PartitionProduceData(index, memoryview(batch))
            for index in range(self.partitions)
        ]
        topic = produce.TopicProduceData(name=self._topic, partition_data=parts)
        request = produce.ProduceRequest(None, -1, 30_000, [topic])
        try:
            await client.call("Produce", produce, 9, request, timeout_seconds=timeout_seconds)
        except Disconnected:
            return

    async def _empty(self, timeout_seconds: float = 20.0) -> None:
        parts = [
            delete_records.DeleteRecordsPartition(index, _HIGH_WATERMARK)
            for index in range(self.partitions)
        ]
        request = delete_records.DeleteRecordsRequest(
            [delete_records.DeleteRecordsTopic(self._topic, parts)], 30_000
        )
        lateness = self.client.world.watch.lateness
        lateness.begins_to_empty(self._topic)
        ends = lateness.ends(self._topic)
        try:
            response = await self.client.call(
                "DeleteRecords", delete_records, 2, request, timeout_seconds=timeout_seconds
            )
            self._see_what_went(response, ends)
        except Disconnected:
            pass
        finally:
            lateness.emptied(self._topic)

    def _see_what_went(
        self, response: delete_records.DeleteRecordsResponse, ends: list[int]
    ) -> None:
        """If the answer reports success, check that the records before the request are gone."""
        starts = self.client.world.watch.lateness.log_starts(self._topic)
        for each in response.topics[0].partitions:
            index = each.partition_index
            if each.error_code == ErrorCode.NONE and starts[index] < ends[index]:
                text = f"{self._topic}-{index} begins at {starts[index]}, not at {ends[index]}"
                self.client.world.complain("not done", text)


class HastyEmptier(Emptier):
    """Waits for answers only briefly; then writes through any other gateway."""

    partitions = 3

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        super().__init__(workload, name, topic)
        self._writer = CleanClient(workload.world, f"{name} 2")

    async def run(self) -> None:
        """Write and delete until no operation is left."""
        await create_topic(self.client, self._topic, self.partitions, {"retention.ms": "-1"})
        while self._workload.operations_left > 0:
            for _ in range(self.client.rng.randint(1, 4)):
                await self._write(self._writer, _HASTE_SECONDS)
                self._writer.close()
                await self.client.pause(0.3)
            await self._empty(_HASTE_SECONDS)
            self.client.close()
        self.client.close()
        self._writer.close()


class Reliver:
    """Creates topics and deletes them, by name, again and again; writes no records to them.

    One request creates all of them, and one request deletes all of them.
    """

    def __init__(self, workload: Workload, name: str, topics: Sequence[str]) -> None:
        self.client: Client = CleanClient(workload.world, name)
        self._workload = workload
        self._topics = topics
        self._lateness = workload.world.watch.lateness

    async def run(self) -> None:
        """Create and delete until no operation is left."""
        while self._workload.operations_left > 0:
            await self._ask(CREATE)
            if self.client.rng.random() < 0.5:
                await self._ask(CREATE)  # clients also create topics that exist
            await self._ask(DELETE)
        self.client.close()

    async def _ask(self, what: str) -> None:
        """Ask until a gateway answers, even with a refusal."""
        name, messages, version, request = self._request(what)
        is_answered = False
        while not is_answered:
            for topic in self._topics:
                self._lateness.begins(topic, what)
            try:
                response = await self.client.call(name, messages, version, request)
            except Disconnected:
                await self.client.pause(0.3)
                continue
            rows = response.topics if what == CREATE else response.responses
            is_answered = all(each.error_code != ErrorCode.REQUEST_TIMED_OUT for each in rows)
            for row in rows:
                self._see_what_was_done(what, row.name, ErrorCode(row.error_code))
        for topic in self._topics:
            self._lateness.acknowledged(topic)
        self.client.close()  # so that the next request may go to another gateway
        await self.client.pause(1.0)

    def _see_what_was_done(self, what: str, topic: str, code: ErrorCode) -> None:
        """Check that the topic exists, or not, as this client asked.

        No other client administrates the topic.
        """
        if code == ErrorCode.REQUEST_TIMED_OUT:
            return
        if code not in _EXPECTED[what]:
            self.client.world.complain("false error", f"{what} {topic}: {code.name}")
        elif self._lateness.is_there(topic) != (what == CREATE):
            self.client.world.complain("not done", f"{what} {topic}: {code.name}")

    def _request(self, what: str) -> tuple[str, ModuleType, int, Any]:
        if what == CREATE:
            new = [create_topics.CreatableTopic(each, 1, 1) for each in self._topics]
            return "CreateTopics", create_topics, 7, create_topics.CreateTopicsRequest(new)
        wanted = [delete_topics.DeleteTopicState(name=each) for each in self._topics]
        return "DeleteTopics", delete_topics, 6, delete_topics.DeleteTopicsRequest(wanted)
