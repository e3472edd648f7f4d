"""A client with a compacted topic: it toggles the cleanup policy while others use the topic."""

from __future__ import annotations

from typing import Final

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import incremental_alter_configs

from ..checks.keyed import Keyed
from .client import Client, Disconnected
from .workload import Workload, create_topic, own_retention

_TOPIC, _SET = 2, 0
_POLICIES: Final = ("compact", "compact", "compact,delete", "delete")


class Compacter:
    """A client that changes the cleanup policy of its own topic."""

    def __init__(self, workload: Workload, name: str, topic: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._topic = topic

    async def run(self) -> None:
        """Toggle the policy until no operation is left."""
        rng = self.client.rng
        configs = own_retention(self._workload.world) | {
            "cleanup.policy": rng.choice(_POLICIES),
            "delete.retention.ms": rng.choice(("0", "2000", "20000")),
            "min.cleanable.dirty.ratio": rng.choice(("0.0", "0.3", "0.5")),
            "min.compaction.lag.ms": rng.choice(("0", "0", "0", "3000")),
        }
        if rng.random() < 0.3:
            configs["max.compaction.lag.ms"] = "5000"
        keyed = Keyed(rng.choice((1, 3, 8)), rng.choice((0, 2, 5)))
        topic_id = await create_topic(self.client, self._topic, 2, configs)
        keys = self._workload.new_keys(self._topic, topic_id, range(2))
        for key in keys:
            self._workload.keyed[key.number] = keyed
            value = {"key": key.number, "keys": keyed.keys, "tombstones": keyed.tombstones}
            self._workload.world.history.note(self.client.name, "ok", "compacted", value)
        self._workload.keys += keys
        while self._workload.take():
            await self.client.pause(8.0)
            if rng.random() < 0.3:
                await self._change(rng.choice(_POLICIES))
        await self._change("compact")
        self.client.close()

    async def _change(self, policy: str) -> None:
        row = incremental_alter_configs.AlterableConfig("cleanup.policy", _SET, policy)
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
