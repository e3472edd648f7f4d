"""A lost log is restored: backed up records keep their offsets, later ones come by salvage."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.backup_fuse import Blown, Fuse, FusedLog, FusedStore
from tests.worlds.backup_world import (
    CLUSTER,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    topic_id,
    values,
    writers,
)
from tidegate_coordination.backup.recovery import NothingToRestore
from tidegate_coordination.backup.salvage_rules import PRODUCER_ID_GAP
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.columns import MAX_INT64
from tidegate_storage.objects.keys import timeline_key
from tidegate_storage.objects.ownership import TimelineOver, check_owner
from tidegate_storage.stores.object_store import StoreMisconfigured


async def test_records_of_the_backup_keep_their_offsets_and_later_ones_follow(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"a", b"b")))
        await back_up(log, store)
        await writer.write(("t", batch_of(b"c")))
        await writer.store_object(("t", batch_of(b"d")))  # never committed: outcome unknown
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == dict(enumerate([b"a", b"b", b"c", b"d"]))
    assert (report.timeline, report.salvage.records, report.salvage.objects) == (2, 2, 2)
    assert state.timeline == 2
    assert not state.timelines.is_restoring
    assert not state.gateways.live

    async with writers(new_log, store, 1) as [writer]:
        await writer.write(("t", batch_of(b"e")))
        assert writer.coordinator.incarnation > 100_000
    state = await replayed(new_log)
    assert (await values(state, store, "t"))[4] == b"e"


async def test_a_producers_records_keep_their_order_across_gateways(
    autojump_clock: MockClock,
) -> None:
    """The store's clock suggests another order; a restore goes by the sequences."""
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1, 2, 3) as [first, second, third]:
        await first.create_topic("t")
        await back_up(log, store)
        for number, writer in ((2, first), (1, second), (0, third), (3, second)):
            await trio.sleep(1)
            await writer.store_object(("t", batch_of(b"%d" % number, producer=(5, number))))
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == dict(enumerate([b"0", b"1", b"2", b"3"]))
    assert not report.salvage.refused
    assert state.producer_ids.next_id > 5


async def test_salvage_ignores_repeats_and_batches_refused_before(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1, 2) as [first, second]:
        await first.create_topic("t")
        await first.write(("t", batch_of(b"0", producer=(5, 0))))
        await back_up(log, store)
        early = await first.write(("t", batch_of(b"2", producer=(5, 2))))  # out of order
        assert early[0].refusal is not None
        await first.write(("t", batch_of(b"1", producer=(5, 1))))
        # a retry through another gateway
        await second.write(("t", batch_of(b"1", producer=(5, 1))))
        await second.write(("t", batch_of(b"2", producer=(5, 2))))
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == dict(enumerate([b"0", b"1", b"2"]))
    assert report.salvage.batches == 2
    assert report.salvage.duplicates + sum(report.salvage.refused.values()) == 2


async def test_a_gap_that_nothing_can_fill_is_bridged(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"0", producer=(5, 0))))
        await back_up(log, store)
        for number in (1, 2, 3):
            await writer.write(("t", batch_of(b"%d" % number, producer=(5, number))))
    lost = [each.key for each in await store.list("") if each.key.endswith("000000001")]
    await store.delete_many(lost)
    new_log = MemoryLog()
    await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == dict(enumerate([b"0", b"2", b"3"]))


