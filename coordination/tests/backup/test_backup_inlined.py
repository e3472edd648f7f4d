"""Records whose bytes are in the log are copied with it, and restored to objects of the store."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from trio.testing import MockClock

from tests.worlds.backup_fuse import Blown, Fuse, FusedLog, FusedStore
from tests.worlds.backup_world import (
    CLUSTER,
    Writer,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    values,
    writers,
)
from tests.worlds.records.inlined_writer import begin, inline, move, store_moved
from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.backup.shelf import Shelf
from tidegate_coordination.log.inlined_bodies import first_needed_of
from tidegate_coordination.log.metadata_log import (
    LogEntry,
    LogMisconfigured,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_storage.stores.memory_store import MemoryObjectStore


async def save_snapshot(log: MemoryLog, writer: Writer) -> int:
    """Save a snapshot and trim, as a housekeeper does."""
    state = writer.coordinator.state
    taken = await encode_state(state)
    await save_verified(log, taken.position, taken.chunks)
    await trim_below_verified(log, needed_of=first_needed_of)
    return taken.position


async def first_copied(store: MemoryObjectStore) -> int:
    return min(each.first for each in (await Shelf(store, CLUSTER, 1).look()).entries)


async def test_bytes_in_the_log_become_objects_of_the_store(autojump_clock: MockClock) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t", "u")
        name = await inline(writer, ("t", batch_of(b"a", b"b")), ("u", batch_of(b"x")))
        await writer.write(("t", batch_of(b"c")))
        await inline(writer, ("t", batch_of(b"d")))
        await back_up(log, store)
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert not state.objects.inlined
    assert await values(state, store, "t") == dict(enumerate([b"a", b"b", b"c", b"d"]))
    assert await values(state, store, "u") == {0: b"x"}
    assert (report.lost_runs, report.cut_partitions, report.complaints) == (0, 0, [])
    assert report.salvage.objects == 0
    assert await store.get(object_key(state, name))


async def test_bytes_below_a_copied_snapshot_are_found_in_copied_entries(
    autojump_clock: MockClock,
) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1, snapshot_entries=2)
        await begin(writer, "t")
        await inline(writer, ("t", batch_of(b"a")))
        needed = writer.coordinator.state.position
        for number in range(12):
            await writer.create_topic(f"t{number}")
            if number % 3 == 0:
                await save_snapshot(log, writer)
            await copier.copy()
        assert await first_copied(store) <= needed
    await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a"}


async def test_a_move_while_a_snapshot_is_saved_loses_no_bytes(
    autojump_clock: MockClock,
) -> None:
    """The snapshot still has the batches as bytes of the log, and the copies hold no move yet."""
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")
        await Copier(log, store, CLUSTER, 1).copy()
        await inline(writer, ("t", batch_of(b"a")))
        await writer.create_topic("u")
        taken = await encode_state(writer.coordinator.state)
        await move(writer)
        await save_verified(log, taken.position, taken.chunks)
        await trim_below_verified(log, needed_of=first_needed_of)

        class EndsEarly(FaultyLog):
            async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
                found = await super().read(from_position, max_bytes)
                if isinstance(found, Trimmed):
                    return found
                return [each for each in found if each.position <= taken.position]

        await Copier(EndsEarly(log, LogFaults(), Random(0)), store, CLUSTER, 1).copy()
    await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a"}


async def test_a_snapshot_without_the_entries_that_it_needs_is_not_copied(
    autojump_clock: MockClock,
) -> None:
    """While the copier reads on to it, another gateway saves a newer one, and trims the log."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")
        old: list[int] = []

        class GrowsAndIsTrimmed(FaultyLog):
            async def load_snapshot(self) -> Snapshot | None:
                if old:
                    return await super().load_snapshot()
                await inline(writer, ("t", batch_of(b"a")))
                old.append(await save_snapshot(log, writer))
                found = await super().load_snapshot()
                await move(writer)
                await save_snapshot(log, writer)
                return found

        grows = GrowsAndIsTrimmed(log, LogFaults(), Random(0))
        await Copier(grows, store, CLUSTER, 1, snapshot_entries=1).copy()
        copies = await Shelf(store, CLUSTER, 1).look()
        assert [each.position > old[0] for each in copies.snapshots] == [True]


async def test_copied_entries_go_once_their_bytes_are_moved(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1, snapshot_entries=2)
        await begin(writer, "t")
        await inline(writer, ("t", batch_of(b"a")))
        await copier.copy()
        await move(writer)
        moved = writer.coordinator.state.position
        for number in range(12):
            await writer.create_topic(f"t{number}")
            if number % 3 == 0:
                await save_snapshot(log, writer)
            await copier.copy()
        assert await first_copied(store) > moved


async def test_entries_with_bytes_are_copied_although_a_snapshot_covers_them(
    autojump_clock: MockClock,
) -> None:
    """The log was trimmed beyond the last copy, and has older entries than its snapshot."""
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1)
        await copier.copy()
        await begin(writer, "t")
        await inline(writer, ("t", batch_of(b"a")))
        await writer.create_topic("u")
        position = await save_snapshot(log, writer)
        assert await log.read(1, 1)
        report = await copier.copy()
        assert (report.snapshot_position, report.position) == (position, position)
    await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a"}


