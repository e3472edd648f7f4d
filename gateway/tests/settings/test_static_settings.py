"""The static settings of gateways bind the pipeline and all housekeepers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.fetch.test_fetch_segments import AT_ONCE, driver_of
from tests.upkeep.test_housekeeper import log_start
from tests.upkeep.test_housekeeper import write as write_plain
from tests.worlds.compaction_world import keyed, read_all, work, write
from tests.worlds.fetch_world import World, fetch_world
from tests.worlds.wire_client import WireWorld, wire_world
from tidegate_coordination.events.metadata_versions import SETTINGS_TOLD
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.rules.gateways import Renew, TellSettings
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_gateway.admin.admin_pages import status_of
from tidegate_gateway.tools.doctor_log import check_settings
from tidegate_pipeline.driver import Driver
from tidegate_protocol.messages import describe_configs as wire
from tidegate_storage.stores.memory_store import MemoryObjectStore

WEEK = str(7 * 86_400_000)
HOUR = 3_600_000
APPEND = {"log.message.timestamp.type": "LogAppendTime"}
STATIC, DEFAULT = 4, 5


async def compact(world: World) -> Driver:
    """Merge and compact what is due, but do not let the gateway catch up."""
    async with driver_of(world, AT_ONCE) as driver:
        while await driver.run_once():
            pass
        await driver.compact_once()
    return driver


async def tell(world: World, **static: str) -> None:
    texts = {key.replace("_", "."): text for key, text in static.items()}
    await world.coordinator.propose(TellSettings(world.coordinator.incarnation, texts))


async def rewrite(world: World) -> None:
    await write(world, ("a", "1"), ("b", "2"), ("a", "3"))
    await write(world, ("c", "4"), ("b", None))


async def pass_hours(world: World, hours: int) -> None:
    for hour in range(hours):
        world.now_ms += HOUR
        await world.create(f"tick-{world.now_ms}-{hour}")


async def test_the_pipeline_keeps_what_a_static_lag_keeps() -> None:
    async with fetch_world() as [world]:
        await tell(world, log_cleaner_min_compaction_lag_ms=WEEK)
        await world.create("t", 1, cleanup_policy="compact")
        await rewrite(world)
        assert (await work(world)).counters.removed == 0
        assert len(await read_all(world)) == 5


async def test_the_pipeline_keeps_tombstones_as_long_as_a_static_setting_says() -> None:
    async with fetch_world() as [world]:
        await tell(world, log_cleaner_delete_retention_ms=WEEK)
        await world.create("t", 1, cleanup_policy="compact")
        await rewrite(world)
        await work(world)
        for key in ("d", "e"):  # later than the default retention of deletes, which is one day
            await pass_hours(world, 26)
            await write(world, (key, "x" * 4000))
            await work(world)
        assert (4, b"b", None) in await read_all(world)


async def test_the_pipeline_keeps_it_when_no_gateway_is_left() -> None:
    async with fetch_world() as [world]:
        await tell(world, log_cleaner_min_compaction_lag_ms=WEEK)
        await world.create("t", 1, cleanup_policy="compact")
        await rewrite(world)
        await world.coordinator.leave()
        assert (await compact(world)).counters.removed == 0


async def test_a_static_policy_is_that_of_the_pipeline() -> None:
    async with fetch_world() as [world]:
        await tell(world, log_cleanup_policy="compact")
        await world.create("t")
        await rewrite(world)
        assert (await work(world)).counters.removed == 2


async def test_of_gateways_that_disagree_the_careful_one_is_followed() -> None:
    async with fetch_world(gateways=2) as [one, two]:
        await tell(one)
        await tell(two, log_cleaner_min_compaction_lag_ms=WEEK)
        await one.create("t", 1, cleanup_policy="compact")
        await rewrite(one)
        with capture_logs() as logs:
            assert (await work(one)).counters.removed == 0
        told = [each for each in logs if each["event"].startswith("gateways were given different")]
        assert [each["setting"] for each in told] == ["log.cleaner.min.compaction.lag.ms"]
        assert told[0]["gateways"] == {"1": "0", "2": WEEK}


async def test_below_the_level_only_what_says_it_all_is_compacted() -> None:
    """An unknown static setting may forbid compaction of other topics.  Merges continue."""
    whole = {
        "cleanup_policy": "compact",
        "min_compaction_lag_ms": "0",
        "min_cleanable_dirty_ratio": "0",
        "delete_retention_ms": "60000",
    }
    async with fetch_world(level=SETTINGS_TOLD - 1) as [world]:
        await world.create("silent", 1, cleanup_policy="compact")
        await world.create("t", 1, **whole)
        await rewrite(world)
        batch = keyed(("a", "1"), ("a", "2"), now_ms=world.now_ms)
        for _ in range(2):
            await world.write(("silent", 0, batch))
        with capture_logs() as logs:
            driver = await work(world)
        assert (driver.counters.removed, driver.counters.compacted) == (2, 1)
        assert len(await read_all(world, name="silent")) == 4
        assert len(world.partition("silent").runs) == 1
        [told] = [each for each in logs if "are unknown" in each["event"]]
        assert told["gateways"] == [1]
        assert "tidegate.metadata.version to 3" in told["do"]


async def test_compaction_begins_once_the_level_is_set_and_all_gateways_wrote_their_settings() -> (
    None
):
    async with fetch_world(level=SETTINGS_TOLD - 1) as [world]:
        await world.create("t", 1, cleanup_policy="compact")
        await rewrite(world)
        assert (await work(world)).counters.removed == 0
        me = world.state.gateways.live[world.coordinator.incarnation]
        me.highest_version = SETTINGS_TOLD
        await world.coordinator.propose(Renew(SETTINGS_TOLD))
        assert await world.coordinator.propose(SetMetadataVersion(SETTINGS_TOLD)) == ""
        assert (await work(world)).counters.removed == 0
        await tell(world)
        assert (await work(world)).counters.removed == 2


async def described(world: WireWorld, kind: ResourceType, name: str) -> dict[str, tuple[str, int]]:
    resource = wire.DescribeConfigsResource(kind.value, name, None)
    request = wire.DescribeConfigsRequest([resource], include_synonyms=True)
    [answer] = (await world.connect().call("DescribeConfigs", 4, request)).results
    assert (answer.error_code, answer.error_message) == (0, "")
    return {each.name: (each.value, each.config_source) for each in answer.configs}


@asynccontextmanager
async def second_gateway(
    store: MemoryObjectStore, log: MemoryLog, start: float, retention_ms: str
) -> AsyncIterator[None]:
    """Run another gateway on the same log."""
    static = APPEND | {"log.retention.ms": retention_ms}
    async with wire_world(static, store=store, log=log, node_id=2, start=start, seed=2):
        yield


async def test_any_gateway_keeps_house_by_the_most_careful_setting(
    autojump_clock: MockClock,
) -> None:
    """log.retention.ms=1000 deletes nothing while, or after, another gateway has -1."""
    store, log, start = MemoryObjectStore(), MemoryLog(), trio.current_time()
    async with wire_world(APPEND | {"log.retention.ms": "1000"}, store=store, log=log) as brief:
        await brief.create_topic("t", 1)
        await brief.create_topic("own", 1, retention_ms="1000")
        for name in ("t", "own"):
            await write_plain(brief, name, 2)
        async with second_gateway(store, log, start, "-1"):
            await trio.sleep(61)
            await brief.gateway.keepers.housekeeper.keep_house_once()
            assert [log_start(brief, name) for name in ("t", "own")] == [0, 2]
        await trio.sleep(600)  # the other gateway's lease expires
        await brief.gateway.keepers.housekeeper.keep_house_once()
        assert len(brief.gateway.coordinator.state.gateways.live) == 1
        assert log_start(brief, "t") == 0
        topic = await described(brief, ResourceType.TOPIC, "t")
        assert topic["retention.ms"] == ("-1", STATIC)
        assert status_of(brief.gateway)["settings"] == {
            "differing": [
                {"name": "log.retention.ms", "values": {"1": "1000", "2": "-1"}, "holds": "-1"}
            ],
            "unknown": [],
        }
        found = check_settings(brief.gateway.coordinator.state, brief.gateway.settings)
        assert not found.ok
        assert "log.retention.ms: 1000 at 1, -1 at 2, so -1 holds" in found.advice
        own = await described(brief, ResourceType.BROKER, "1")
        assert own["log.retention.ms"] == ("-1", STATIC)
        async with second_gateway(store, log, start, "500"):
            await trio.sleep(61)
            await brief.gateway.keepers.housekeeper.keep_house_once()
            assert log_start(brief, "t") == 2


async def test_where_gateways_agree_theirs_is_shown_and_done(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    brief = APPEND | {"log.retention.ms": "1000"}
    async with wire_world(brief, store=store, log=log) as world:
        await world.create_topic("t", 1)
        await write_plain(world, "t", 2)
        assert check_settings(world.gateway.coordinator.state, world.gateway.settings).ok
        shown = await described(world, ResourceType.TOPIC, "t")
        assert shown["retention.ms"] == ("1000", STATIC)
        assert shown["segment.bytes"] == ("1073741824", DEFAULT)
        await trio.sleep(61)
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert log_start(world, "t") == 2


async def test_settings_that_a_snapshot_or_an_operator_dropped_are_written_again(
    autojump_clock: MockClock,
) -> None:
    async with wire_world({"log.retention.ms": "1000"}) as world:
        table = world.gateway.coordinator.state.static_settings
        assert table.by_node_id[1].settings == {"log.retention.ms": "1000"}
        del table.by_node_id[1]
        await trio.sleep(15)
        assert table.by_node_id[1].settings == {"log.retention.ms": "1000"}