async def test_lives_that_the_backup_does_not_know_are_salvaged(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
    async with writers(log, store, 1, 2) as [again, other]:
        await again.write(("t", batch_of(b"a")))
        await other.write(("t", batch_of(b"b")))
    new_log = MemoryLog()
    report = await restored(store, new_log)
    assert report.salvage.records == 2
    state = await replayed(new_log)
    assert sorted((await values(state, store, "t")).values()) == [b"a", b"b"]


async def test_records_of_an_unknown_topic_are_reported_and_kept(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.create_topic("young")
        await writer.write(("young", batch_of(b"x", b"y")))
        await writer.write(("t", batch_of(b"a")), ("young", batch_of(b"z")))
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert await values(state, store, "t") == {0: b"a"}
    found = {(each.topic_id, each.records) for each in report.salvage.unplaced}
    assert found == {(topic_id("young").hex(), 2), (topic_id("young").hex(), 1)}
    keys = [each.key for each in report.salvage.unplaced]
    assert [key.split("/")[2] for key in keys] == ["wal", "unplaced"]
    for key in keys:
        assert await store.get(key)


async def test_damaged_and_foreign_objects_are_reported_and_skipped(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.store_object(("t", batch_of(b"a")))
        incarnation = writer.coordinator.incarnation
    await store.put(f"{CLUSTER}/1/wal/az1/1-{incarnation}/{7:012}", b"rubbish")
    await store.put(f"{CLUSTER}/1/wal/other.txt", b"rubbish")
    new_log = MemoryLog()
    report = await restored(store, new_log)
    assert report.salvage.records == 1
    [damaged] = report.salvage.damaged
    assert f"{7:012}" in damaged


async def test_records_that_retention_deleted_after_the_backup_are_cut(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        for value in (b"a", b"b", b"c"):
            await writer.write(("t", batch_of(value)))
        await back_up(log, store)
    gone = [each.key for each in await store.list(f"{CLUSTER}/1/wal/")][:2]
    await store.delete_many(gone)
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert (report.cut_partitions, report.lost_runs) == (1, 0)
    assert state.partitions[0].log_start == 2
    assert await values(state, store, "t") == {2: b"c"}


async def test_the_old_logs_gateways_own_nothing_any_more(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await restored(store, MemoryLog())
        with pytest.raises(TimelineOver, match="timeline 2 owns this prefix"):
            await check_owner(store, CLUSTER, timeline=1)
    await check_owner(store, CLUSTER, timeline=2)
    with pytest.raises(StoreMisconfigured, match="owns this prefix"):
        await check_owner(store, "another", timeline=9)


async def test_a_second_loss_before_the_next_backup(autojump_clock: MockClock) -> None:
    """The second restore uses the copy that the first restore made."""
    store = memory_store()
    log, second, third = MemoryLog(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.write(("t", batch_of(b"a")))
    await restored(store, second)
    async with writers(second, store, 1) as [writer]:
        await writer.write(("t", batch_of(b"b")))
    report = await restored(store, third)
    state = await replayed(third)
    assert report.timeline == 3
    assert await values(state, store, "t") == {0: b"a", 1: b"b"}


async def test_two_losses_without_any_copy_of_the_second_timeline(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    log, second, third = MemoryLog(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.write(("t", batch_of(b"a")))
    await restored(store, second)
    async with writers(second, store, 1) as [writer]:
        await writer.write(("t", batch_of(b"b")))
    copies = [each.key for each in await store.list(f"{CLUSTER}/2/backup/")]
    await store.delete_many(copies)
    await restored(store, third)
    state = await replayed(third)
    assert await values(state, store, "t") == {0: b"a", 1: b"b"}


async def test_restores_of_one_backup_assign_different_numbers(
    autojump_clock: MockClock,
) -> None:
    """Numbers that the first restore assigned may be in use, even without a trace in the store."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
    given: set[tuple[int, int]] = set()
    for timeline in (2, 3, 4):
        new_log = MemoryLog()
        await restored(store, new_log)
        async with writers(new_log, store, 1) as [writer]:
            first = await writer.coordinator.propose(ReserveProducerIds(10))
            given.add((writer.coordinator.incarnation, first))
        copies = [each.key for each in await store.list(f"{CLUSTER}/{timeline}/backup/")]
        await store.delete_many(copies)
    assert len({incarnation for incarnation, _ in given}) == 3
    assert len({first for _, first in given}) == 3


@pytest.mark.parametrize("at", range(12))
async def test_producer_ids_that_were_met_before_a_cut_are_not_given_out(
    at: int, autojump_clock: MockClock
) -> None:
    """The range continues above the highest id that can have been given out.

    An id that a client made up does not count.
    """
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        ids = writer.coordinator.state.producer_ids
        met, made_up = ids.next_id + PRODUCER_ID_GAP - 1, MAX_INT64
        for each in (made_up, met, 0):
            await writer.write(("t", batch_of(b"a", producer=(each, 0))))
    fuse = Fuse(at, after=True)
    with suppress(LogMisconfigured):
        try:
            await restored(FusedStore(store, fuse), FusedLog(new_log, fuse))
        except* Blown:
            pass
        await restored(store, new_log)
    following = (await replayed(new_log)).producer_ids
    assert met + PRODUCER_ID_GAP < following.next_id < met + 10 * PRODUCER_ID_GAP
    assert following.own == ids.own


async def test_a_restore_never_begins_another_clusters_range_of_producer_ids(
    autojump_clock: MockClock,
) -> None:
    store, log, new_log = memory_store(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        own = writer.coordinator.state.producer_ids.own
        await writer.create_topic("t")
        await writer.coordinator.propose(ReserveProducerIds(len(own) - 10))
        await back_up(log, store)
    await restored(store, new_log)
    following = (await replayed(new_log)).producer_ids
    assert (following.own, following.next_id) == (own, own.stop - 1)


async def test_a_log_in_use_is_refused_and_nothing_is_written(autojump_clock: MockClock) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        with pytest.raises(LogMisconfigured, match="it holds entries"):
            await restored(store, log)
    new_log = MemoryLog()
    await restored(store, new_log)
    with pytest.raises(LogMisconfigured, match="was restored to it already"):
        await restored(store, new_log)
    assert [each.key for each in await store.list("tidegate-timelines/")] == [timeline_key(2)]


async def test_a_restore_without_a_backup_fails_with_a_clear_error(
    autojump_clock: MockClock,
) -> None:
    store = memory_store()
    async with writers(MemoryLog(), store, 1) as [writer]:
        await writer.create_topic("t")
    with pytest.raises(NothingToRestore, match="nothing was copied there"):
        await restored(store, MemoryLog())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(12))
async def test_a_restore_cut_short_at_any_write_can_be_done_again(
    at: int, after: bool, autojump_clock: MockClock
) -> None:
    store = memory_store()
    log = MemoryLog()
    async with writers(log, store, 1) as [first]:
        await first.create_topic("t")
        await first.write(("t", batch_of(b"a")))
        await back_up(log, store)
        await first.write(("t", batch_of(b"b")))
    async with writers(log, store, 3) as [third]:
        await third.write(("t", batch_of(b"c")))
        await third.write(("t", batch_of(b"d")))
    new_log = MemoryLog()
    fuse = Fuse(at, after=after)
    try:
        await restored(FusedStore(store, fuse), FusedLog(new_log, fuse))
    except* Blown:
        pass
    if fuse.is_blown:
        with suppress(LogMisconfigured):  # only the first backup of the new log was missing
            await restored(store, new_log)
    state = await replayed(new_log)
    assert not state.timelines.is_restoring
    assert await values(state, store, "t") == dict(enumerate([b"a", b"b", b"c", b"d"]))
