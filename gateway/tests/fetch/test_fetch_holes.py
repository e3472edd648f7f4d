"""Reads of a partition with skipped runs: consumers continue after the hole."""

from __future__ import annotations

import pytest
import structlog.testing
import trio
import trio.testing

from tests.fetch.test_fetch_segments import merge, read_all, segments_of
from tests.worlds.fetch_world import NOW_MS, World, batch, batches_of, fetch_world, records_of
from tests.worlds.inline_pool import inline_pool
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.records.skips import Skip, SkipRuns, Unreadable
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch.time_search import find_first, find_largest
from tidegate_gateway.tools.readability import Found, Problem, ReadabilityCheck
from tidegate_gateway.tools.stretches import proposed, stretches
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.records import crc_matches, read_header
from tidegate_storage.range_cache import RangeCache


def rows(world: World) -> list[RunRow]:
    runs = world.partition("t").runs
    return [runs[at] for at in range(len(runs))]


def key_of(world: World, row: RunRow) -> str:
    return object_key(world.state, world.state.objects.name(row.object_number))


async def filled(world: World, objects: int = 6) -> None:
    """Write objects of two records each, with rising time stamps."""
    await world.create("t")
    for number in range(objects):
        stamped = batch(f"{number}a", f"{number}b", timestamp=NOW_MS + 10 * number)
        await world.write(("t", 0, stamped))


async def skip(world: World, start: int, stop: int) -> None:
    """Lose some objects, and skip them."""
    lost = rows(world)[start:stop]
    await world.store.delete_many([key_of(world, row) for row in lost])
    asked = Unreadable(world.partition("t").number, tuple(lost))
    answer = await world.coordinator.propose(SkipRuns(world.coordinator.incarnation, (asked,)))
    assert answer == (Skip.SKIPPED,)


async def offsets(world: World, offset: int) -> list[int]:
    """Return the offsets of the next records of a consumer at this offset."""
    data = await world.fetch("t", offset, partition_max=1)
    assert data.error_code == 0
    return [each for each, _ in records_of(data)]


@pytest.mark.parametrize("is_merged", [False, True])
async def test_a_hole_in_the_middle_is_jumped_over(is_merged: bool) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 2, 4)
        if is_merged:
            await merge(world)
            assert len(segments_of(world, "t")) == len(rows(world)) == 2

        assert await offsets(world, 3) == [2, 3]
        for inside in range(4, 8):
            assert await offsets(world, inside) == [8, 9]
        assert [offset for offset, _ in await read_all(world, "t")] == [0, 1, 2, 3, 8, 9, 10, 11]
        all_at_once = await world.fetch("t", 0)
        assert len(records_of(all_at_once)) == 8


async def test_a_hole_at_the_front_moves_the_start() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 0, 2)

        refused = await world.fetch("t", 3)

        assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert refused.log_start_offset == 4
        assert await offsets(world, 4) == [4, 5]


@pytest.mark.parametrize("offset", [8, 10])
async def test_a_reader_gets_to_the_end_over_a_hole(offset: int) -> None:
    """The fetch returns an empty batch up to the end.

    Without it a client that reads to the end offset would wait for ever.
    """
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 4, 6)
        reads = len(world.store.reads)
        data = await world.fetch("t", offset, min_bytes=1, max_wait_ms=50_000)
        [only] = batches_of(data)
        header = read_header(only)
        assert crc_matches(memoryview(only), 0, header)
        assert (header.base_offset, header.last_offset, header.record_count) == (offset, 11, 0)
        assert (data.error_code, data.high_watermark, len(world.store.reads)) == (0, 12, reads)
        await world.write(("t", 0, batch("new")))
        assert records_of(await world.fetch("t", 12)) == [(12, "new")]
        assert [each for each, _ in records_of(await world.fetch("t", offset))] == [12]


async def test_min_bytes_are_not_waited_for_in_a_hole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 4, 6)
        began = trio.current_time()
        data = await world.fetch("t", 6, min_bytes=1 << 20, max_wait_ms=3000)
        assert [each for each, _ in records_of(data)] == [6, 7]
        assert trio.current_time() - began == 3


@pytest.mark.parametrize("is_merged", [False, True])
async def test_times_are_found_on_both_sides(is_merged: bool) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 2, 4)
        await skip(world, 3, 4)
        if is_merged:
            await merge(world)
        partition, blocking = world.partition("t"), inline_pool()

        async def first(timestamp: int, offset: int = 0) -> int | None:
            found = await find_first(world.reader, blocking, partition, timestamp, offset)
            return found.offset if found is not None else None

        assert await first(NOW_MS + 10) == 2
        assert await first(NOW_MS + 12) == 8
        assert await first(NOW_MS, 5) == 8
        assert await first(NOW_MS + 50) is None
        largest = await find_largest(world.reader, blocking, partition)
        assert largest is not None
        assert largest.offset == 9
        await world.move_log_start("t", 0, 6)
        assert await first(NOW_MS) == 8


