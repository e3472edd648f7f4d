"""Batches that are about to be written here when their topic begins to return to its source.

Unless a batch finds no room or times out, its client notices nothing: no connection is closed, and
the batches keep their order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import (
    Closed,
    WireClient,
    produce_request,
    records_batch,
    request_frame,
)
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.headers import decode_response_header
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import decode_records, walk
from tidegate_simulation.classic.log.model_log import WATERMARK

from ..test_mirrors import MAX_BYTES, World, becomes, mirroring
from ..test_returns import fenced, here, is_back, opened
from ..test_switches import switches

VERSION = 9
PRODUCE = 0
SLOW_SECONDS = 0.3


class Pipelined:
    """A producer that has several requests under way on one connection."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._sent = 0

    async def send(self, *parts: tuple[int, bytes], **more: Any) -> None:
        self._sent += 1
        request = produce_request([("t", index, batch) for index, batch in parts], **more)
        await self._client.send(request_frame("Produce", VERSION, request, self._sent))

    async def answers(self, count: int) -> list[tuple[int, int]]:
        """Error and offset of the next batches, in the order of the requests."""
        found: list[tuple[int, int]] = []
        while len(found) < count:
            answer = memoryview(await self._client.receive())
            _, position = decode_response_header(answer, PRODUCE, VERSION)
            response = pr.decode_response(answer[position:], VERSION)
            for topic in response.responses:
                found += [(each.error_code, each.base_offset) for each in topic.partition_responses]
        return found


@asynccontextmanager
async def returning(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float = SLOW_SECONDS,
    more: dict[str, str] | None = None,
) -> AsyncIterator[tuple[World, Pipelined]]:
    """Run a topic that is written back, and a store whose PUTs take long."""
    async with mirroring(more=more) as world:
        await here(world)
        await opened(world)
        real = world.ours.store.put

        async def slow(*arguments: Any) -> Any:
            await trio.sleep(seconds)
            return await real(*arguments)

        monkeypatch.setattr(world.ours.store, "put", slow)
        yield world, Pipelined(world.gateways[0].world.connect())


async def begun(world: World) -> None:
    """Let the batches that were sent arrive, and the fence come before their commit."""
    await trio.sleep(0.01)
    await fenced(world)


def value(number: int) -> bytes:
    return b"own %d" % number


def at_source(world: World, index: int = 0) -> list[bytes | None]:
    """The values from value() that the source holds, in their order."""
    log = world.log(index)
    found = log.read(log.log_start, MAX_BYTES, WATERMARK, whole_first=True)
    batches = memoryview(found.records)
    records = [
        each.value
        for at, header in walk(batches)
        for each in decode_records(
            batches[at : at + header.size_bytes], max_decompressed_bytes=MAX_BYTES
        )
    ]
    return [each for each in records if each is not None and each.startswith(b"own")]


def values(numbers: Sequence[int]) -> list[bytes]:
    return [value(each) for each in numbers]


async def test_batches_under_way_and_later_ones_are_answered_in_order(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        for number in range(5):
            await producer.send((0, records_batch(value(number))))
        await begun(world)
        for number in range(5, 10):
            await producer.send((0, records_batch(value(number))))
        assert await producer.answers(10) == [(E.NONE, 1 + number) for number in range(10)]
        await becomes(lambda: not switches(world).fences)
        assert is_back(world)
        await producer.send((0, records_batch(value(10))))
        assert await producer.answers(1) == [(E.NONE, 11)]
        assert at_source(world) == values(range(11))


async def test_the_sequences_of_an_idempotent_producer_go_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        for number in range(3):
            head = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
            await producer.send((0, records_batch(value(number), **head)))
        await begun(world)
        head = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}
        await producer.send((0, records_batch(value(3), **head)))
        assert await producer.answers(4) == [(E.NONE, 1 + number) for number in range(4)]
        assert at_source(world) == values(range(4))


async def test_a_request_of_several_partitions_gets_one_answer(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        for number in range(2):
            await producer.send(*((index, records_batch(value(number))) for index in (0, 1)))
        await begun(world)
        assert await producer.answers(4) == [(E.NONE, 1), (E.NONE, 0), (E.NONE, 2), (E.NONE, 1)]
        assert at_source(world) == at_source(world, 1) == values(range(2))


async def test_batches_that_want_no_answer_come_to_the_source_too(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        for number in range(2):
            await producer.send((0, records_batch(value(number))), acks=0)
        await begun(world)
        await producer.send((0, records_batch(value(2))))
        assert await producer.answers(1) == [(E.NONE, 3)]
        assert at_source(world) == values(range(3))


async def test_they_are_written_here_if_the_fence_is_lifted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        world.source.hold_watermark("t", 0)
        await producer.send((0, records_batch(value(0))))
        assert await producer.answers(1) == [(E.NONE, 1)]
        for number in range(1, 4):
            await producer.send((0, records_batch(value(number))))
        await begun(world)
        await producer.send((0, records_batch(value(4))))
        assert await producer.answers(4) == [(E.NONE, 2 + number) for number in range(4)]
        assert not is_back(world)
        world.source.release_watermark("t", 0)
        await becomes(lambda: at_source(world) == values(range(5)))


async def test_a_batch_that_was_timed_out_meanwhile_is_not_written_here(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        world.source.hold_watermark("t", 0)
        await producer.send((0, records_batch(value(0))))
        assert await producer.answers(1) == [(E.NONE, 1)]
        with capture_logs() as logged:
            await producer.send((0, records_batch(value(1))), timeout_ms=600)
            await begun(world)
            assert await producer.answers(1) == [(E.REQUEST_TIMED_OUT, -1)]
            await producer.send((0, records_batch(value(1))))
            with pytest.raises(Closed):
                await producer.answers(1)
        assert not is_back(world)
        assert [each for each in logged if each["log_level"] == "error"] == []
        again = Pipelined(world.gateways[0].world.connect())
        await again.send((0, records_batch(value(1))))
        assert await again.answers(1) == [(E.NONE, 2)]


async def test_a_connection_closes_and_leaves_nothing_open_if_there_is_no_room_for_them(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"link.forward.bytes.max": str(1 << 20)}
    async with returning(monkeypatch, more=more) as (world, producer):
        for number in range(3):
            await producer.send((0, records_batch(value(number) + bytes(600_000))))
        await begun(world)
        with pytest.raises(Closed):
            await producer.answers(3)
        await becomes(lambda: not switches(world).fences)
        assert len(world.gateways[0].gateway.writes.produce_deadlines) == 0


async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with returning(monkeypatch) as (world, producer):
        client = world.gateways[0].world.connect()
        leaving = Pipelined(client)
        await leaving.send((0, records_batch(value(0))))
        await producer.send((0, records_batch(value(1))))
        await begun(world)
        client.transport.reset()
        assert await producer.answers(1) == [(E.NONE, 1)]
        await becomes(lambda: not switches(world).fences)
        assert at_source(world) == values([1])
        assert len(world.gateways[0].gateway.writes.produce_deadlines) == 0
