"""The list of aborted transactions in an answer from a segment when memory is short."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.fetch.test_fetch_holes import key_of, rows
from tests.fetch.test_fetch_segments import merge
from tests.transactions.test_committed_reads_over_holes import committed, producer_of
from tests.worlds.cluster.zone_world import MIB, zone_world
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_pipeline.planning.limits import MergeSettings

KIB = 1024
CACHE_BYTES = 16 * MIB
BYTES = 256 * KIB
SETTINGS = MergeSettings(rest_ms=0, patience_ms=0, chunk_bytes=200 * KIB)


@pytest.mark.parametrize("hot_bytes", [0, 12 * MIB + 700 * KIB])
async def test_chunks_that_push_the_index_out_of_memory_hide_no_abort(
    hot_bytes: int, autojump_clock: MockClock
) -> None:
    """The chunks come from a block that was lent to another gateway of the zone."""
    async with zone_world(["a"], CACHE_BYTES) as zones:
        [world] = zones.worlds
        world.adopts = False
        await world.create("t", 1)
        producer = await producer_of(world)
        for number in range(12):
            await producer.write(f"{number}".ljust(BYTES))
        await producer.end(committed=False)
        await producer.write("committed".ljust(BYTES))
        await producer.end(committed=True)
        await merge(world, SETTINGS)
        [segment] = rows(world)
        await world.fetch("t", 0, isolation_level=1, partition_max=300 * KIB)
        world.cache.put("its own objects", object(), hot_bytes, hot=True)
        size_bytes = world.state.objects.size_bytes(segment.object_number)
        await world.lender.read(ObjectAsk(key_of(world, segment), 0, 10, size_bytes))
        assert world.reader.index_of(segment) is not None
        data = await world.fetch("t", 0, isolation_level=1, partition_max=1900 * KIB)
        assert bool(world.reader.index_of(segment)) == (not hot_bytes)
        assert committed(data) == []
