"""Clients that change topics under load: more partitions, other configs, a short retention."""

from __future__ import annotations

from typing import Any

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_partitions, incremental_alter_configs

from .client import Client, Disconnected
from .readers import ask_low
from .workload import Workload, create_topic, own_retention

_TOPIC = 2
_SET = 0


class Grower:
    """Adds partitions to a topic; clients use each partition once its creation is acknowledged."""

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Grow the topic a few times."""
        for _ in range(3):
            await self.client.pause(10.0)
            if not self._workload.take():
                break
            await self._grow()
        self.client.close()

    async def _grow(self) -> None:
        keys = [key for key in self._workload.keys if key.topic == self._topic]
        count = len(keys) + 1
        wanted = create_partitions.CreatePartitionsTopic(self._topic, count, None)
        request = create_partitions.CreatePartitionsRequest([wanted], 30_000)
        may_be_done = False
        while True:
            try:
                response = await self.client.call("CreatePartitions", create_partitions, 3, request)
            except Disconnected:
                may_be_done = True
                await self.client.pause(1.0)
                continue
            break
        code = ErrorCode(response.results[0].error_code)
        if code != ErrorCode.NONE and not (may_be_done and code == ErrorCode.INVALID_PARTITIONS):
            self._workload.world.complain("false error", f"CreatePartitions: {code.name}")
            return
        self._workload.keys += self._workload.new_keys(self._topic, keys[0].topic_id, [count - 1])


class ConfigChanger:
    """Creates a topic, and changes its configs while other clients use it."""

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Change configs until no operation is left."""
        configs = own_retention(self._workload.world)
        topic_id = await create_topic(self.client, self._topic, 1, configs)
        keys = self._workload.new_keys(self._topic, topic_id, [0])
        self._workload.append_time.update(key.number for key in keys)
        self._workload.keys += keys
        while self._workload.take():
            await self._change()
            await self.client.pause(6.0)
        self.client.close()

    async def _change(self) -> None:
        rng = self.client.rng
        name, value = rng.choice(
            (
                ("message.timestamp.type", "LogAppendTime"),
                ("message.timestamp.type", "CreateTime"),
                ("max.message.bytes", "300"),
                ("max.message.bytes", "1048588"),
                ("compression.type", "producer"),
            )
        )
        row = incremental_alter_configs.AlterableConfig(name, _SET, value)
        resource = incremental_alter_configs.AlterConfigsResource(_TOPIC, self._topic, [row])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        try:
            response = await self.client.call(
                "IncrementalAlterConfigs", incremental_alter_configs, 1, request
            )
        except Disconnected:
            await self.client.pause(1.0)
            return
        code = ErrorCode(response.responses[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            self._workload.world.complain("false error", f"IncrementalAlterConfigs: {code.name}")


class Retainer:
    """Creates a topic with a short retention, and watches its log start."""

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Ask for log starts until no operation is left."""
        limits = self.client.rng.choice(((8_000, -1), (16_000, -1), (-1, 600)))
        configs: dict[str, Any] = {
            "retention.ms": str(limits[0]),
            "retention.bytes": str(limits[1]),
        }
        topic_id = await create_topic(self.client, self._topic, 1, configs)
        keys = self._workload.new_keys(self._topic, topic_id, [0])
        value = {"key": keys[0].number, "ms": limits[0], "bytes": limits[1]}
        self._workload.world.history.note(self.client.name, "ok", "retention", value)
        self._workload.keys += keys
        while self._workload.take():
            await ask_low(self.client, keys[0])
            await self.client.pause(4.0)
        self.client.close()
