"""Tasks on a real Spark: the same segments as without it, even if workers die."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import trio

from tests.fetch.test_fetch_segments import read_all
from tests.worlds.spark_world import (
    INCARNATION,
    PATIENCE_SECONDS,
    copy,
    driver_of,
    end_workers,
    folder_with,
    held,
    kill_workers,
    results_of,
)
from tidegate_pipeline.commands.options import why_no_spark
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_pipeline.tasks.work import UnitResult
from tidegate_storage.stores.load import open_store

if why_no_spark():
    pytest.skip(why_no_spark(), allow_module_level=True)

from tidegate_pipeline.runners.spark_runner import spark_runner
from tidegate_pipeline.runners.spark_session import ResidentSpark, SparkSettings


@pytest.fixture(scope="module")
def resident() -> Iterator[ResidentSpark]:
    spark = ResidentSpark(SparkSettings("local[2]", max_failures=2))
    yield spark
    spark.close()


async def test_tasks_write_the_same_segments_as_without_spark(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u", "v") as folder:
        async with spark_runner(folder.url, resident) as runner:
            by_spark = await results_of(runner, folder.tasks)
        attempts = count(5_000)
        local = LocalRunner(open_store(folder.url), next_attempt=lambda: next(attempts))
        by_hand = await results_of(local, folder.tasks)

    def without_attempt(result: UnitResult) -> list[object]:
        [segment] = result.segments
        return [result.number, result.records, result.digest, segment.size_bytes, segment.check]

    assert [each.error for each in by_spark] == [""] * 3
    assert [without_attempt(each) for each in by_spark] == [
        without_attempt(each) for each in by_hand
    ]
    bodies = written(tmp_path)
    assert len(bodies) == 6
    assert len(set(bodies)) == 3


async def test_a_driver_publishes_what_spark_wrote(resident: ResidentSpark, tmp_path: Path) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        world = folder.world
        before = [await read_all(world, name) for name in ("t", "u")]
        async with (
            spark_runner(folder.url, resident) as runner,
            driver_of(world, runner) as driver,
        ):
            assert await driver.run_once() == 2
            assert await driver.run_once() == 0
        await world.coordinator.catch_up()
        await copy(open_store(folder.url), world.store)

        assert [len(world.partition(name).runs) for name in ("t", "u")] == [1, 1]
        assert [await read_all(world, name) for name in ("t", "u")] == before


async def test_on_spark_a_missing_object_fails_its_unit_alone(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        lost = folder.source(folder.tasks[0])
        lost.unlink()
        async with spark_runner(folder.url, resident) as runner:
            failed, done = await results_of(runner, folder.tasks)
    assert str(lost.relative_to(tmp_path)) in failed.error
    assert (done.error, done.records) == ("", 6)


async def test_an_error_of_a_task_is_in_the_result_of_each_unit(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with (
        folder_with(tmp_path, "t") as folder,
        spark_runner("file://elsewhere/x", resident) as runner,
    ):
        [failed] = await results_of(runner, folder.tasks)
    assert failed.error.startswith("StoreMisconfigured: 'file://elsewhere/x' names no folder")
    assert failed.segments == ()


async def test_a_task_whose_worker_dies_is_retried(resident: ResidentSpark, tmp_path: Path) -> None:
    # With only one worker, the test knows which process to kill.
    await end_workers()
    async with (
        folder_with(tmp_path, "t") as folder,
        held(folder.source(folder.tasks[0])) as pipe,
        spark_runner(folder.url, resident) as runner,
        trio.open_nursery() as nursery,
    ):

        async def kill_once() -> None:
            await pipe.when_read(kill_workers)
            pipe.let_go()

        nursery.start_soon(kill_once)
        [result] = await results_of(runner, folder.tasks)
    assert (result.error, result.records) == ("", 6)


async def test_a_task_whose_worker_always_dies_is_lost_and_delays_no_other(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        good, bad = folder.tasks
        async with (
            held(folder.source(bad)) as pipe,
            spark_runner(folder.url, resident) as runner,
            trio.open_nursery() as nursery,
        ):

            async def kill_each_time() -> None:
                while True:
                    await pipe.when_read(kill_workers)

            found: list[int] = []
            with trio.fail_after(PATIENCE_SECONDS):
                async for result in runner.run([bad, good]):
                    # The result came while the other task was held.
                    found.append(result.number)
                    nursery.start_soon(kill_each_time)
            nursery.cancel_scope.cancel()
    assert found == [good.units[0].number]


def written(folder: Path) -> list[bytes]:
    """The segments in a folder."""
    return [each.read_bytes() for each in sorted(folder.rglob(f"*-{INCARNATION}-*"))]
