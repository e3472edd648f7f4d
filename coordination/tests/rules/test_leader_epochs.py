"""Leader epochs: their arithmetic, as Kafka's, and their change by a restore."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.backup_world import (
    CLUSTER,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    topic_id,
    writers,
)
from tidegate_coordination.events.cluster import ClusterCreated, PartitionsAdded, TopicCreated
from tidegate_coordination.events.entries import ENTRY_FORMAT, Entry
from tidegate_coordination.events.metadata_versions import EPOCHS, ReleaseTooOld
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.log.snapshots import save_verified
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.epochs import (
    EpochStart,
    end_of,
    epoch_at,
    latest,
    with_epoch,
)
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition
from tidegate_storage.objects.ownership import claim_prefix

GAP = (EpochStart(2, 10), EpochStart(5, 30))


def test_without_a_history_all_is_epoch_0() -> None:
    assert latest(()) == epoch_at((), 7) == 0
    assert end_of((), 0, log_start=0, next_offset=9) == (0, 9)
    assert end_of((), 1, log_start=0, next_offset=9) is None
    assert end_of((), -1, log_start=0, next_offset=9) is None


def test_each_offset_has_its_epoch() -> None:
    offsets = (0, 9, 10, 29, 30, 99)
    assert [epoch_at(GAP, each) for each in offsets] == [0, 0, 2, 2, 5, 5]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, None),
        (0, (0, 10)),
        (1, (0, 10)),  # no such epoch: the answer is the one below it
        (2, (2, 30)),
        (4, (2, 30)),
        (5, (5, 40)),
        (6, None),
    ],
)
def test_the_end_of_an_epoch_is_as_kafka_answers(
    asked: int, answer: tuple[int, int] | None
) -> None:
    assert end_of(GAP, asked, log_start=0, next_offset=40) == answer


@pytest.mark.parametrize(
    ("asked", "log_start", "answer"),
    [
        (0, 5, (0, 10)),
        (0, 10, (0, 10)),
        (0, 15, (0, 15)),  # its end was deleted, so the consumer continues at the remaining records
        (1, 15, (1, 15)),
        (2, 15, (2, 30)),
        (0, 35, (0, 35)),
        (2, 35, (2, 35)),
        (5, 35, (5, 40)),
    ],
)
def test_no_epoch_ends_below_the_log_start(
    asked: int, log_start: int, answer: tuple[int, int]
) -> None:
    """As Kafka's LeaderEpochFileCache answers after truncateFromStart()."""
    assert end_of(GAP, asked, log_start=log_start, next_offset=40) == answer


def test_below_the_first_epoch_everything_diverges_at_the_start() -> None:
    assert end_of((EpochStart(3, 0),), 1, log_start=0, next_offset=40) == (1, 0)


def test_an_epoch_in_which_nothing_was_written_leaves_no_trace() -> None:
    assert with_epoch(with_epoch((), 1, 10), 2, 10) == ((2, 10),)
    assert with_epoch(with_epoch((), 1, 10), 2, 11) == ((1, 10), (2, 11))


def partition_of(state: ClusterState, topic: str, index: int = 0) -> Partition:
    return state.partitions[state.topics.by_name[topic].partition_numbers[index]]


