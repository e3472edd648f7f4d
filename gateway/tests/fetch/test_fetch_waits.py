"""Fetch: when it answers at once, when it waits, and which events wake it."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import batch, fetch_world, records_of
from tidegate_coordination.log_contract.faulty import LogFaults
from tidegate_gateway.fetch.fetch_plan import FetchSettings
from tidegate_gateway.fetch.log_reader import Loaded
from tidegate_gateway.fetch.read_ahead import ReadAhead
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

DEAF = LogFaults(lost_wakeup=1.0)
"""The log grows unnoticed for a second."""


class Later:
    """A fetch under way.  seconds: until its answer."""

    def __init__(self) -> None:
        self.answer: PartitionData | None = None
        self.seconds = -1.0

    async def run(self, fetch: Awaitable[PartitionData]) -> None:
        started = trio.current_time()
        self.answer = await fetch
        self.seconds = trio.current_time() - started

    @property
    def records(self) -> list[tuple[int, str]]:
        assert self.answer is not None
        return records_of(self.answer)


async def test_at_the_end_it_waits_for_max_wait(autojump_clock: trio.testing.MockClock) -> None:
    later = Later()
    async with fetch_world() as [world]:
        await world.create("a")
        await later.run(world.fetch("a", 0, max_wait_ms=500))
        assert len(world.waiters) == 0

    assert later.records == []
    assert later.seconds == pytest.approx(0.5)


async def test_max_wait_is_capped(autojump_clock: trio.testing.MockClock) -> None:
    later = Later()
    async with fetch_world(FetchSettings(max_wait_ms=2000)) as [world]:
        await world.create("a")
        await later.run(world.fetch("a", 0, max_wait_ms=10**9))

    assert later.seconds == pytest.approx(2.0)


async def test_a_commit_wakes_it_and_another_partitions_does_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    later = Later()
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("a", 2)
        nursery.start_soon(later.run, world.fetch("a", 0, max_wait_ms=60_000))
        await trio.sleep(1)
        await world.write(("a", 1, batch("other")))
        await trio.testing.wait_all_tasks_blocked()
        assert later.answer is None
        await trio.sleep(1)
        await world.write(("a", 0, batch("0")))

    assert later.records == [(0, "0")]
    assert later.seconds == pytest.approx(2.0)


async def test_a_commit_of_another_gateway_wakes_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    later = Later()
    async with fetch_world(gateways=2) as [writer, reader], trio.open_nursery() as nursery:
        await writer.create("a")
        await reader.coordinator.catch_up()
        nursery.start_soon(later.run, reader.fetch("a", 0, max_wait_ms=60_000))
        await trio.testing.wait_all_tasks_blocked()
        await writer.write(("a", 0, batch("0")))

    assert later.records == [(0, "0")]
    assert later.seconds < 0.1


async def test_min_bytes_collects_several_commits(autojump_clock: trio.testing.MockClock) -> None:
    size = len(batch("0"))
    later = Later()
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        nursery.start_soon(
            later.run, world.fetch("a", 0, max_wait_ms=60_000, min_bytes=size * 2 + 1)
        )
        for value in "123":
            await trio.sleep(1)
            await world.write(("a", 0, batch(value)))

    assert [offset for offset, _ in later.records] == [0, 1, 2]
    assert later.seconds == pytest.approx(2.0)


async def test_min_bytes_that_never_come_give_what_is_there(
    autojump_clock: trio.testing.MockClock,
) -> None:
    later = Later()
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        await later.run(world.fetch("a", 0, max_wait_ms=3000, min_bytes=10**6))

    assert later.records == [(0, "0")]
    assert later.seconds == pytest.approx(3.0)


async def test_deleting_the_topic_wakes_it(autojump_clock: trio.testing.MockClock) -> None:
    later = Later()
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("a")
        nursery.start_soon(later.run, world.fetch("a", 0, max_wait_ms=60_000))
        await trio.sleep(1)
        await world.delete("a")

    assert later.answer is not None
    assert later.answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert later.seconds == pytest.approx(1.0)


async def test_errors_and_empty_requests_do_not_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        topics = [FetchTopic("a", partitions=[FetchPartition(0), FetchPartition(9)])]
        started = trio.current_time()
        response = await world.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics))
        empty = await world.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1))
        assert trio.current_time() - started < 1

    codes = [each.error_code for each in response.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert empty.responses == []


async def test_a_replica_that_is_behind_looks_before_it_refuses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A record that a gateway acknowledged can be read at each other one.

    See docs/architecture.md, "What stays true", 11.
    """
    async with fetch_world(gateways=2) as [writer, behind]:
        behind.log.faults = DEAF
        await trio.sleep(1.5)  # now the watcher sleeps until second 2
        topic_id = await writer.create("a")
        await writer.write(("a", 0, batch("0")))
        assert "a" not in behind.state.topics.by_name
        found = await behind.fetch("a", 1)
        await writer.write(("a", 0, batch("1")))
        beyond = await behind.fetch("a", 2)
        await writer.create("b")
        wanted = FetchTopic(topic_id=behind.state.topics.by_name["a"].topic_id, partitions=[])
        wanted.partitions.append(FetchPartition(0, fetch_offset=3))
        out = await behind.ask(FetchRequest(min_bytes=1, topics=[wanted]), 13)

    assert topic_id
    assert (found.error_code, found.high_watermark) == (0, 1)
    assert (beyond.error_code, beyond.high_watermark) == (0, 2)
    assert out.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_gives_no_answer_that_it_cannot_prove(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        world.log.faults = LogFaults(read_error=1.0)
        beyond = await world.fetch("a", 5)
        unknown = await world.fetch("nowhere", 0)
        served = await world.fetch("a", 0)

    assert beyond.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert unknown.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert records_of(served) == [(0, "0")]


async def test_a_fetch_answers_changes_that_came_while_it_waited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("t", 2)
        await world.write(("t", 0, batch("a", "b")), ("t", 1, batch("c")))

        async def change() -> None:
            await trio.sleep(0.1)
            await world.move_log_start("t", 0, 2)

        nursery.start_soon(change)
        data = await world.fetch("t", 2, max_wait_ms=500)
        assert (data.error_code, data.log_start_offset, data.high_watermark) == (0, 2, 2)


async def test_a_fetch_does_not_wait_for_records_that_cannot_be_read(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch returns at once, and the client retries, instead of waiting for a new record."""

    async def load(*_: object) -> Loaded:
        await trio.sleep(0.1)
        return {}

    later = Later()
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("1")))
        monkeypatch.setattr(ReadAhead, "load", load)
        await later.run(world.fetch("a", 0, max_wait_ms=30_000))
    assert later.records == []
    assert later.seconds < 1
