"""A source that holds malformed batches, or headers that say a false time."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tidegate_coordination.events.cluster import RUN_WALKED
from tidegate_coordination.state.records.partitions import Partition
from tidegate_gateway.migration.report import links_report
from tidegate_pipeline.importing import broker_reader
from tidegate_protocol.batches import BatchHeader, read_header, with_header

from .test_imports import importing, linked
from .test_mirrors import World, becomes, mirroring


def rewrite(world: World, **head: int) -> None:
    """Rewrite the header of the source's last batch, with its CRC."""
    log = world.log()
    header: BatchHeader = read_header(log.batches[-1].raw)._replace(**head)
    raw, header = with_header(memoryview(log.batches[-1].raw), header)
    log.batches[-1] = log.batches[-1]._replace(raw=bytes(raw), header=header)


def problems(world: World) -> list[dict[str, object]]:
    gateway = world.gateways[0].gateway
    found = links_report(gateway.links, gateway.coordinator.state)[0]["problems"]
    assert isinstance(found, list)
    return found


async def test_a_mirror_waits_at_a_malformed_batch_and_names_it(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(2)
        await world.link()
        await world.copied()
        world.write(2)
        good = world.log().batches[-1]
        rewrite(world, record_count=1)
        world.write(1)
        await becomes(lambda: problems(world))
        [problem] = problems(world)
        assert (problem["topic"], problem["partition"]) == ("t", 0)
        assert "offset 2: the batch is malformed" in str(problem["problem"])
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 2
        world.log().batches[1] = good
        await world.copied()
        assert not problems(world)


async def test_without_validation_a_mirror_copies_what_the_source_has(
    autojump_clock: MockClock,
) -> None:
    async with mirroring(more={"record.validation": "header"}) as world:
        world.write(2)
        rewrite(world, record_count=1)
        await world.link()
        copy = await world.copied()
        assert not copy.runs[0].flags & RUN_WALKED


@pytest.mark.parametrize("claimed", [-1, 0, 1 << 50])
async def test_a_run_has_the_time_of_its_records_and_the_bytes_of_the_source(
    claimed: int, autojump_clock: MockClock
) -> None:
    async with mirroring() as world:
        world.write(3)
        newest = world.log().batches[-1].header.max_timestamp
        rewrite(world, max_timestamp=claimed)
        await world.link()
        copy = await world.copied()  # the same bytes
        assert copy.runs[0].max_timestamp == newest
        assert not copy.runs[0].flags & RUN_WALKED


async def test_mirrored_runs_age_from_the_time_of_their_records(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        newest = world.log().batches[-1].header.max_timestamp
        await world.link()
        copy = await world.copied()
        assert copy.runs[0].flags & RUN_WALKED
        state = world.gateways[0].gateway.coordinator.state
        assert state.newest_at_ms(copy.runs[0]) == newest


@pytest.mark.parametrize("before", [0, 1, 7])
async def test_an_import_copies_up_to_a_malformed_batch_and_names_it(
    before: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reader, "FETCH_BYTES", 200)
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(before):
            world.write(1)
        world.write(2)
        good = world.log().batches[-1]
        rewrite(world, record_count=1)
        world.write(1)
        world.write(3, 1)
        await first.run()
        [problem] = [each for each in first.driver.partitions if each.problem]
        assert problem.name == "t-0"
        assert f"offset {before}: the batch is malformed" in problem.problem
        ends = [world.copy(index) for index in (0, 1)]
        assert [each.next_offset if each is not None else -1 for each in ends] == [before, 3]
        world.log().batches[before] = good
        await first.run()
        assert first.problems == []
        assert all_are_walked(await world.copied())


async def test_without_validation_an_import_copies_what_the_source_has(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world, importing(world, decompressed_bytes=None) as first:
        await linked(world)
        world.write(2)
        rewrite(world, record_count=1)
        await first.run()
        assert first.problems == []
        assert not all_are_walked(await world.copied())


async def test_imported_runs_have_the_time_of_their_records(autojump_clock: MockClock) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        world.write(3)
        newest = world.log().batches[-1].header.max_timestamp
        rewrite(world, max_timestamp=0)
        await first.run()
        copy = await world.copied()
        assert copy.runs[0].max_timestamp == newest
        assert not all_are_walked(copy)


def all_are_walked(copy: Partition) -> bool:
    return all(copy.runs[at].flags & RUN_WALKED for at in range(len(copy.runs)))
