"""Clients across a restore that assigns offsets again: epochs separate the two histories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.recovery.test_backup_gateway import restored
from tests.worlds.wire_client import NOW_MS, WireWorld, records_batch, wire_world
from tidegate_coordination.backup.restore import RestoreReport
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.cli.log.restore import lines_of
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_topic_partitions as dt
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_for_leader_epoch as oe
from tidegate_protocol.records import walk
from tidegate_storage.stores.memory_store import MemoryObjectStore

T = "t"
KEPT, GIVEN_ANEW = 2, 3


class Restored(WireWorld):
    """Offsets 0 and 1 were backed up.  Offsets 2 to 4 were salvaged, and have epoch 1."""

    store: MemoryObjectStore
    log: MemoryLog

    async def fetch(
        self, offset: int, *, epoch: int = -1, fetched: int = -1, version: int = 12
    ) -> fe.PartitionData:
        asked = fe.FetchPartition(
            0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=fetched,
            partition_max_bytes=1 << 20,
        )
        request = fe.FetchRequest(
            max_wait_ms=5000,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[fe.FetchTopic(topic=T, partitions=[asked])],
        )
        answer = await self.connect().call("Fetch", version, request)
        found: fe.PartitionData = answer.responses[0].partitions[0]
        return found

    async def epochs(self) -> list[tuple[int, int]]:
        """Return (offset, leader epoch) of every batch."""
        answer = await self.fetch(0)
        records = answer.records or b""
        assert not isinstance(records, list)
        data = memoryview(records)
        return [(header.base_offset, header.leader_epoch) for _, header in walk(data)]


@asynccontextmanager
async def restored_world() -> AsyncIterator[Restored]:
    store, new_log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=MemoryLog()) as world:
        await world.create_topic(T, 1)
        client = world.connect()
        for value in (b"0", b"1", b"2", b"3", b"4"):
            assert not (await client.produce(T, 0, records_batch(value))).error_code
            if value == b"1":
                await world.gateway.keepers.backup.copy_once()
    await restored(store, new_log)
    async with wire_world(store=store, log=new_log, seed=2) as world:
        made = Restored(world.gateway, world._nursery)
        made.store, made.log = store, new_log
        yield made


async def test_metadata_names_the_new_epoch(autojump_clock: MockClock) -> None:
    async with restored_world() as world:
        client = world.connect()
        await world.create_topic("young", 1)
        topics = [md.MetadataRequestTopic(name=each) for each in (T, "young")]
        plain = await client.call("Metadata", 12, md.MetadataRequest(topics))
        asked = [dt.TopicRequest(each) for each in (T, "young")]
        described = await client.call(
            "DescribeTopicPartitions", 0, dt.DescribeTopicPartitionsRequest(asked)
        )
    for answer in (plain, described):
        assert [each.partitions[0].leader_epoch for each in answer.topics] == [1, 1]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_a_client_with_the_old_epoch_is_fenced(
    epoch: int, code: ErrorCode, autojump_clock: MockClock
) -> None:
    async with restored_world() as world:
        answer = await world.fetch(3, epoch=epoch)
    assert answer.error_code == code
    assert bool(answer.records) is (code == ErrorCode.NONE)


@pytest.mark.parametrize("offset", [3, 5, 400])
async def test_a_consumer_past_the_end_of_the_old_epoch_gets_the_diverging_offset(
    offset: int, autojump_clock: MockClock
) -> None:
    """Even an offset beyond the new end gets it, and at once, instead of OFFSET_OUT_OF_RANGE."""
    async with restored_world() as world:
        before = trio.current_time()
        answer = await world.fetch(offset, epoch=1, fetched=0)
        assert trio.current_time() - before < 1
    assert answer.error_code == ErrorCode.NONE
    assert answer.diverging_epoch == fe.EpochEndOffset(0, KEPT)
    assert not answer.records


async def test_a_consumer_before_the_end_of_the_old_epoch_continues(
    autojump_clock: MockClock,
) -> None:
    async with restored_world() as world:
        at_end = await world.fetch(KEPT, epoch=1, fetched=0)
        further = await world.fetch(4, epoch=1, fetched=1)
        unknown = await world.fetch(KEPT, epoch=1, fetched=2)
        outside = await world.fetch(6, epoch=1, fetched=1)
    assert at_end.records
    assert further.records
    assert at_end.diverging_epoch is further.diverging_epoch is None
    assert unknown.error_code == outside.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_batches_carry_the_epoch_of_their_offsets(autojump_clock: MockClock) -> None:
    """Read from memory and WAL objects, and from a segment that a merge made across the restore."""
    expected = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1)]
    async with restored_world() as world:
        await world.connect().produce(T, 0, records_batch(b"5"))
        assert await world.epochs() == expected
        await _merge(world)
        await world.gateway.coordinator.catch_up()
        state = world.gateway.coordinator.state
        [partition] = state.partitions.values()
        assert len(partition.runs) == 1
        assert await world.epochs() == expected


async def _merge(world: Restored) -> None:
    state = await load_state(world.log, deadline_seconds=10)
    coordinator = Coordinator(
        world.log, state, rng=Random(7), wall_clock=lambda: NOW_MS / 1000 + trio.current_time()
    )
    attempts = count(1)
    driver = Driver(
        coordinator,
        LocalRunner(world.store, next_attempt=lambda: next(attempts)),
        MergeSettings(rest_ms=0, patience_ms=0),
        rng=Random(8),
        software_version="1",
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await driver.register()
        while await driver.run_once():
            pass
        await driver.leave()
        nursery.cancel_scope.cancel()


async def test_the_ends_of_epochs(autojump_clock: MockClock) -> None:
    """Send the request of a fenced consumer (KIP-320)."""
    asked = [(1, 0), (1, 1), (1, 2), (0, 0), (-1, 0)]
    async with restored_world() as world:
        partitions = [oe.OffsetForLeaderPartition(0, *each) for each in asked]
        answer = await world.connect().call(
            "OffsetForLeaderEpoch",
            4,
            oe.OffsetForLeaderEpochRequest(-1, [oe.OffsetForLeaderTopic(T, partitions)]),
        )
    found = answer.topics[0].partitions
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in found] == [
        (ErrorCode.NONE, 0, KEPT),
        (ErrorCode.NONE, 1, KEPT + GIVEN_ANEW),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
        (ErrorCode.NONE, 0, KEPT),
    ]


async def test_offsets_are_listed_with_their_epochs(autojump_clock: MockClock) -> None:
    async with restored_world() as world:
        client = world.connect()
        found: list[tuple[int, int]] = []
        for timestamp in (-2, -1, NOW_MS):
            asked = lo.ListOffsetsPartition(0, 1, timestamp)
            request = lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic(T, [asked])])
            [part] = (await client.call("ListOffsets", 7, request)).topics[0].partitions
            assert part.error_code == ErrorCode.NONE
            found.append((part.offset, part.leader_epoch))
    assert found == [(0, 0), (KEPT + GIVEN_ANEW, 1), (0, 0)]


def test_a_restore_that_raised_the_level_says_so() -> None:
    """The operator must learn that an older release does not start on the log."""
    raised = "\n".join(lines_of(RestoreReport("c", 2, raised_from=2)))
    assert "tidegate.metadata.version from 2 to 3" in raised
    assert "metadata.version" not in "\n".join(lines_of(RestoreReport("c", 2)))
