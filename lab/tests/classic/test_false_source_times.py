"""Searches by time in copies of batches whose headers say a false time, also after a merge."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.upkeep.test_false_times import offset_at
from tests.worlds.cluster.several_gateways import Clock
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import RUN_SEGMENT, SegmentsPublished
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_simulation.checks.segment_checks import check_published

from .test_malformed_sources import rewrite
from .test_mirrors import NOW_MS, World, mirroring

HONEST_MS = NOW_MS + 1


async def merge(world: World) -> Partition:
    """Merge the copy; return its partition with segments only."""
    coordinator = Coordinator(world.ours.log, ClusterState(), rng=Random(7), wall_clock=Clock())
    runner = LocalRunner(world.ours.store, next_attempt=count(1).__next__)
    settings = MergeSettings(rest_ms=0, patience_ms=0)
    driver = Driver(coordinator, runner, settings, rng=Random(8), software_version="1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        await driver.register()
        while await driver.run_once():
            pass
        nursery.cancel_scope.cancel()
    await check_segments(world)
    await world.gateways[0].gateway.coordinator.catch_up()
    copy = world.copy()
    assert copy is not None
    assert all(copy.runs[at].flags & RUN_SEGMENT for at in range(len(copy.runs)))
    return copy


async def check_segments(world: World) -> None:
    """Let the simulator's check compare all published segments with their parents."""
    store = world.ours.store
    bodies = {each.key: await store.get(each.key) for each in await store.list("")}
    state = ClusterState()
    found = await world.ours.log.read(1, 1 << 30)
    assert isinstance(found, list)
    for position, payload in found:
        entry = decode_entry(payload, position)
        for event in entry.events:
            if isinstance(event, SegmentsPublished):
                for each in event.partitions:
                    check_published(state, event.incarnation, each, bodies.get)
        state.apply(position, entry)


@pytest.mark.parametrize("claimed", [-1, 0, 1 << 50])
async def test_the_records_are_found_whatever_their_headers_say(
    claimed: int, autojump_clock: MockClock
) -> None:
    async with mirroring() as world:
        world.write(1)
        world.write(4)  # offsets 1 to 4
        rewrite(world, max_timestamp=claimed)
        world.write(2)
        await world.link()
        copy = await world.copied()
        for _ in range(2):
            client = world.gateways[0].world.connect()
            assert await offset_at(client, HONEST_MS) == (2, HONEST_MS)
            assert await offset_at(client, NOW_MS + 3) == (4, NOW_MS + 3)
            assert await offset_at(client, NOW_MS + 4) == (-1, -1)
            assert await offset_at(client, -3) == (4, NOW_MS + 3)
            newest = max(copy.runs[at].max_timestamp for at in range(len(copy.runs)))
            assert newest == NOW_MS + 3
            copy = await merge(world)
