"""Readers of committed records after compaction on both sides of a lost marker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fetch.test_fetch_holes import rows, skip
from tests.fetch.test_fetch_segments import AT_ONCE, driver_of, merge
from tests.transactions import test_committed_reads_over_holes as holes
from tests.transactions.test_committed_reads_over_holes import producer_of, read
from tests.worlds.fetch_world import NOW_MS, World, fetch_world
from tidegate_protocol.records import Record, build_batch

MINUTE = 60_000
FINELY = replace(AT_ONCE, segment_bytes=1)


def keyed(value: str, timestamp: int = NOW_MS, **fields: int) -> bytes:
    """Return a batch of one record whose key is the first letter of its value."""
    data = value.encode()
    return build_batch([Record(0, timestamp, data[:1], data)], **fields)


async def compact(world: World) -> None:
    async with driver_of(world, AT_ONCE) as driver:
        while await driver.compact_once():
            pass
    await world.coordinator.catch_up()


@pytest.fixture(autouse=True)
def keyed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "batch", keyed)


# If the first record is superseded, only empty offsets remain before the hole.
@pytest.mark.parametrize(
    ("first", "shown"), [("a1", ["a1", "c1"]), ("c0", ["c1"])], ids=["kept", "superseded"]
)
async def test_compaction_keeps_a_hole(first: str, shown: list[str]) -> None:
    async with fetch_world() as [world]:
        configs = {"delete_retention_ms": str(MINUTE), "min_cleanable_dirty_ratio": "0"}
        await world.create("t", 1, cleanup_policy="compact", **configs)
        producer = await producer_of(world)
        await world.write(("t", 0, keyed(first)))
        await producer.write("aborted")
        world.now_ms = NOW_MS + 2 * MINUTE
        await world.create("tick")
        await producer.end(committed=False)
        await merge(world, FINELY)
        [at] = [at for at, row in enumerate(rows(world)) if row.base_offset == 2]
        await skip(world, at, at + 1)
        await producer.write("c1")
        await producer.end(committed=True)
        await merge(world, FINELY)
        for _ in range(3):
            await compact(world)
            assert not [row for row in rows(world) if row.base_offset <= 2 < row.next_offset]
            assert await read(world) == shown
            world.now_ms += 2 * MINUTE
            await world.create(f"tick{world.now_ms}")
            await world.write(("t", 0, keyed(f"x{world.now_ms}")))
            await merge(world, FINELY)
            shown = [each for each in shown if each[0] != "x"] + [f"x{world.now_ms}"]
