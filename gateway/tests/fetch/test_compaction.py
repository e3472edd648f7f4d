"""Compacted topics, from the plan to the fetch: a reader sees the newest record of each key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from random import Random

import pytest
import trio

from tests.fetch.test_fetch_segments import AT_ONCE, driver_of, segments_of
from tests.worlds.compaction_world import (
    COMPACT,
    HOUR,
    Row,
    keyed,
    read_all,
    wait_a_minute,
    work,
    write,
)
from tests.worlds.fetch_world import World, batches_of, fetch_world
from tests.worlds.inline_pool import inline_pool
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.configs import (
    Change,
    Operation,
    ResourceChange,
    ResourceType,
    SetConfigs,
)
from tidegate_coordination.state.records.cleanings import Cleaning, cleaned_before, with_cleaning
from tidegate_gateway.fetch.time_search import find_first, find_largest
from tidegate_pipeline.tasks.work import MergeTask, UnitResult
from tidegate_protocol.compression import Codec
from tidegate_protocol.records import Record, build_batch, read_header


async def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT)
        await write(world, ("a", "1"), ("b", "2"))
        await write(world, ("a", "3"), ("c", "4"))

        driver = await work(world)

        assert await read_all(world) == [(1, b"b", b"2"), (2, b"a", b"3"), (3, b"c", b"4")]
        assert (driver.counters.compacted, driver.counters.removed) == (1, 1)
        assert world.partition("t").cleanings[-1].end_offset == 4
        assert len(world.partition("t").runs) == 1


async def test_a_topic_without_compaction_is_not_compacted() -> None:
    async with fetch_world() as [world]:
        await world.create("t")
        await write(world, ("a", "1"), ("a", "2"))
        assert (await work(world)).counters.compacted == 0
        assert len(await read_all(world)) == 2


async def test_tombstones_go_a_while_after_the_round_that_saw_them() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT)
        await write(world, ("a", "1"), ("b", "2"), ("a", None))
        await work(world)
        assert await read_all(world) == [(1, b"b", b"2"), (2, b"a", None)]
        # The next round must not remove the tombstone yet, since a minute has not passed.
        await write(world, ("c", "3" * 200))
        await work(world)
        assert (2, b"a", None) in await read_all(world)
        await wait_a_minute(world)
        await write(world, ("d", "4" * 2000))
        await work(world)
        assert [row[1] for row in await read_all(world)] == [b"b", b"c", b"d"]


async def test_a_reader_gets_to_the_end_when_its_last_records_are_gone() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, min_cleanable_dirty_ratio="0")
        await write(world, ("a", "1"), ("a", None))
        await work(world)
        await wait_a_minute(world)
        await write(world, ("b", None))
        await work(world)
        await wait_a_minute(world)
        # Nothing is dirty: all records are compacted already.
        async with driver_of(world) as driver:
            assert await driver.compact_once() == 0
        await write(world, ("c", "1"), ("c", None))
        await work(world)
        await wait_a_minute(world)
        await write(world, ("d", None))
        await work(world)
        rows = await read_all(world)  # read_all() fails if it does not reach the end
        assert rows == [(5, b"d", None)]


async def test_the_last_batch_stays_though_it_is_empty() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await world.write(("t", 0, keyed(("a", "1"), now_ms=world.now_ms)))
        no_key = build_batch([Record(0, world.now_ms, None, b"x")])
        await world.write(("t", 0, no_key))
        await world.write(("t", 0, no_key))
        await set_policy(world, "compact")
        await work(world)
        assert await read_all(world) == [(0, b"a", b"1")]
        data = await world.fetch("t", 2)
        assert read_header(batches_of(data)[-1]).record_count == 0


async def set_policy(world: World, policy: str) -> None:
    change = Change("cleanup.policy", Operation.SET, policy)
    topic = ResourceChange(ResourceType.TOPIC.value, "t", [change])
    assert await world.coordinator.propose(SetConfigs([topic])) == [None]


async def test_a_policy_that_changes_both_ways() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write(world, ("a", "1"), ("a", "2"))
        await work(world)
        await set_policy(world, "compact")
        await work(world)
        assert await read_all(world) == [(1, b"a", b"2")]
        await set_policy(world, "delete")
        await write(world, ("a", "3"), ("a", "4"))
        await work(world)
        assert [row[0] for row in await read_all(world)] == [1, 2, 3]
        await set_policy(world, "compact,delete")
        await work(world)
        assert await read_all(world) == [(3, b"a", b"4")]


async def test_young_records_wait_for_their_lag() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, min_compaction_lag_ms="30000")
        await write(world, ("a", "1"), ("a", "2"))
        assert (await work(world)).counters.compacted == 0
        await wait_a_minute(world)
        assert (await work(world)).counters.compacted == 1


async def test_little_that_is_dirty_waits_until_its_time_is_over() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, max_compaction_lag_ms="50000")
        await write(world, ("a", "1" * 2000))
        assert (await work(world)).counters.compacted == 1
        await write(world, ("a", "2"))
        assert (await work(world)).counters.compacted == 0
        await wait_a_minute(world)
        assert (await work(world)).counters.compacted == 1
        assert await read_all(world) == [(1, b"a", b"2")]


async def test_a_partition_that_was_never_compacted_waits_for_its_lag_too() -> None:
    async with fetch_world() as [world]:
        lag = {"min_cleanable_dirty_ratio": "1", "max_compaction_lag_ms": "50000"}
        await world.create("t", 1, **COMPACT, **lag)
        await write(world, ("a", "1"), ("a", "2"))
        assert (await work(world)).counters.compacted == 0
        await wait_a_minute(world)
        assert (await work(world)).counters.compacted == 1


async def test_a_map_that_is_full_ends_the_round_there() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, min_cleanable_dirty_ratio="0")
        for number in range(8):
            await write(world, (f"k{number}", "1"), ("z", str(number)))
        settings = replace(AT_ONCE, map_bytes=600)
        await work(world, settings)
        first = world.partition("t").cleanings[-1].end_offset
        assert 0 < first < 16
        await work(world, settings, rounds=10)
        assert world.partition("t").cleanings[-1].end_offset == 16
        assert len(await read_all(world)) == 9


async def test_a_damaged_segment_fails_its_round_and_loses_nothing() -> None:
    async with fetch_world(cache_bytes=0) as [world]:
        await world.create("t", 1, **COMPACT)
        await write(world, ("a", "1"), ("a", "2"))
        async with driver_of(world) as driver:
            await driver.run_once()
            await world.coordinator.catch_up()
            [number] = segments_of(world, "t")
            key = object_key(world.state, world.state.objects.name(number))
            world.store.damage(key, 80)
            assert await driver.compact_once() == 0
            assert driver.counters.failed == 1
            world.store.damage(key, 80)
        assert len(await read_all(world)) == 2


async def test_a_round_that_the_map_ends_reads_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_pipeline.tasks.compact_task.READ_AT_ONCE_BYTES", 1)
    settings = replace(AT_ONCE, map_bytes=1, segment_bytes=150, min_parts=1)
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, min_cleanable_dirty_ratio="0")
        async with driver_of(world, settings) as driver:
            for number in range(20):
                await write(world, (f"k{number}", "v" * 60), (f"k{number}", "w" * 60))
                while await driver.run_once():
                    pass
            await world.coordinator.catch_up()
            assert len(world.partition("t").runs) > 10
            reads = len(world.store.reads)
            assert await driver.compact_once() == 1
            assert len(world.store.reads) - reads <= 3


async def test_a_large_round_is_published_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_pipeline.driver.UNITS_PER_PROPOSAL", 2)
    settings = replace(AT_ONCE, segment_bytes=150, min_parts=1)
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT)
        async with driver_of(world, settings) as driver:
            for number in range(9):
                await write(world, ("a", str(number) * 60), (f"k{number}", "w" * 60))
                while await driver.run_once():
                    pass
            position = driver.state.position
            assert await driver.compact_once() == 1
            assert driver.state.position > position + 3
        await world.coordinator.catch_up()
        assert len(await read_all(world)) == 10
        assert world.partition("t").cleanings[-1].end_offset == 18


async def test_rounds_that_begin_at_once_keep_out_of_each_others_way() -> None:
    async with fetch_world() as [world]:
        for number in range(6):
            await world.create(f"t{number}", 1, **COMPACT)
        async with driver_of(world) as driver:
            for turn in range(2):
                for number in range(6):
                    pairs = [("a", str(turn)), ("a", "x" * 300)]
                    batch = keyed(*pairs, now_ms=world.now_ms)
                    await world.write((f"t{number}", 0, batch))
                if not turn:
                    await driver.run_once()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(driver.compact_once)
                nursery.start_soon(driver.run_once)
            assert not driver.counters.dropped
            assert driver.counters.compacted > 0


async def test_retention_that_takes_the_front_meanwhile_spoils_no_round() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, cleanup_policy="compact,delete", retention_ms="600000")
        settings = replace(AT_ONCE, segment_bytes=300, min_parts=1)
        async with driver_of(world, settings) as driver:
            for number in range(10):
                await write(world, ("a", str(number)), (f"k{number}", "w" * 100))
                world.now_ms += 60_000
                while await driver.run_once():
                    pass
            await world.coordinator.catch_up()
            real = driver._runner.run
            first = world.partition("t").runs[0].next_offset

            async def cut_and_run(tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
                await world.move_log_start("t", 0, first)
                async for result in real(tasks):
                    yield result

            driver._runner.run = cut_and_run  # type: ignore[method-assign]
            assert await driver.compact_once() == 1
        await world.coordinator.catch_up()
        assert world.partition("t").cleanings


async def test_the_rest_of_a_short_round_does_not_wait_for_the_lag_again() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, **COMPACT, max_compaction_lag_ms="50000")
        await write(world, ("a", "1" * 5000))
        await work(world)
        for number in range(4):
            await write(world, (f"k{number}", "1"), ("z", "2"))
        settings = replace(AT_ONCE, map_bytes=1)
        assert (await work(world, settings)).counters.compacted == 0
        await wait_a_minute(world)
        assert (await work(world, settings, rounds=6)).counters.compacted == 4


async def test_searches_by_time_pass_over_what_is_gone() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        no_key = build_batch([Record(0, world.now_ms + 50, None, b"x")])
        await write(world, ("a", "1"), ("b", "2"))
        await world.write(("t", 0, no_key))
        await set_policy(world, "compact")
        await work(world)
        partition = world.partition("t")
        found = await find_largest(world.reader, inline_pool(), partition)
        assert found is not None
        assert (found.offset, found.timestamp) == (0, world.now_ms)
        assert await find_first(world.reader, inline_pool(), partition, world.now_ms + 1, 0) is None


@pytest.mark.parametrize("seed", range(12))
async def test_many_rounds_show_what_a_model_says(seed: int) -> None:
    """Random writes, merges and rounds; a reader sees each key's newest value, in order."""
    rng = Random(seed)
    settings = replace(
        AT_ONCE,
        segment_bytes=rng.choice([300, 2000, 1 << 20]),
        map_bytes=rng.choice([400, 1 << 20]),
    )
    async with fetch_world(cache_bytes=rng.choice([0, 1 << 20])) as [world]:
        await world.create("t", 1, **COMPACT, min_cleanable_dirty_ratio=rng.choice(["0", "0.5"]))
        written: list[Row] = []
        for _ in range(rng.randint(5, 12)):
            for _ in range(rng.randint(1, 5)):
                pairs = [
                    (rng.choice("abcdefghij"), rng.choice([None, str(rng.random())]))
                    for _ in range(rng.randint(1, 5))
                ]
                await write(world, *pairs, codec=rng.choice(list(Codec)))
                for key, value in pairs:
                    data = None if value is None else value.encode()
                    written.append((len(written), key.encode(), data))
            if rng.random() < 0.5:
                await wait_a_minute(world)
            await work(world, settings, rounds=rng.randint(0, 2))
            check(written, await read_all(world))
        await wait_a_minute(world)
        await write(world, ("last", "1" * 5000))
        await work(world, settings, rounds=40)
        rows = await read_all(world)
        cleaned = world.partition("t").cleanings[-1].end_offset
        assert cleaned == world.partition("t").next_offset
        keys = [row[1] for row in rows]
        assert len(keys) == len(set(keys))


