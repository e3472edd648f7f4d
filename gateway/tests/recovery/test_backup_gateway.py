"""Gateways around a backup: the schedule, a lost log, the old log's gateways after a restore."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, WireWorld, records_batch, wire_world
from tidegate_coordination.backup.recovery import recover_from_copies
from tidegate_coordination.backup.restore import (
    RestoreReport,
    Work,
    look_at_target,
    restore,
)
from tidegate_coordination.log.metadata_log import LogMisconfigured, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.admin.admin_pages import status_of
from tidegate_gateway.upkeep.backup_schedule import BackupSchedule
from tidegate_storage.objects.ownership import TimelineOver, open_timeline, read_owner
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreMisconfigured


def say(text: str) -> None:
    """Drop the text."""


async def work_on(store: MemoryObjectStore, log: MemoryLog) -> Work:
    owner = await read_owner(store)
    assert owner is not None
    return Work(store, owner, log, Random(3), lambda: NOW_MS / 1000, say, "0")


async def restored(store: MemoryObjectStore, log: MemoryLog) -> RestoreReport:
    work = await work_on(store, log)
    recovered = await recover_from_copies(store, work.owner, say)
    return await restore(work, recovered, await look_at_target(log))


def ends_with(kind: type[Exception], text: str) -> pytest.RaisesGroup[Exception]:
    """Expect that a gateway's nursery ends with one such error."""
    return pytest.RaisesGroup(pytest.RaisesExc(kind, match=text), flatten_subgroups=True)


async def start(
    store: MemoryObjectStore, log: MemoryLog, settings: dict[str, str] | None = None
) -> None:
    async with wire_world(settings, store=store, log=log):
        raise AssertionError("it started")


async def produce(world: WireWorld, topic: str, *values: bytes, first: int = -1) -> None:
    """Produce one batch for each value, as producer 7 if `first` is a sequence."""
    client = world.connect()
    for place, value in enumerate(values):
        header = (
            {"producer_id": 7, "producer_epoch": 0, "base_sequence": first + place}
            if first >= 0
            else {}
        )
        answer = await client.produce(topic, 0, records_batch(value, **header))
        assert answer.error_code == 0, answer


