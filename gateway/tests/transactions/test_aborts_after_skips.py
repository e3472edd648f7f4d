"""Readers of committed records after compaction removed the marker of an abort after a skipped run.

While the skipped WAL run is kept, the cluster state still has the aborted transaction.
"""

from __future__ import annotations

import pytest

from tests.fetch.test_fetch_holes import rows
from tests.fetch.test_fetch_segments import merge, segments_of
from tests.transactions import test_committed_reads_over_holes as holes
from tests.transactions.test_committed_reads_over_holes import producer_of, read
from tests.transactions.test_compaction_over_holes import FINELY, MINUTE, compact, keyed
from tests.worlds.fetch_world import World, fetch_world
from tidegate_coordination.rules.records.skips import Ending, EndSkips, Skip, SkipRuns, Unreadable


@pytest.fixture(autouse=True)
def keyed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "batch", keyed)


async def skip_and_compact(world: World) -> Unreadable:
    """Skip a WAL run, and compact the records after it until no marker of the abort is left."""
    configs = {"delete_retention_ms": str(MINUTE), "min_cleanable_dirty_ratio": "0"}
    await world.create("t", 1, cleanup_policy="compact", **configs)
    producer = await producer_of(world)
    await world.write(("t", 0, keyed("a")))
    await merge(world)
    await world.write(("t", 0, keyed("skipped")))
    skipped = Unreadable(world.partition("t").number, (rows(world)[1],))
    asked = SkipRuns(world.coordinator.incarnation, (skipped,))
    assert await world.coordinator.propose(asked) == (Skip.SKIPPED,)
    await producer.write("b")
    await producer.end(committed=False)
    await producer.write("committed")
    await producer.end(committed=True)
    for number in range(4):
        await merge(world, FINELY)
        await compact(world)
        world.now_ms += 2 * MINUTE
        await world.create(f"tick{number}")
        await world.write(("t", 0, keyed(f"x{number}")))
    return skipped


async def test_an_abort_without_a_marker_hides_no_later_transaction() -> None:
    async with fetch_world() as [world]:
        await skip_and_compact(world)
        assert await read(world) == ["a", "committed", "x2", "x3"]


@pytest.mark.parametrize("is_merged", [False, True])
async def test_an_abort_without_a_marker_hides_nothing_once_the_run_is_back(
    is_merged: bool,
) -> None:
    async with fetch_world() as [world]:
        skipped = await skip_and_compact(world)
        asked = EndSkips(world.coordinator.incarnation, (skipped,), True, even_if_compacted=True)
        assert await world.coordinator.propose(asked) == (Ending.ENDED,)
        if is_merged:
            await merge(world)
            assert len(segments_of(world, "t")) == len(rows(world))
        assert await read(world) == ["a", "skipped", "committed", "x2", "x3"]