async def test_entries_below_a_snapshot_saved_meanwhile_are_copied(
    autojump_clock: MockClock,
) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")

        class Grows(FaultyLog):
            async def load_snapshot(self) -> Snapshot | None:
                await inline(writer, ("t", batch_of(b"a")))
                await save_snapshot(log, writer)
                return await super().load_snapshot()

        grows = Grows(log, LogFaults(), Random(0))
        report = await Copier(grows, store, CLUSTER, 1, snapshot_entries=1).copy()
        assert report.snapshot_position == report.position == writer.coordinator.state.position
    await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a"}


async def test_bytes_that_no_copy_has_are_lost_and_reported(autojump_clock: MockClock) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")
        await writer.write(("t", batch_of(b"a")))
        await inline(writer, ("t", batch_of(b"b")))
        await writer.write(("t", batch_of(b"c")))
        await save_snapshot(log, writer)
        shelf = Shelf(store, CLUSTER, 1)
        snapshot = await log.load_snapshot()
        assert snapshot is not None
        await shelf.put_snapshot(snapshot)
    report = await restored(store, new_log)
    assert report.lost_runs == 1
    assert "those records are lost" in report.complaints[0]


@pytest.mark.parametrize("is_live", [True, False])
async def test_moved_batches_are_not_salvaged_a_second_time(
    is_live: bool, autojump_clock: MockClock
) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1, 2) as [first, second]:
        await begin(first, "t")
        await inline(first, ("t", batch_of(b"a")))
        await inline(second, ("t", batch_of(b"b")))
        if not is_live:
            await first.coordinator.leave()
            await second.coordinator.catch_up()
        await back_up(log, store)
        name = await move(second)
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == {0: b"a", 1: b"b"}
    assert report.salvage.records == 0
    assert name in [state.objects.name(number) for number in state.objects.dead]


async def test_moved_batches_that_the_restored_log_lacks_are_salvaged(
    autojump_clock: MockClock,
) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [first]:
        await begin(first, "t", "u")
        await inline(first, ("t", batch_of(b"a")), ("u", batch_of(b"x")))
        await back_up(log, store)
        await inline(first, ("u", batch_of(b"y")), ("t", batch_of(b"b")))
        async with writers(log, store, 2) as [second]:
            await inline(second, ("t", batch_of(b"c", b"d")))
            await store_moved(second)
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == dict(enumerate([b"a", b"b", b"c", b"d"]))
    assert await values(state, store, "u") == {0: b"x", 1: b"y"}
    assert report.salvage.records == 4


async def test_salvaged_batches_of_a_mover_take_their_place_in_the_order(
    autojump_clock: MockClock,
) -> None:
    """The producer's batches were in the log, in the store, and in the log again."""
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")
        await writer.coordinator.propose(ReserveProducerIds(100))
        await back_up(log, store)
        await inline(writer, ("t", batch_of(b"a", producer=(7, 0))))
        await writer.write(("t", batch_of(b"b", producer=(7, 1))))
        await inline(writer, ("t", batch_of(b"c", producer=(7, 2))))
        await store_moved(writer)
    report = await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a", 1: b"b", 2: b"c"}
    assert report.salvage.refused == {}


async def test_batches_that_two_movers_stored_are_salvaged_once(
    autojump_clock: MockClock,
) -> None:
    """The first mover ended before its commit; its gateway stored nothing else."""
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1, 2, 3) as [first, second, third]:
        await begin(first, "t")
        await back_up(log, store)
        await inline(third, ("t", batch_of(b"a")))
        await first.coordinator.catch_up()
        await store_moved(first)
        await inline(first, ("t", batch_of(b"b")))
        await second.coordinator.catch_up()
        await move(second)
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert sorted((await values(state, store, "t")).values()) == [b"a", b"b"]
    assert report.salvage.records == 2


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("is_known", [False, True])
async def test_a_restore_of_bytes_cut_short_at_any_write_can_be_done_again(
    is_known: bool, at: int, after: bool, autojump_clock: MockClock
) -> None:
    """is_known: whether the restored log has the commits of all bytes."""
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await begin(writer, "t")
        await inline(writer, ("t", batch_of(b"a")))
        if not is_known:
            await back_up(log, store)
        await inline(writer, ("t", batch_of(b"b")))
        if is_known:
            await back_up(log, store)
        await store_moved(writer)
    fuse = Fuse(at, after=after)
    try:
        await restored(FusedStore(store, fuse), FusedLog(new_log, fuse))
    except* Blown:
        pass
    if fuse.is_blown:
        with suppress(LogMisconfigured):  # all was done but the first backup of the new log
            await restored(store, new_log)
    assert await values(await replayed(new_log), store, "t") == {0: b"a", 1: b"b"}