async def test_a_log_is_lost_and_restored_under_its_clients(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    async with wire_world(store=store, log=MemoryLog()) as world:
        await world.create_topic("t", 1)
        await produce(world, "t", b"0", b"1", first=0)
        await world.gateway.keepers.backup.copy_once()
        await produce(world, "t", b"2", b"3", first=2)
        await produce(world, "t", b"plain")
        await world.create_topic("young", 1)
        await produce(world, "young", b"x")
    new_log = MemoryLog()
    report = await restored(store, new_log)
    assert report.salvage.records == 3
    assert [each.records for each in report.salvage.unplaced] == [1]
    async with wire_world(store=store, log=new_log) as world:
        values = await world.connect().fetch_values("t", 0, 0)
        assert values == [b"0", b"1", b"2", b"3", b"plain"]
        await produce(world, "t", b"3", first=3)  # its retry is a duplicate
        await produce(world, "t", b"4", first=4)
        assert await world.connect().fetch_values("t", 0, 3) == [b"3", b"plain", b"4"]
        assert world.gateway.coordinator.state.producer_ids.next_id > 1 << 30


async def test_copies_are_made_on_schedule_and_shown(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    async with wire_world({"log.backup.interval.ms": "60000"}, store=store) as world:
        await world.create_topic("t", 1)
        assert world.gateway.keepers.backup.status.time_ms == 0
        await trio.sleep(61)
        status = status_of(world.gateway)["backup"]
        assert isinstance(status, dict)
        assert status["position"] > 1
        assert status["time_ms"] == NOW_MS + 60_000
        assert status["failures"] == 0
        _, metrics = await _metrics(world)
        assert "tidegate_backup_position" in metrics
    assert any("/backup/entries/" in each.key for each in await store.list(""))


async def _metrics(world: WireWorld) -> tuple[int, str]:
    from tidegate_gateway.admin.metrics import render_metrics

    return 200, (await render_metrics(world.gateway)).decode()


async def test_no_copies_where_they_are_off(autojump_clock: MockClock) -> None:
    store = MemoryObjectStore()
    async with wire_world({"log.backup.interval.ms": "0"}, store=store):
        await trio.sleep(300)
    assert not [each.key for each in await store.list("") if "/backup/" in each.key]


async def test_a_gateway_of_the_old_log_deletes_nothing_and_stops(
    autojump_clock: MockClock,
) -> None:
    """In the old log retention made objects dead that the restored log still needs."""
    store, log = MemoryObjectStore(), MemoryLog()
    settings = {
        "object.delete.grace.ms": "0",
        "log.backup.interval.ms": "10000000",
        "housekeeping.interval.ms": "100000",
    }

    async def live() -> None:
        async with wire_world(settings, store=store, log=log) as world:
            await world.create_topic("t", 1, retention_bytes="1")
            await produce(world, "t", b"a", b"b", b"c")
            await world.gateway.keepers.backup.copy_once()
            assert (await restored(store, MemoryLog())).timeline == 2
            before = {each.key for each in await store.list("")}
            with pytest.raises(TimelineOver):
                await world.gateway.keepers.housekeeper.keep_house_once()
            assert world.gateway.coordinator.state.objects.dead  # there was something to delete
            assert before.issubset([each.key for each in await store.list("")])
            await trio.sleep(1000)
            raise AssertionError("the gateway went on")

    with ends_with(TimelineOver, "timeline 2 owns this prefix"):
        await live()


async def test_a_gateway_of_the_old_log_is_refused_at_its_start(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=log) as world:
        await world.gateway.keepers.backup.copy_once()
    await restored(store, MemoryLog())
    entries = await log.read(1, 1 << 20)
    assert not isinstance(entries, Trimmed)
    with ends_with(TimelineOver, "timeline 2 owns this prefix"):
        await start(store, log)
    assert await log.read(1, 1 << 20) == entries


async def test_an_empty_log_beside_a_clusters_objects_is_refused(
    autojump_clock: MockClock,
) -> None:
    """The start fails even if the settings name the cluster, since the log was lost."""
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store):
        pass
    before = await store.list("")
    with ends_with(StoreMisconfigured, "the metadata log is empty"):
        await start(store, log, {"cluster.id": "cluster-of-tests"})
    assert await log.read(1, 1) == []
    assert await store.list("") == before


async def test_a_half_restored_log_is_refused(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=MemoryLog()) as world:
        await world.create_topic("t", 1)
        await produce(world, "t", b"a")
        await world.gateway.keepers.backup.copy_once()
        await produce(world, "t", b"b")
    work = await work_on(store, log)
    recovered = await recover_from_copies(store, work.owner, say)
    with trio.CancelScope() as scope:

        def cut_short(text: str) -> None:
            if "gateways' lives" in text:
                scope.cancel()

        cut = Work(store, work.owner, log, Random(3), lambda: NOW_MS / 1000, cut_short, "0")
        await restore(cut, recovered, await look_at_target(log))
    assert scope.cancelled_caught
    with ends_with(LogMisconfigured, "was cut short"):
        await start(store, log)
    report = await restore(work, None, await look_at_target(log))
    assert report.continued
    async with wire_world(store=store, log=log) as world:
        assert await world.connect().fetch_values("t", 0, 0) == [b"a", b"b"]


async def test_a_restore_that_another_restore_overtook_is_refused(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=MemoryLog()) as world:
        await world.gateway.keepers.backup.copy_once()
    await restored(store, log)
    owner = await read_owner(store)
    assert owner is not None
    assert await open_timeline(store, owner, above=0, opened_by="0", nonce="n") == 3
    with ends_with(TimelineOver, "timeline 3 owns"):
        await start(store, log)


async def test_each_gateway_learns_what_is_copied_though_the_other_is_always_faster(
    autojump_clock: MockClock,
) -> None:
    """Any gateway's housekeeper may delete superseded objects, not only that of the copier."""
    store, log = MemoryObjectStore(), MemoryLog()
    async with wire_world({"log.backup.interval.ms": "0"}, store=store, log=log) as world:
        state = world.gateway.coordinator.state
        first, second = (
            BackupSchedule(
                state,
                log,
                store,
                interval_seconds=60,
                check_seconds=60,
                snapshot_entries=1000,
                wall_clock=lambda: NOW_MS / 1000,
            )
            for _ in range(2)
        )
        assert world.gateway.keepers.backup.copied_log_time_ms == inf
        await world.create_topic("t", 1)
        lags: list[float] = []
        for _ in range(6):
            for schedule in (first, second):
                await trio.sleep(60)
                await produce(world, "t", b"a")
                await schedule.copy_once()
                assert schedule.copied_log_time_ms <= state.log_time_ms
                lags.append(state.log_time_ms - schedule.copied_log_time_ms)
        assert max(lags[4:]) <= 240_000