def check(written: list[Row], seen: list[Row]) -> None:
    """Check that a reader sees only written records, in order, and the newest one of each key.

    A newest record that is a tombstone may be missing.
    """
    assert seen == [written[row[0]] for row in seen]
    assert [row[0] for row in seen] == sorted(row[0] for row in seen)
    newest = {row[1]: row for row in written}
    there = {row[1]: row for row in seen}
    for key, row in newest.items():
        if row[2] is not None:
            assert there[key] == row
        else:
            assert there.get(key, row) == row, "an old value came back"


@pytest.mark.parametrize("steps", [[60_000], [3_600_000], [1_000, 60_000, 900_000], [400 * HOUR]])
@pytest.mark.parametrize("retention_ms", [0, HOUR, 24 * HOUR])
def test_tombstones_wait_a_little_longer_at_most_however_rounds_come(
    steps: list[int], retention_ms: int
) -> None:
    rng = Random(3)
    exact: list[Cleaning] = []
    kept: tuple[Cleaning, ...] = ()
    now = end = 0
    for _ in range(4000):
        now += rng.choice(steps)
        end += rng.randint(1, 9)
        exact.append(Cleaning(end, now))
        kept = with_cleaning(kept, Cleaning(end, now), retention_ms)
        assert len(kept) <= 12
        assert kept[-1] == exact[-1]
        soon = cleaned_before(kept, now - retention_ms)
        assert soon <= _true_end(exact, now - retention_ms)
        # Two neighbouring kept rounds are at most half the retention and the longest step apart.
        late = now - retention_ms - retention_ms // 2 - max(steps)
        assert soon >= _true_end(exact, late)
        del exact[:-3000]


def _true_end(cleanings: list[Cleaning], before_ms: int) -> int:
    at = bisect_right(cleanings, before_ms, key=lambda each: each.log_time_ms)
    return cleanings[at - 1].end_offset if at else 0
