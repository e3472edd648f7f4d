"""Records that seem lost, but that a repair must not count as lost."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from tests.fetch.test_fetch_holes import filled, key_of, looked, rows, skip, told
from tests.fetch.test_fetch_segments import merge
from tests.worlds.fetch_world import batch, batches_of, fetch_world, records_of
from tidegate_coordination.object_names.standing import Standing, standing_of
from tidegate_coordination.rules.housekeeping import ForgetObjects
from tidegate_gateway.fetch.fetch_plan import ReadPass
from tidegate_gateway.tools.readability import Problem
from tidegate_gateway.tools.repair import Demands, Repair
from tidegate_storage.objects.ownership import claim_prefix


async def test_a_footer_that_is_cut_off_costs_no_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """This holds even if the store does not answer reads for a moment."""
    async with fetch_world() as [world]:
        await filled(world, 3)
        row = rows(world)[1]
        key = key_of(world, row)
        body = await world.store.get(key)
        await world.store.delete_many([key])
        await world.store.put(key, body[: row.position + row.length])
        assert records_of(await world.fetch("t", 2))[0] == (2, "1a")

        async def come_back() -> None:
            await trio.sleep(0.6)
            world.store.is_away = False

        world.store.is_away = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_back)
            assert told(await looked(world)) == []


@pytest.mark.parametrize("at", [0, 1])
async def test_a_damaged_version_of_an_index_is_damage(
    autojump_clock: trio.testing.MockClock, at: int
) -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await merge(world)
        [row] = rows(world)
        world.store.damage(key_of(world, row), row.position + at)
        assert told(await looked(world)) == [(0, 12, Problem.CORRUPT)]


async def test_repair_does_not_skip_a_range_that_was_restored_before_its_confirmation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world)
        await other.coordinator.catch_up()
        state = other.state
        await claim_prefix(other.store, state.cluster_id, timeline=state.timeline, created_by="x")
        other.coordinator.incarnation = 0
        repair = Repair(
            other.coordinator,
            other.store,
            fresh=lambda: other.store,
            demands=Demands(),
            rng=Random(1),
            software_version="0",
        )
        keys = [key_of(world, rows(world)[at]) for at in (2, 4)]
        bodies = [await world.store.get(key) for key in keys]
        await world.store.delete_many(keys)
        numbers = [world.partition("t").number]
        found = await repair.look(numbers)
        assert len(found.unreadable) == 2
        await trio.sleep(600)  # the operator has not answered the question yet
        await world.store.put(keys[0], bodies[0])

        got = await repair.skip(found.unreadable, numbers, lambda _: None)

        await world.coordinator.catch_up()
        assert [each.object_key for each in got.done] == [keys[1]]
        assert len(rows(world)) == 5


@pytest.mark.parametrize(
    ("objects", "lost", "looks_wrong"),
    [
        (9, 9, False),
        (10, 9, False),
        (10, 10, True),
        (11, 10, True),
        (30, 27, False),
        (30, 28, True),
    ],
)
async def test_nearly_nothing_there_looks_like_the_wrong_store(
    objects: int, lost: int, looks_wrong: bool, autojump_clock: trio.testing.MockClock
) -> None:
    async with fetch_world() as [world]:
        await filled(world, objects)
        await world.store.delete_many([key_of(world, row) for row in rows(world)[:lost]])
        found = await looked(world)
        assert (len(found.unreadable), found.present) == (lost, objects - lost)
        assert found.looks_like_the_wrong_store is looks_wrong


async def test_objects_that_are_damaged_are_there(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await filled(world, 10)
        for row in rows(world):
            world.store.damage(key_of(world, row), row.position + 70)
        found = await looked(world)
        assert (len(found.unreadable), found.looks_like_the_wrong_store) == (10, False)


async def test_a_stable_end_behind_a_hole_is_reached() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 4, 5)
        plan = ReadPass(world.reader.ready, world.reader.index_of, {}, 1 << 20)
        assert plan.read(world.partition("t"), 8, 10, 1 << 20)


async def test_the_end_of_a_hole_is_reached_however_little_is_asked_for() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 4, 6)
        assert len(batches_of(await world.fetch("t", 9, partition_max=0, max_bytes=0))) == 1
        assert not (await world.fetch("t", 12, max_wait_ms=0)).records
        for version in (4, 7, 11, 12):
            assert len(batches_of(await world.fetch("t", 9, version=version))) == 1
        assert len(batches_of(await world.fetch("t", 9, isolation_level=1))) == 1


async def test_a_partition_that_lost_everything_goes_on() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        await skip(world, 4, 6)
        await skip(world, 0, 4)
        partition = world.partition("t")
        assert (partition.log_start, partition.next_offset, len(partition.runs)) == (12, 12, 0)
        await world.write(("t", 0, batch("x")))
        assert records_of(await world.fetch("t", 12)) == [(12, "x")]
        assert type(world.state).decode(world.state.encode()).encode() == world.state.encode()


async def test_an_object_that_was_collected_is_not_to_come() -> None:
    async with fetch_world() as [world]:
        await filled(world)
        key = key_of(world, rows(world)[0])
        await world.move_log_start("t", 0, 2)
        [number] = list(world.state.objects.dead)
        await world.coordinator.propose(ForgetObjects((number,)))
        known = standing_of(world.state, key)
        assert known is not None
        assert known.standing is Standing.EXPIRED
