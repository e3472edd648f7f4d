"""DescribeProducers: the idempotent producers of a partition, and their last sequences."""

from __future__ import annotations

from typing import Any

import trio

from tests.worlds.fetch_world import NOW_MS, World, batch, fetch_world
from tidegate_coordination.state.records.open_spans import OpenSpans
from tidegate_coordination.state.records.producers import KeptBatch
from tidegate_coordination.state.records.producers import ProducerState as State
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.network.turns import ROWS_AT_ONCE
from tidegate_gateway.requests.records.describe_producers import (
    MAX_OF_PARTITION,
    MAX_PRODUCERS,
    DescribeProducersHandler,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_producers as wire
from tidegate_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)


async def ask(world: World, *topics: tuple[str, list[int]]) -> list[Any]:
    """Return the rows of an answer; request and answer are encoded and decoded."""
    handler = DescribeProducersHandler(world.coordinator)
    request = DescribeProducersRequest([TopicRequest(*each) for each in topics])
    sent = memoryview(bytes(wire.encode_request(request, 0)))
    call = Call(0, "test", Peer("localhost", 1, "PLAINTEXT"))
    response = await handler.handle(call, wire.decode_request(sent, 0))
    decoded = wire.decode_response(memoryview(bytes(wire.encode_response(response, 0))), 0)
    return [(topic.name, row) for topic in decoded.topics for row in topic.partitions]


def idempotent(producer_id: int, epoch: int, first_sequence: int, *values: str) -> bytes:
    return batch(
        *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first_sequence
    )


async def test_producers_of_each_partition() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, idempotent(7, 1, 0, "x", "y")))
        await world.write(("a", 0, idempotent(7, 1, 2, "z")), ("a", 0, batch("plain")))
        await world.write(("a", 0, idempotent(8, 0, 0, "x")))
        rows = await ask(world, ("a", [1, 0]))

    (_, empty), (_, written) = rows
    assert (empty.partition_index, empty.error_code, empty.active_producers) == (1, 0, [])
    assert (written.partition_index, written.error_code, written.error_message) == (0, 0, None)
    assert written.active_producers == [
        ProducerState(7, 1, 2, NOW_MS, -1, -1),
        ProducerState(8, 0, 0, NOW_MS, -1, -1),
    ]


async def test_describe_producers_answers_unknown_partitions() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        rows = await ask(world, ("a", [0, 1, -1]), ("nope", [0]), ("a b", [0]))

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(name, row.partition_index, row.error_code) for name, row in rows] == [
        ("a", 0, ErrorCode.NONE),
        ("a", 1, unknown),
        ("a", -1, unknown),
        ("nope", 0, unknown),
        ("a b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert all(row.error_message for _, row in rows[1:])


async def test_a_gateway_that_is_behind_looks_first() -> None:
    async with fetch_world(gateways=2) as [writer, behind]:
        await writer.create("a")
        await writer.write(("a", 0, idempotent(7, 0, 0, "x")))
        [(_, row)] = await ask(behind, ("a", [0]))
    assert [each.producer_id for each in row.active_producers] == [7]


async def test_a_partition_asked_for_many_times_is_answered_once() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        rows = await ask(world, ("a", [0] * 1000), ("a", [0]))
    assert len(rows) == 1


def fill(world: World, index: int, count: int) -> None:
    partition = world.partition("a", index)
    for producer_id in range(count):
        partition.producers[producer_id] = State(0, (KeptBatch(0, 0, producer_id, -1),), NOW_MS)


async def test_an_answer_about_many_producers_is_bounded() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 13)
        for index in range(13):
            fill(world, index, MAX_OF_PARTITION + 50)
        world.partition("a", 12).open = OpenSpans([(3, 5)])
        [(_, one)] = await ask(world, ("a", [12]))
        assert len(one.active_producers) == MAX_OF_PARTITION
        assert one.active_producers[0] == ProducerState(3, 0, 0, NOW_MS, -1, 5)
        rows = await ask(world, ("a", list(range(13))))
        fits = MAX_PRODUCERS // MAX_OF_PARTITION
        codes = [ErrorCode.NONE] * fits + [ErrorCode.INVALID_REQUEST] * (13 - fits)
        assert [row.error_code for _, row in rows] == codes
        assert "ask for fewer partitions" in rows[-1][1].error_message


async def test_producers_are_listed_in_turns_and_may_be_forgotten_meanwhile() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        fill(world, 0, 10 * ROWS_AT_ONCE)
        turns = 0

        async def forget() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1
                if turns == 6:
                    world.partition("a", 0).expire_producers(NOW_MS + 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(forget)
            [(_, row)] = await ask(world, ("a", [0]))
            nursery.cancel_scope.cancel()
    assert turns > 8
    assert 0 < len(row.active_producers) < 10 * ROWS_AT_ONCE
