"""The model's transaction coordinator: producers begin, write and end transactions."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import classic_world, raw_of
from tests.worlds.classic_transactions import (
    Transactor,
    markers,
    read,
    settled,
    shown_state,
)
from tidegate_protocol.control_batches import commits
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe
from tidegate_simulation.classic.profiles import (
    KAFKA_2_1,
)

OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
KINDS = pytest.mark.parametrize("knows_v2", [True, False])


@KINDS
async def test_a_commit_is_seen_once_its_markers_are_written(
    knows_v2: bool, autojump_clock: MockClock
) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world, knows_v2=knows_v2)
        assert await producer.init() == 0
        assert (producer.producer_id % 1000, producer.epoch) == (0, 0)
        assert await shown_state(world) == "Empty"
        await producer.write(0, 1)
        assert await shown_state(world) == "Ongoing"
        found = await read(world)
        assert (found.last_stable_offset, found.high_watermark, raw_of(found)) == (0, 1, b"")
        assert await producer.end() == 0
        assert await shown_state(world) == "PrepareCommit"
        assert (await read(world)).last_stable_offset == 0
        await settled(world)
        assert await shown_state(world) == "CompleteCommit"
        epoch = 1 if knows_v2 else 0
        assert (markers(world, 0), markers(world, 1)) == ([(1, epoch)], [(1, epoch)])
        found = await read(world, index=1)
        assert (found.last_stable_offset, found.aborted_transactions) == (2, [])
        assert commits(raw_of(found)[-17:]) is True
        assert producer.epoch == epoch


@KINDS
async def test_an_abort_is_listed(knows_v2: bool, autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=knows_v2)
        await producer.init()
        await producer.write(0)
        assert await producer.end(commits=False) == 0
        assert await shown_state(world) == "PrepareAbort"
        await settled(world)
        assert await shown_state(world) == "CompleteAbort"
        found = await read(world)
        assert found.aborted_transactions == [fe.AbortedTransaction(producer.producer_id, 0)]
        assert found.last_stable_offset == 2
        client = await world.client()
        assert (await client.fetch("t", 0)).aborted_transactions is None
        await producer.write(0)
        await producer.end()
        await settled(world)
        found = await read(world)
        assert found.aborted_transactions == [fe.AbortedTransaction(producer.producer_id, 0)]
        assert found.last_stable_offset == 4


async def test_partitions_without_records_get_a_marker_too(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        assert await producer.add(0, 1) == [0, 0]
        assert await producer.produce(index=0) == 0
        await producer.end()
        await settled(world)
        assert (markers(world, 0), markers(world, 1)) == ([(1, 0)], [(0, 0)])


@pytest.mark.parametrize(("version", "code"), [(10, 48), (11, 120), (12, 0)])
async def test_produce_needs_the_partition_before_version_12(
    version: int, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        assert await producer.produce(version=version) == code
        assert await shown_state(world) == ("Empty" if code else "Ongoing")
        assert (await producer.add(0)) == [0]
        assert await producer.produce(version=version) == 0


async def test_before_kafka_3_6_leaders_did_not_ask(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        producer = Transactor(world, knows_v2=False)
        assert await producer.init(version=1) == 0
        assert await producer.produce(version=7) == 0
        assert await producer.end(version=1) == WRONG_STATE
        assert world.cluster.partition("t", 0).log.last_stable_offset == 0


async def test_a_late_batch_is_not_part_of_the_next_transaction(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.write(0)
        await producer.end()
        assert await producer.produce() == 0  # the marker is not there yet
        await settled(world)
        assert markers(world) == [(2, 0)]
        assert await producer.produce() == ErrorCode.TRANSACTION_ABORTABLE
        producer.knows_v2 = True
        assert await producer.produce() == 0  # begins the next transaction
        late = producer.sequences["t", 0]
        await producer.end()
        await settled(world)
        assert await producer.produce(producer_epoch=0, base_sequence=late) == OLD_EPOCH


async def test_the_transaction_may_end_while_a_batch_waits_for_its_append(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.add(0)
        world.servers.append_pause = lambda: 5.0
        codes: list[int] = []

        async def late() -> None:
            codes.append(await producer.produce())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            await trio.sleep(1)
            assert await producer.end() == 0
        assert (codes, markers(world)) == ([WRONG_STATE], [(0, 0)])


async def test_an_end_under_way_delays_the_next_transaction(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.transaction_settings.marker_seconds = 0.02
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        await producer.end()
        began = trio.current_time()
        assert await producer.produce() == 0  # waits for the markers
        assert 0 < trio.current_time() - began <= 0.1
        assert markers(world) == [(1, 1)]


async def test_an_end_that_takes_long_is_told(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        admin = await world.client()
        old, new = Transactor(world, "old", knows_v2=False), Transactor(world)
        for each in (old, new):
            await each.init()
            await each.write(0)
        await admin.alter("t", "max.message.bytes", "0")
        for each in (old, new):
            assert await each.end() == 0
            assert await each.add(1) == [BUSY]
        assert await new.produce(index=1) == BUSY
        assert await old.produce(index=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert [await each.end() for each in (old,)] == [BUSY]
