"""The model's transaction coordinator: ends that meet faults and fences."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import ClassicWorld, Closed, classic_world
from tests.worlds.classic_transactions import (
    NAME,
    TIMEOUT_SECONDS,
    Transactor,
    described,
    markers,
    read,
    settled,
    shown_state,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import end_txn as et
from tidegate_simulation.classic.log.faults import truncate

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_fence_keeps_markers_out_until_it_is_lifted(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.create_topic("open", 1)
        admin = await world.client()
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.write(0)
        assert await producer.add(0, topic="open") == [0]
        await admin.alter("t", "max.message.bytes", "0")
        assert await producer.end() == 0
        await trio.sleep(600)
        state = await described(world)
        assert state.transaction_state == "PrepareCommit"
        assert [(each.topic, each.partitions) for each in state.topics] == [("t", [0])]
        assert await producer.init() == BUSY
        assert (await read(world)).last_stable_offset == 0
        await admin.alter("t", "max.message.bytes", None, operation=1)
        await trio.sleep(1)
        assert await shown_state(world) == "CompleteCommit"
        assert (markers(world), (await read(world)).last_stable_offset) == ([(1, 0)], 2)
        assert (await producer.init(), producer.epoch) == (0, 1)


async def test_a_batch_that_a_fence_refuses_has_added_its_partition(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        admin, producer = await world.client(), Transactor(world)
        await producer.init()
        await admin.alter("t", "max.message.bytes", "0")
        assert await producer.produce() == ErrorCode.MESSAGE_TOO_LARGE
        assert await producer.end(commits=False) == 0
        await settled(world)
        assert (await shown_state(world), markers(world)) == ("PrepareAbort", [])


async def interrupted(world: ClassicWorld) -> Transactor:
    """Return a producer whose commit a fence on t holds up."""
    producer = Transactor(world)
    await producer.init()
    await producer.write(0)
    world.cluster.set_config("t", "max.message.bytes", "0", trio.current_time())
    assert await producer.end() == 0
    return producer


async def test_another_coordinator_writes_the_markers(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        producer = await interrupted(world)
        first = world.cluster.coordinator_of(NAME)
        world.servers.stop_broker(first)
        assert world.cluster.coordinator_of(NAME) != first
        await trio.sleep(5)
        assert await shown_state(world) == "PrepareCommit"
        world.cluster.set_config("t", "max.message.bytes", None, trio.current_time())
        await trio.sleep(1)
        assert (await shown_state(world), markers(world)) == ("CompleteCommit", [(1, 1)])
        await producer.write(0)
        assert await producer.end() == 0


async def test_nothing_ends_while_no_broker_runs(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        world.servers.stop_broker(1)
        await trio.sleep(TIMEOUT_SECONDS * 3)
        assert world.cluster.transactions[NAME].epoch == 0
        world.servers.start_broker(1)
        await trio.sleep(11)
        assert (await shown_state(world), markers(world)) == ("CompleteAbort", [(1, 1)])


async def test_a_coordinator_that_loads_says_so(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = await interrupted(world)
        world.cluster.set_config("t", "max.message.bytes", None, trio.current_time())
        world.cluster.transactions[NAME].is_loading = True
        await trio.sleep(60)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await producer.init(), await producer.end()) == (loading, loading)
        assert await producer.produce(index=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert markers(world) == []
        world.cluster.transactions[NAME].is_loading = False
        await trio.sleep(1)
        assert markers(world) == [(1, 1)]


async def test_markers_follow_the_leader(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2, 3)) as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0, 1)
        partition = world.cluster.partition("t", 0)
        world.cluster.set_isr("t", 0, [partition.leader])
        stopped = partition.leader
        world.servers.stop_broker(stopped)
        assert await producer.end() == 0
        await trio.sleep(5)
        assert (markers(world, 0), markers(world, 1)) == ([], [(1, 1)])
        assert [each.topic for each in (await described(world)).topics] == ["t"]
        world.servers.start_broker(stopped)
        await trio.sleep(1)
        assert (markers(world), await shown_state(world)) == ([(1, 1)], "CompleteCommit")


async def test_a_transaction_completes_once_its_markers_are_replicated(
    autojump_clock: MockClock,
) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        world.cluster.hold_watermark("t", 0)
        assert await producer.end() == 0
        await trio.sleep(5)
        assert (markers(world), await shown_state(world)) == ([(1, 1)], "PrepareCommit")
        truncate(world.cluster.partition("t", 0).log, 1)  # the marker is lost
        await trio.sleep(1)
        assert markers(world) == [(1, 1)]
        world.cluster.release_watermark("t", 0)
        await trio.sleep(1)
        assert (markers(world), await shown_state(world)) == ([(1, 1)], "CompleteCommit")


async def test_markers_need_enough_replicas(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        world.cluster.set_config("t", "min.insync.replicas", "2", 0)
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        world.cluster.set_isr("t", 0, [world.cluster.partition("t", 0).leader])
        assert await producer.end() == 0
        await trio.sleep(5)
        assert markers(world) == []
        world.cluster.set_isr("t", 0, [1, 2])
        await trio.sleep(1)
        assert markers(world) == [(1, 1)]


async def test_a_deleted_topic_needs_no_marker(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        await interrupted(world)
        world.cluster.delete_topic("t")
        await trio.sleep(1)
        assert await shown_state(world) == "CompleteCommit"


async def test_an_answer_may_be_lost(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        world.servers.latency_seconds = 0.1
        client = await world.client()
        request = et.EndTxnRequest(NAME, producer.producer_id, 0, True)
        with world.servers.signals.watch([world.cluster.transactions[NAME]]) as changed:
            number = await client.send("EndTxn", 5, request)
            await changed.wait()
        world.servers.reset(1)
        with pytest.raises(Closed):
            await client.receive("EndTxn", 5, number)
        await trio.sleep(1)
        assert (await producer.end(), producer.epoch) == (0, 1)
        assert markers(world) == [(1, 1)]
