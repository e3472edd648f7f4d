"""A client whose topics have no retention settings, and a client that sets cluster defaults.

The first client asks any gateway, at the end, for the settings in force; settings_checks.py judges
removals.  The second client sets allowed and forbidden values for all gateways.  A gateway must
refuse a wrong value, and an odd value must harm no client.  None of the values lets a gateway
remove records.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_configs, incremental_alter_configs, produce

from ..checks.keyed import Keyed
from ..invariants.settings_checks import TOPICS
from ..plans.settings_plan import BRIEF, LAG, RETENTION
from .client import Client, Disconnected
from .workload import Workload, batch_bytes, create_topic

_TOPIC, _BROKER, _SET, _DELETE = 2, 4, 0, 1
_SHOWN: Final = {RETENTION: "retention.ms", LAG: "min.compaction.lag.ms"}
_PRODUCE_VERSION: Final = 9
_HEALED_SECONDS: Final = 15.0
_HUNG_SECONDS: Final = 45.0
"""If a gateway's read of the log hangs when faults end, it shows old settings for 30 s more."""
_KEYS: Final = Keyed(2, 0)
_GOOD: Final = (
    ("log.retention.ms", "-2"),
    ("log.retention.ms", "-9223372036854775808"),
    ("log.retention.ms", "9223372036854775807"),
    ("log.cleaner.min.compaction.lag.ms", "9223372036854775807"),
    ("log.cleaner.delete.retention.ms", "9223372036854775807"),
    ("log.segment.bytes", "2147483647"),
    ("log.retention.bytes", "-9223372036854775808"),
)
_BAD: Final = (
    ("log.retention.ms", "0"),
    ("log.retention.ms", "soon"),
    ("log.retention.ms", "9223372036854775808"),
    ("log.cleanup.policy", "burn"),
    ("log.cleaner.min.cleanable.ratio", "nan"),
    ("log.segment.bytes", "1"),
    ("log.message.timestamp.type", "never"),
    ("no.such.config", "1"),
)
_REFUSED: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)


class StaticKeeper:
    """The client whose topics have no retention settings."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._written = 0

    async def run(self) -> None:
        """Write until no operation is left and faults are over; then check the shown settings."""
        for topic, setting in TOPICS.items():
            await create_topic(
                self.client, topic, 1, {"cleanup.policy": "compact"} if setting == LAG else {}
            )
        while self._workload.take():
            for topic in TOPICS:
                await self._write(topic)
            await self.client.pause(4.0)
        while not self.client.world.healed:
            await self.client.pause(2.0)
        known_by = trio.current_time() + _HUNG_SECONDS
        await trio.sleep(_HEALED_SECONDS)
        for topic, setting in TOPICS.items():
            while await self._is_wrong(topic, setting, is_last=trio.current_time() >= known_by):
                await self.client.pause(2.0)
        self.client.close()

    async def _write(self, topic: str) -> None:
        """Send a record; its outcome does not matter here."""
        self._written += 1
        now_ms = int(self.client.world.wall_clock() * 1000)
        batch = batch_bytes([self._written], now_ms, sequence=-1, keyed=_KEYS)
        data = produce.PartitionProduceData(0, batch)
        topics = [produce.TopicProduceData(topic, partition_data=[data])]
        request = produce.ProduceRequest(None, -1, 30_000, topics)
        try:
            await self.client.call("Produce", produce, _PRODUCE_VERSION, request)
        except Disconnected:
            await self.client.pause(1.0)

    async def _is_wrong(self, topic: str, setting: str, *, is_last: bool) -> bool:
        """Return whether a gateway shows other settings than those in force, and is asked again.

        is_last: report wrong settings as a violation.
        """
        name = _SHOWN[setting]
        resource = describe_configs.DescribeConfigsResource(_TOPIC, topic, [name])
        request = describe_configs.DescribeConfigsRequest([resource])
        while True:
            keepers = self.client.world.settings_watch.careful(setting)
            try:
                answer = await self.client.call("DescribeConfigs", describe_configs, 4, request)
                break
            except Disconnected:
                await self.client.pause(1.0)
        [row] = answer.results[0].configs
        is_wrong = bool(keepers) and row.value == BRIEF[setting]
        if is_wrong and is_last:
            text = f"{name} of {topic} is shown as {row.value}, and gateways {keepers} keep all"
            self.client.world.complain("wrong settings shown", text)
        return is_wrong and not is_last


class DefaultsChanger:
    """The client that sets cluster defaults."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload

    async def run(self) -> None:
        """Set defaults until no operation is left; then reset them, or keep them."""
        rng = self.client.rng
        while self._workload.take():
            await self._change(*rng.choice(_GOOD), is_good=True)
            await self.client.pause(6.0)
            await self._change(*rng.choice(_BAD), is_good=False)
            await self.client.pause(6.0)
            if rng.random() < 0.7:
                for name in sorted({name for name, _ in _GOOD}):
                    await self._change(name, None, is_good=True)
                await self.client.pause(20.0)
        self.client.close()

    async def _change(self, name: str, value: str | None, *, is_good: bool) -> None:
        operation = _DELETE if value is None else _SET
        row = incremental_alter_configs.AlterableConfig(name, operation, value)
        resource = incremental_alter_configs.AlterConfigsResource(_BROKER, "", [row])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        try:
            response = await self.client.call(
                "IncrementalAlterConfigs", incremental_alter_configs, 1, request
            )
        except Disconnected:
            await self.client.pause(1.0)
            return
        code = ErrorCode(response.responses[0].error_code)
        allowed = (ErrorCode.NONE,) if is_good else _REFUSED
        if code not in (*allowed, ErrorCode.REQUEST_TIMED_OUT):
            self.client.world.complain("false answer", f"{name}={value} for all: {code.name}")
