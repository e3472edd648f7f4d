"""Writing to compacted topics, compacting them, and reading them to their end."""

from __future__ import annotations

from tests.fetch.test_fetch_segments import AT_ONCE, driver_of
from tests.worlds.fetch_world import World, batches_of
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_protocol.records import Record, build_batch, decode_records, read_header

HOUR = 3_600_000
Row = tuple[int, bytes | None, bytes | None]
COMPACT = {"cleanup_policy": "compact", "delete_retention_ms": "60000"}


def keyed(*pairs: tuple[str, str | None], now_ms: int, codec: int = 0) -> bytes:
    records = [
        Record(at, now_ms, key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, codec=codec)


async def read_all(world: World, offset: int = 0, name: str = "t") -> list[Row]:
    """Read to the end as a client does, which continues after each batch, even an empty one."""
    found: list[Row] = []
    while offset < world.partition(name).next_offset:
        data = await world.fetch(name, offset, partition_max=300)
        assert data.error_code == 0
        batches = batches_of(data)
        assert batches, f"nothing at {offset}"
        for each in batches:
            records = decode_records(each, max_decompressed_bytes=1 << 20)
            found += [(r.offset, r.key, r.value) for r in records if r.offset >= offset]
            offset = max(offset, read_header(each).last_offset + 1)
    return found


async def work(world: World, settings: MergeSettings = AT_ONCE, rounds: int = 1) -> Driver:
    """Merge all objects and compact what is due."""
    async with driver_of(world, settings) as driver:
        for _ in range(rounds):
            while await driver.run_once():
                pass
            await driver.compact_once()
    await world.coordinator.catch_up()
    return driver


async def write(world: World, *pairs: tuple[str, str | None], codec: int = 0) -> None:
    await world.write(("t", 0, keyed(*pairs, now_ms=world.now_ms, codec=codec)))


async def wait_a_minute(world: World) -> None:
    world.now_ms += 61_000
    await world.create(f"tick-{world.now_ms}")  # the new entry advances log time
