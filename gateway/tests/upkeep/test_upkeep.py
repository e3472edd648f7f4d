"""A failing step of upkeep ends neither the gateway nor the other steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import WireWorld, records_batch, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, OffsetToCommit
from tidegate_coordination.rules.gateways import Register, Renew, TakeClaim
from tidegate_coordination.rules.housekeeping import plan_retention
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.admin.metrics import render_metrics
from tidegate_gateway.parts.keepers import housekeeper_settings
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.upkeep.housekeeper import Housekeeper
from tidegate_gateway.upkeep.upkeep import Upkeep
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable

GRACE = {"object.delete.grace.ms": "0"}
NOW = 1_700_000_000.0


async def fails(error: Exception) -> None:
    await trio.lowlevel.checkpoint()
    raise error


async def test_a_step_that_fails_is_counted_and_named() -> None:
    upkeep = Upkeep()
    with capture_logs() as lines:
        assert not await upkeep.attempt("mow", lambda: fails(StoreUnavailable("rain")), lawn="a")
        assert not await upkeep.attempt("mow", lambda: fails(KeyError("scythe")))
        assert await upkeep.attempt("mow", trio.lowlevel.checkpoint)
    assert upkeep.failures == {"mow": 2}
    assert [each["event"] for each in lines] == ["could not mow; trying again later"] * 2
    assert lines[0]["error"] == "rain"
    assert lines[0]["lawn"] == "a"
    assert isinstance(lines[1]["exc_info"], KeyError)


@pytest.mark.parametrize(
    "error", [GatewayFenced("x"), ReleaseTooOld("x"), StateBroken("x"), ValueError("harmless")]
)
async def test_upkeep_passes_on_a_stop_inside_an_exception_group(error: Exception) -> None:
    group = ExceptionGroup("several", [StoreUnavailable("x"), ExceptionGroup("more", [error])])
    upkeep = Upkeep()
    if isinstance(error, ValueError):
        assert not await upkeep.attempt("mow", lambda: fails(group))
    else:
        with pytest.raises(ExceptionGroup):
            await upkeep.attempt("mow", lambda: fails(group))


async def test_a_background_task_that_fails_is_started_again(autojump_clock: MockClock) -> None:
    upkeep, begun = Upkeep(), list[float]()

    async def run() -> None:
        begun.append(trio.current_time())
        await fails(RuntimeError("x"))

    with trio.move_on_after(4.5):
        await upkeep.keep_running("mow", run)
    assert len(begun) == 5
    assert upkeep.failures == {"mow": 5}


class Keeps(MemoryObjectStore):
    """A store that cannot delete the objects in `kept`, and fails a whole call that names one."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[str] = set()
        self.error: Exception = StoreMisconfigured("it is locked")

    async def delete_many(self, keys: Sequence[str]) -> None:
        if self.kept.intersection(keys):
            await fails(self.error)
        await super().delete_many(keys)


async def make_garbage(world: WireWorld, topic: str, count: int) -> None:
    await world.create_topic(topic, 1, retention_bytes="1")
    client = world.connect()
    for number in range(count):
        assert (await client.produce(topic, 0, records_batch(b"%d" % number))).error_code == 0


async def wal_keys(store: MemoryObjectStore) -> list[str]:
    return [each.key for each in await store.list("") if "/wal/" in each.key]


async def later(world: WireWorld) -> None:
    await trio.sleep(61)  # a renewal moves log time


@pytest.mark.parametrize("error", [StoreMisconfigured("locked"), KeyError("a bug")])
async def test_an_object_that_cannot_be_deleted_keeps_no_other(
    error: Exception, autojump_clock: MockClock
) -> None:
    store = Keeps()
    store.error = error
    quiet = GRACE | {"housekeeping.interval.ms": "100000000"}
    async with wire_world(quiet, store=store) as world:
        await make_garbage(world, "t", 12)
        keys = await wal_keys(store)
        store.kept = {keys[2]}
        with capture_logs():
            for _ in range(12):
                await world.gateway.keepers.housekeeper.keep_house_once()
                await later(world)
        # The last run is live: retention.bytes deletes the earlier ones.
        assert await wal_keys(store) == [keys[2], keys[-1]]
        assert world.gateway.upkeep.failures["delete objects"] >= 4
        text = (await render_metrics(world.gateway)).decode()
        assert 'tidegate_upkeep_failures_total{step="delete objects"}' in text


async def test_many_that_cannot_be_deleted_at_the_front_keep_no_other(
    autojump_clock: MockClock,
) -> None:
    store = Keeps()
    quiet = GRACE | {"housekeeping.interval.ms": "100000000"}
    async with wire_world(quiet, store=store) as world:
        await make_garbage(world, "t", 12)
        store.kept = set((await wal_keys(store))[:8])

        async def keep_house(rounds: int) -> None:
            with capture_logs():
                for _ in range(rounds):
                    await world.gateway.keepers.housekeeper.keep_house_once()
                    await later(world)

        await keep_house(8)
        await make_garbage(world, "u", 12)
        await keep_house(3)
        assert len(await wal_keys(store)) == 8 + 2  # one object of each topic is live


