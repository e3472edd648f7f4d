"""Fetch: an error costs only its partition, and its text says why."""

from __future__ import annotations

import pytest
import trio.testing

from tests.worlds.fetch_world import World, batch, fetch_world, records_of
from tidegate_coordination.state.records.objects import WalName
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)


async def both(world: World, version: int = 12) -> tuple[int, int]:
    """Fetch partitions 0 and 1 of topic a; return their error codes."""
    partitions = [FetchPartition(p, partition_max_bytes=1000) for p in (0, 1)]
    response = await world.ask(
        FetchRequest(min_bytes=1, topics=[FetchTopic("a", partitions=partitions)]), version
    )
    first, second = response.responses[0].partitions
    assert bool(records_of(first)) == (not first.error_code)
    assert bool(records_of(second)) == (not second.error_code)
    return first.error_code, second.error_code


async def test_a_corrupt_batch_costs_its_partition_only() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, batch("0")), ("a", 1, batch("0")))
        row = world.partition("a", 1).runs[0]
        world.store.damage(world.key(WalName(1, 0)), row.position + row.length - 1)
        codes = await both(world)
        answer = await world.fetch("a", 0, partition=1)

    assert codes == (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
    assert answer.high_watermark == 1
    assert world.reader.verifier.corrupt_runs == 5


@pytest.mark.parametrize("corrupt", [0, 1, 2])
async def test_a_corrupt_run_harms_none_that_came_with_it(corrupt: int) -> None:
    async with fetch_world() as [world]:
        await world.create("a", 3)
        await world.write(*[("a", p, batch("0")) for p in range(3)])
        row = world.partition("a", corrupt).runs[0]
        world.store.damage(world.key(WalName(1, 0)), row.position + row.length - 1)
        partitions = [FetchPartition(p, partition_max_bytes=1000) for p in range(3)]
        topics = [FetchTopic("a", partitions=partitions)]
        response = await world.ask(FetchRequest(min_bytes=1, topics=topics))
        assert len(world.store.reads) <= 3

    for data in response.responses[0].partitions:
        is_corrupt = data.partition_index == corrupt
        assert data.error_code == (ErrorCode.CORRUPT_MESSAGE if is_corrupt else ErrorCode.NONE)
        assert records_of(data) == ([] if is_corrupt else [(0, "0")])


async def test_a_range_that_was_damaged_in_transit_is_read_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("a", 2)
        await world.write(("a", 0, batch("0")), ("a", 1, batch("0")))
        row = world.partition("a", 1).runs[0]
        place = (world.key(WalName(1, 0)), row.position + row.length - 1)
        world.store.seconds = 1.0
        world.store.damage(*place)

        async def repair() -> None:
            await trio.sleep(1.5)
            world.store.damage(*place)

        nursery.start_soon(repair)
        codes = await both(world)

    assert codes == (ErrorCode.NONE, ErrorCode.NONE)
    assert world.reader.verifier.corrupt_runs == 1


async def test_the_valid_prefix_of_a_corrupt_partition_is_served() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        await world.write(("a", 0, batch("1")))
        row = world.partition("a").runs[1]
        world.store.damage(world.key(WalName(1, 1)), row.position + row.length - 1)
        prefix = await world.fetch("a", 0)
        refused = await world.fetch("a", 1)

    assert records_of(prefix) == [(0, "0")]
    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE


async def test_bad_memory_is_given_up_for_the_stores_copy() -> None:
    async with fetch_world() as [world]:
        world.adopts = True
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        kept = world.cache.get_nowait(WalName(1, 0))
        kept.body[world.partition("a").runs[0].position + 65] ^= 1  # type: ignore[attr-defined]
        answer = await world.fetch("a", 0)

    assert records_of(answer) == [(0, "0")]
    assert world.reader.verifier.corrupt_runs == 1
    assert len(world.store.reads) == 1


async def test_a_missing_object_is_retriable(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, batch("0")))
        await world.write(("a", 1, batch("0")))
        await world.store.delete_many([world.key(WalName(1, 0))])
        codes = await both(world)

    assert codes == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)


async def test_records_deleted_elsewhere_are_out_of_range_and_no_storage_error(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [writer, behind]:
        await writer.create("a")
        await writer.write(("a", 0, batch("0")))
        await behind.coordinator.catch_up()
        await writer.move_log_start("a", 0, 1)
        await writer.store.delete_many([writer.key(WalName(1, 0))])
        assert behind.partition("a").log_start == 0
        answer = await behind.fetch("a", 0)

    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.log_start_offset == 1


async def test_a_store_that_is_away_is_retriable() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        world.store.is_away = True
        away = await world.fetch("a", 0)
        world.store.is_away = False
        back = await world.fetch("a", 0)

    assert (away.error_code, away.high_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, 1)
    assert records_of(back) == [(0, "0")]


@pytest.mark.parametrize(("version", "is_told"), [(4, False), (5, False), (6, True), (18, True)])
async def test_clients_from_before_storage_errors_look_for_the_leader(
    version: int, is_told: bool
) -> None:
    """As in Kafka, they get NOT_LEADER_OR_FOLLOWER.

    A client takes an error that it does not know as fatal.
    """
    async with fetch_world() as [world]:
        topic_id = await world.create("a")
        await world.write(("a", 0, batch("0")))
        world.store.is_away = True
        topic = FetchTopic("a", topic_id, [FetchPartition(0, partition_max_bytes=1000)])
        response = await world.ask(FetchRequest(min_bytes=1, topics=[topic]), version)

    code = response.responses[0].partitions[0].error_code
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code == (ErrorCode.KAFKA_STORAGE_ERROR if is_told else not_leader)


async def test_a_store_that_hangs_is_retriable(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        world.store.seconds = 1000.0
        answer = await world.fetch("a", 0)

    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert trio.current_time() < 1000


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_leader_epochs(epoch: int, code: ErrorCode) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        answer = await world.fetch("a", 0, epoch=epoch)

    assert answer.error_code == code


async def test_a_topic_created_again_is_not_the_old_one() -> None:
    async with fetch_world() as [world]:
        old = await world.create("a")
        await world.write(("a", 0, batch("old")))
        await world.delete("a")
        new = await world.create("a")

        async def ask(topic_id: bytes, partition: int) -> FetchResponse:
            wanted = FetchPartition(partition, partition_max_bytes=1000)
            topic = FetchTopic(topic_id=topic_id, partitions=[wanted])
            return await world.ask(FetchRequest(min_bytes=1, topics=[topic]), 13)

        of_old = await ask(old, 0)
        of_new = await ask(new, 0)
        of_no_partition = await ask(new, 1)

    assert of_old.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert of_new.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert of_new.responses[0].partitions[0].high_watermark == 0
    code = of_no_partition.responses[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [4, 14, 15])
async def test_a_follower_is_refused_and_gets_no_session(version: int) -> None:
    async with fetch_world() as [world]:
        topic_id = await world.create("a")
        await world.write(("a", 0, batch("0")))
        request = FetchRequest(min_bytes=1, session_epoch=0)
        request.topics.append(FetchTopic("a", topic_id, [FetchPartition(0)]))
        if version >= 15:
            request.replica_state = ReplicaState(3)
        else:
            request.replica_id = 3
        response = await world.ask(request, version)

    [answer] = response.responses[0].partitions
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(world.sessions) == 0
    assert records_of(answer) == []
