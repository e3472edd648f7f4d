"""Settings in the log that only an earlier release accepted do no harm."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.upkeep.test_housekeeper import log_start, write
from tests.worlds.wire_client import WireWorld, records_batch, wire_world
from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.rules.proposal import TOPICS, Decided, View
from tidegate_protocol.messages import incremental_alter_configs as wire
from tidegate_storage.stores.memory_store import MemoryObjectStore

SCOPE = frozenset({TOPICS})
INVALID_REQUEST = 42


@dataclass(frozen=True)
class SetAnyway:
    """A proposal that sets values which only an earlier release accepted."""

    event: ConfigsSet
    reads: frozenset[str] = SCOPE
    writes: frozenset[str] = SCOPE

    def decide(self, _: View) -> Decided[None]:
        return Decided((self.event,), None)


async def set_anyway(world: WireWorld, kind: ResourceType, name: str, **configs: str) -> None:
    texts = {key.replace("_", "."): text for key, text in configs.items()}
    event = ConfigsSet(kind.value, name, texts)
    await world.gateway.coordinator.propose(SetAnyway(event))


async def alter_defaults(world: WireWorld, name: str, text: str) -> int:
    rows = [wire.AlterableConfig(name, 0, text)]
    resource = wire.AlterConfigsResource(ResourceType.BROKER.value, "", rows)
    request = wire.IncrementalAlterConfigsRequest([resource])
    [answer] = (await world.connect().call("IncrementalAlterConfigs", 1, request)).responses
    code: int = answer.error_code
    return code


async def test_any_negative_retention_of_gateways_is_no_limit(autojump_clock: MockClock) -> None:
    """This is as in Kafka.

    An earlier release accepted -2, after which every request for a topic's settings failed.
    """
    store, log = MemoryObjectStore(), MemoryLog()
    settings = {"log.message.timestamp.type": "LogAppendTime"}
    async with wire_world(settings, store=store, log=log) as world:
        await world.create_topic("t", 1)
        assert await alter_defaults(world, "log.retention.ms", "-2") == 0
        assert await alter_defaults(world, "log.retention.ms", "0") == INVALID_REQUEST
        await write(world, "t", 3)
        await trio.sleep(61)
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert log_start(world, "t") == 0
    async with wire_world(settings, store=store, log=log) as world:
        await write(world, "t", 1)
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert log_start(world, "t") == 0


@pytest.mark.parametrize("text", ["", "soon", "-3", "99999999999999999999"])
async def test_a_wrong_stored_setting_costs_only_its_topic_and_removes_nothing(
    autojump_clock: MockClock, text: str
) -> None:
    async with wire_world({"log.message.timestamp.type": "LogAppendTime"}) as world:
        for name in ("bad", "good"):
            await world.create_topic(name, 1, retention_ms="30000")
        await set_anyway(
            world, ResourceType.TOPIC, "bad", retention_ms=text, message_timestamp_type=text
        )
        for name in ("bad", "good"):
            await write(world, name, 2)
        await trio.sleep(61)
        with capture_logs() as logs:
            for _ in range(2):
                await world.gateway.keepers.housekeeper.keep_house_once()
        assert [log_start(world, name) for name in ("bad", "good")] == [0, 2]
        assert not [each for each in logs if each["log_level"] == "error"]


async def test_a_wrong_stored_value_is_logged_once(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        for name in ("one", "two"):
            await world.create_topic(name, 1)
        with capture_logs() as logs:
            await set_anyway(world, ResourceType.TOPIC, "one", retention_bytes="x" * 5000)
            await set_anyway(world, ResourceType.BROKER, "", log_retention_ms="soon")
            for name in ("one", "two", "one"):
                await write(world, name, 1)
            await set_anyway(world, ResourceType.BROKER, "7", log_retention_ms="5")
            await write(world, "one", 1)
        told = [each for each in logs if "cannot be used" in each["event"]]
        assert sorted((each["config"], each["where"]) for each in told) == [
            ("log.retention.ms", "gateways"),
            ("retention.bytes", "topic one"),
        ]
        assert all(len(each["value"]) <= 100 for each in told)


async def test_append_time_survives_a_wrong_default(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1, message_timestamp_type="LogAppendTime")
        await set_anyway(
            world,
            ResourceType.BROKER,
            "",
            log_retention_ms="0",
            message_max_bytes="-9",
            log_message_timestamp_type="never",
            producer_id_expiration_ms="never",
        )
        answer = await world.connect().produce("t", 0, records_batch(b"x"))
        assert answer.error_code == 0
        assert answer.log_append_time_ms > 0