async def test_a_topic_whose_settings_cannot_be_read_keeps_no_other_and_no_gateway(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryObjectStore()
    async with wire_world(GRACE, store=store) as world:
        await make_garbage(world, "bad", 3)
        await make_garbage(world, "good", 3)
        real = world.gateway.cluster_settings.of

        def of(topic: Any) -> Any:
            if topic.name == "bad":
                raise ValueError("what it holds says nothing")
            return real(topic)

        monkeypatch.setattr(world.gateway.cluster_settings, "of", of)
        with capture_logs() as lines:
            await world.gateway.keepers.housekeeper.keep_house_once()
            await later(world)
            await world.gateway.keepers.housekeeper.keep_house_once()
        assert len(await wal_keys(store)) == 3 + 1
        assert {each["topic"] for each in lines if "topic" in each} == {"bad"}
        assert world.gateway.upkeep.failures["read a topic's retention settings"] >= 2


async def test_a_topic_whose_retention_cannot_be_planned_keeps_no_other(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryObjectStore()
    async with wire_world(GRACE, store=store) as world:
        await make_garbage(world, "bad", 3)
        await make_garbage(world, "good", 3)

        def plan(state: Any, settings_of: Any, topics: Any) -> list[tuple[int, int]]:
            if "bad" in [each.name for each in topics]:
                raise ZeroDivisionError("planted")
            return plan_retention(state, settings_of, topics)

        monkeypatch.setattr("tidegate_gateway.upkeep.housekeeper.plan_retention", plan)
        await world.gateway.keepers.housekeeper.keep_house_once()
        await later(world)
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert len(await wal_keys(store)) == 3 + 1


@pytest.mark.parametrize("step", ["_renew_once", "_tell_settings", "_expire_gateways"])
async def test_each_step_beside_the_lease_renewal_fails_alone(
    step: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: set[str] = set()
    async with wire_world() as world:
        for each in ("_renew_once", "_tell_settings", "_expire_gateways"):

            async def run(each: str = each) -> None:
                done.add(each)
                if each == step:
                    await fails(ZeroDivisionError("planted"))

            monkeypatch.setattr(world.gateway.keepers.housekeeper, each, run)
        await trio.sleep(11)
        assert len(done) == 3


@pytest.mark.parametrize("step", ["_cut", "_expire_producers", "_expire_offsets"])
async def test_a_step_of_a_round_that_fails_skips_no_other(
    step: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryObjectStore()
    async with wire_world(GRACE, store=store) as world:
        await make_garbage(world, "t", 3)
        await world.gateway.keepers.housekeeper._cut()
        await later(world)
        monkeypatch.setattr(
            world.gateway.keepers.housekeeper, step, lambda: fails(ZeroDivisionError("planted"))
        )
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert len(await wal_keys(store)) == 1
        assert sum(world.gateway.upkeep.failures.values()) == 1


OWN = Own(1, {"offsets.retention.minutes": str(20 * 60)})


class Expiring:
    """A coordinator whose clock the test moves, and a group with offsets in 50,000 partitions."""

    def __init__(self) -> None:
        self.topics = [bytes([number]) * 16 for number in range(5)]
        self.hours = 0
        self.coordinator = Coordinator(
            MemoryLog(), ClusterState(), rng=Random(1), wall_clock=lambda: NOW + 3600 * self.hours
        )

    async def fill(self) -> int:
        """Create topics, and commit all offsets; return the epoch of the group's claim."""
        coordinator = self.coordinator
        registered = await coordinator.propose(Register(1, "key", "az", (), "0", "c" * 22))
        assert isinstance(registered, int)
        coordinator.incarnation = registered
        epoch = await coordinator.propose(TakeClaim("group/g"))
        assert epoch is not None
        for topic_id in self.topics:
            await coordinator.propose(CreateTopics([NewTopic(topic_id, topic_id.hex(), 10_000)]))
            for first in range(0, 10_000, 5_000):
                await self.commit(epoch, topic_id, range(first, first + 5_000))
        return epoch

    async def commit(self, epoch: int, topic_id: bytes, partitions: Iterable[int]) -> None:
        offsets = tuple(OffsetToCommit(topic_id, each, 5, -1, "") for each in partitions)
        await self.coordinator.propose(CommitOffsets("g", epoch, -1, offsets))

    async def pass_hours(self, hours: int) -> None:
        """Let hours pass, with an entry each: an entry moves log time by one hour at most."""
        for _ in range(hours):
            self.hours += 1
            await self.coordinator.propose(Renew())

    def housekeeper(self) -> Housekeeper:
        async def is_copied(position: int) -> None:
            await trio.lowlevel.checkpoint()

        return Housekeeper(
            self.coordinator,
            MemoryLog(),
            MemoryObjectStore(),
            housekeeper_settings(BrokerSettings({})),
            cluster=ClusterSettings(self.coordinator.state, OWN),
            check_owner=trio.lowlevel.checkpoint,
            copied_log_time_ms=lambda: 0.0,
            see_copied=is_copied,
            is_cut_off=lambda: False,
            wall_clock=trio.current_time,
        )


async def test_offsets_that_do_not_fit_an_entry_expire_one_part_after_the_other(
    autojump_clock: MockClock,
) -> None:
    """One offset of the group stays, so that the group is not deleted as a whole."""
    world = Expiring()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.coordinator.run)
        epoch = await world.fill()
        await world.pass_hours(21)
        await world.commit(epoch, world.topics[0], [3])
        keeper = world.housekeeper()
        await keeper._expire_offsets()
        group = world.coordinator.state.groups.get("g")
        assert group is not None
        assert {key: list(each) for key, each in group.offsets.items()} == {world.topics[0]: [3]}
        nursery.cancel_scope.cancel()