async def test_reading_ahead_goes_over_a_hole() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 2, 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.read_ahead.run)
            await world.fetch("t", 2, partition_max=1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        reads = len(world.store.reads)
        assert await offsets(world, 4) == [8, 9]
        assert await offsets(world, 10) == [10, 11]
        assert len(world.store.reads) == reads


async def test_a_hole_is_logged_once_a_minute(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        lost = rows(world)[1]
        await world.store.delete_many([key_of(world, lost)])
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                assert (await world.fetch("t", 2)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await trio.sleep(61)
            await world.fetch("t", 2)

        said = [each for each in logs if "tidegate topic repair t" in str(each["event"])]
        assert len(said) == 2
        assert (said[0]["topic"], said[0]["partition"], said[0]["offsets"]) == ("t", 0, "2 to 3")
        assert said[0]["object"] == key_of(world, lost)
        assert world.reader.unreadable.counts == {("t", 0): 4}


# -- finding what cannot be read ------------------------------------------------------------------


def check_of(world: World) -> ReadabilityCheck:
    world.reader._cache = RangeCache(0)
    return ReadabilityCheck(world.coordinator, world.store, world.reader)


async def looked(world: World) -> Found:
    return await check_of(world).look([world.partition("t").number])


def told(found: Found) -> list[tuple[int, int, Problem]]:
    return [(each.row.base_offset, each.lost, each.problem) for each in found.bad]


async def test_repair_skips_no_readable_run() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await merge(world)
        await world.write(("t", 0, batch("new")))
        found = await looked(world)
    assert (found.runs, found.bad, found.is_complete) == (2, [], True)


async def test_missing_damaged_and_cut_runs_are_found(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        before = rows(world)
        await world.store.delete_many([key_of(world, before[0])])
        world.store.damage(key_of(world, before[2]), before[2].position + 65)
        cut = key_of(world, before[4])
        body = await world.store.get(cut)
        await world.store.delete_many([cut])
        await world.store.put(cut, body[: before[4].position + 10])
        await world.move_log_start("t", 0, 1)

        found = await looked(world)

        assert told(found) == [
            (0, 1, Problem.MISSING),
            (4, 2, Problem.CORRUPT),
            (8, 2, Problem.CORRUPT),
        ]
        assert "it was cut" in found.bad[2].reason
        assert [len(each) for each in stretches(found.bad)] == [1, 1, 1]
        asked = tuple(proposed(each) for each in stretches(found.bad))
        await world.coordinator.propose(SkipRuns(world.coordinator.incarnation, asked))
        assert [each for each, _ in await read_all(world, "t")] == [2, 3, 6, 7, 10, 11]
        assert (await looked(world)).bad == []


@pytest.mark.parametrize("where", ["chunk", "index", "gone"])
async def test_a_damaged_segment_is_found(
    autojump_clock: trio.testing.MockClock, where: str
) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await merge(world)
        [row] = rows(world)
        if where == "gone":
            await world.store.delete_many([key_of(world, row)])
        else:
            world.store.damage(key_of(world, row), row.position + (5 if where == "index" else -5))

        found = await looked(world)

        problem = Problem.MISSING if where == "gone" else Problem.CORRUPT
        assert told(found) == [(0, 12, problem)]


async def test_a_store_that_does_not_answer_is_no_proof(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await filled(world, 60)
        await world.store.delete_many([key_of(world, rows(world)[0])])
        world.store.is_away = True
        found = await looked(world)
        assert {each.problem for each in found.bad} == {Problem.UNKNOWN, Problem.MISSING}
        assert len(found.unreadable) == 1
        assert not found.is_complete
        assert len(found.bad) < 40


async def test_a_store_that_is_away_for_a_moment_is_asked_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await filled(world)
        world.store.is_away = True

        async def come_back() -> None:
            await trio.sleep(1)
            world.store.is_away = False

        nursery.start_soon(come_back)
        assert (await looked(world)).bad == []


async def test_an_object_that_is_missing_only_once_is_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await filled(world)
        key = key_of(world, rows(world)[3])
        body = await world.store.get(key)
        await world.store.delete_many([key])

        async def come_back() -> None:
            await trio.sleep(0.2)
            await world.store.put(key, body)

        nursery.start_soon(come_back)
        assert (await looked(world)).bad == []


async def test_a_404_right_after_an_outage_is_no_missing_object(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await filled(world, 1)
        key = key_of(world, rows(world)[0])
        body = await world.store.get(key)
        world.store.is_away = True

        async def come_back() -> None:
            await trio.sleep(3.6)
            await world.store.delete_many([key])
            world.store.is_away = False

        nursery.start_soon(come_back)
        first = await looked(world)
        assert told(first) == [(0, 2, Problem.UNKNOWN)]
        await trio.sleep(1)
        await world.store.put(key, body)
        assert (await looked(world)).bad == []


async def test_a_run_that_was_merged_and_deleted_during_a_fetch_is_looked_up_anew(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other], trio.open_nursery() as nursery:
        await filled(world)
        await other.coordinator.catch_up()
        before = rows(world)
        other.store.seconds = 1.0

        async def overtake() -> None:
            await trio.testing.wait_all_tasks_blocked()
            world.store.seconds = 0.0
            await merge(world)
            await world.store.delete_many([key_of(world, row) for row in before])

        nursery.start_soon(overtake)
        found = await looked(other)

        assert found.bad == []
        assert len(rows(other)) == 1
