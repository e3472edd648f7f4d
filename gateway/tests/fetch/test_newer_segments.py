"""Segments of a newer release: errors name them, and only their partitions wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from tests.fetch.test_fetch_segments import driver_of, merge, read_all, segments_of, write_some
from tests.fetch.test_list_offsets import ask
from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_coordination.object_names.keys import object_key
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.list_offsets import ListOffsetsPartition
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import StoreMisconfigured


@asynccontextmanager
async def world_of_newer() -> AsyncIterator[tuple[World, str]]:
    """Yield a world with two partitions, the first with such a segment, and the object's key."""
    async with fetch_world() as [world]:
        await world.create("a", 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidegate_storage.objects.segment_format.MAJOR_VERSION", 257)
            await write_some(world, 3, "a", partitions=1)
            await merge(world)
        for number in range(3):
            await world.write(("a", 1, batch(f"1-{number}a", f"1-{number}b")))
        await merge(world)
        [number] = segments_of(world, "a", 0)
        yield world, object_key(world.state, world.state.objects.name(number))


async def test_a_fetch_may_be_asked_again() -> None:
    async with world_of_newer() as (world, key):
        answer = await world.fetch("a", 0)

        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(await read_all(world, "a", 1)) == 6
        partition = world.partition("a")
        with pytest.raises(UnknownVersion, match=f"object {key}: a newer release wrote .* 257"):
            await world.reader.parts(partition, partition.runs[0], 0)
        assert (world.reader.failed_reads, world.reader.verifier.corrupt_runs) == (1, 0)


async def test_a_search_by_time_in_a_newer_segment_gets_an_error() -> None:
    async with world_of_newer() as (world, _):
        codes = [
            (await ask(world, ListOffsetsPartition(each, timestamp=0)))[0].error_code
            for each in range(2)
        ]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


async def test_a_search_by_time_without_access_to_the_store_gets_an_error() -> None:
    async with world_of_newer() as (world, _):
        world.store.trouble = StoreMisconfigured("the credentials expired")
        world.store.is_away = True
        [answer] = await ask(world, ListOffsetsPartition(1, timestamp=0))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_unit_of_the_pipeline_with_a_newer_segment_fails_alone() -> None:
    async with world_of_newer() as (world, key):
        await write_some(world, 3, "a")
        async with driver_of(world) as driver:
            with capture_logs() as logs:
                published = await driver.run_once()
    [error] = [each["error"] for each in logs if each["log_level"] == "error"]
    assert error.startswith(f"object {key}: a newer release wrote this segment")
    assert (published, driver.counters.failed) == (1, 1)