async def test_a_restore_begins_an_epoch_where_the_copy_ends(autojump_clock: MockClock) -> None:
    """Salvage may place other records above the copy's end than a consumer has read there."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.create_topic("empty")
        await writer.write(("t", batch_of(b"a", b"b")))
        await back_up(log, store)
        await writer.write(("t", batch_of(b"c")))
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert state.metadata_version == EPOCHS
    assert report.raised_from == 1
    partition = partition_of(state, "t")
    assert partition.next_offset == 3
    assert partition.epochs == ((1, 2),)
    assert partition.epoch_end(0) == (0, 2)
    assert partition_of(state, "empty").epochs == ((1, 0),)


async def test_a_partition_that_is_made_again_begins_in_the_new_epoch(
    autojump_clock: MockClock,
) -> None:
    """A consumer must not mistake a recreated partition or topic for the lost one."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
    new_log = MemoryLog()
    await restored(store, new_log)
    state = await replayed(new_log)
    grown = PartitionsAdded(topic_id("t"), 2)
    made = TopicCreated(topic_id("new"), "new", 1, 1, {})
    state.apply(state.position + 1, Entry(ENTRY_FORMAT, b"", 0, 0, (grown, made)))
    again = ClusterState.decode(state.encode())
    assert again.encode() == state.encode()
    again.apply(
        again.position + 1, Entry(ENTRY_FORMAT, b"", 0, 0, (PartitionsAdded(topic_id("t"), 3),))
    )
    assert partition_of(again, "t", 1).epochs == ((1, 0),)
    assert partition_of(again, "t", 2).epochs is partition_of(again, "new").epochs


async def test_restores_of_one_backup_start_different_epochs(
    autojump_clock: MockClock,
) -> None:
    """Records in the epoch of the first restore differ from those in the second one's."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"a")))
        await back_up(log, store)
    epochs: list[object] = []
    for timeline in (2, 3, 4):
        new_log = MemoryLog()
        await restored(store, new_log)
        async with writers(new_log, store, 1) as [writer]:
            await writer.write(("t", batch_of(b"b")))
            epochs.append(partition_of(writer.coordinator.state, "t").epochs)
        copies = [each.key for each in await store.list(f"{CLUSTER}/{timeline}/backup/")]
        await store.delete_many(copies)
    assert epochs == [((1, 1),), ((2, 1),), ((3, 1),)]


def test_timelines_that_began_without_an_epoch_share_none_either() -> None:
    """An older release opened timeline 2, so neither timeline 1 nor 2 left an epoch."""
    for before, opened, epoch in ((1, 3, 2), (2, 4, 3)):
        table = PartitionTable()
        table.add(topic_id("t"), 0, 1)
        table.fold_epochs_opened(opened - before, at_least=opened - 1)
        assert table[0].leader_epoch == table.first_epoch == epoch


async def test_a_restore_of_a_restored_log_begins_another_epoch(autojump_clock: MockClock) -> None:
    store, log, second, third = memory_store(), MemoryLog(), MemoryLog(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"a")))
        await back_up(log, store)
    await restored(store, second)
    async with writers(second, store, 1) as [writer]:
        await writer.write(("t", batch_of(b"b")))
        await back_up(second, store)
    report = await restored(store, third)
    assert partition_of(await replayed(third), "t").epochs == ((1, 1), (2, 2))
    assert report.raised_from == 0


async def test_a_state_of_a_lower_level_has_no_epochs() -> None:
    state = ClusterState()
    made = TopicCreated(topic_id("t"), "t", 1, 1, {})
    state.apply(1, Entry(ENTRY_FORMAT, b"", 0, 0, (made, TimelineOpened(2, 5, 5, "r"))))
    assert partition_of(state, "t").epochs == ()


async def test_an_older_release_starts_on_no_restored_log(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1, highest_version=2) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
    new_log = MemoryLog()
    await restored(store, new_log)
    snapshot = await new_log.load_snapshot()
    assert snapshot is not None
    with pytest.raises(ReleaseTooOld, match="newer"):
        ClusterState.decode(b"".join(snapshot.chunks), highest_version=2)


async def test_a_restore_that_an_older_release_began_is_not_gone_on_with(
    autojump_clock: MockClock,
) -> None:
    store, half = memory_store(), MemoryLog()
    await claim_prefix(store, CLUSTER, timeline=2, created_by="0")
    old = ClusterState()
    begun = (ClusterCreated(CLUSTER, 1), TimelineOpened(2, 5, 5, "r"))
    old.apply(1, Entry(ENTRY_FORMAT, b"", 0, 0, begun))
    await half.trim(2)
    await save_verified(half, 1, [old.encode()])
    with pytest.raises(LogMisconfigured, match="older release"):
        await restored(store, half)
