"""Tasks on a real Spark: the same segments as anywhere, whatever dies.

A source that is a named pipe holds a task where a test wants it: the worker waits in open().
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trio
from msgspec.structs import replace

from tests.fetch_world import NOW_MS, World, fetch_world
from tests.test_fetch_segments import read_all, write_some
from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.state.cluster import ClusterState
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.local_runner import LocalRunner
from tidegate_pipeline.options import why_no_spark
from tidegate_pipeline.plan import MergeSettings
from tidegate_pipeline.spark_trouble import AttemptsUsedUp, NoSpark
from tidegate_pipeline.stopping import stopping_by_signals
from tidegate_pipeline.work import MergeTask, Runner, UnitResult
from tidegate_storage.load import open_store
from tidegate_storage.object_store import ObjectStore

if why_no_spark():
    pytest.skip(why_no_spark(), allow_module_level=True)

from tidegate_pipeline.spark_runner import UNSEEN_ATTEMPTS, SparkRunner, spark_runner
from tidegate_pipeline.spark_session import ResidentSpark, SparkSettings

SETTINGS = MergeSettings(rest_ms=0, patience_ms=0, chunk_bytes=200, task_bytes=1)
PATIENCE_SECONDS = 60.0
INCARNATION = 77


@pytest.fixture(scope="module")
def resident() -> Iterator[ResidentSpark]:
    spark = ResidentSpark(SparkSettings("local[2]", max_failures=2))
    yield spark
    spark.close()


class Folder:
    """What a world wrote, as files; tasks: one for each of its partitions."""

    def __init__(self, world: World, path: Path, tasks: list[MergeTask]) -> None:
        self.world = world
        self.tasks = tasks
        self.path = path
        self.url = f"file:{path}"

    def source(self, task: MergeTask) -> Path:
        """The file that a task reads last."""
        return self.path / task.units[0].sources[-1].key


@asynccontextmanager
async def folder_with(path: Path, *topics: str) -> AsyncIterator[Folder]:
    """A world that wrote topics of one partition each, in objects of their own."""
    async with fetch_world() as [world]:
        for name in topics:
            await world.create(name)
            await write_some(world, 3, name, 1)
        await copy(world.store, open_store(f"file:{path}"))
        planner = Planner()
        async with driver_of(world, planner) as driver:
            await driver.run_once()
            await driver.leave()
        yield Folder(world, path, planner.tasks)


class Planner:
    """A runner that only takes note of what a driver wants."""

    def __init__(self) -> None:
        self.tasks: list[MergeTask] = []

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        self.tasks += [replace(task, incarnation=INCARNATION) for task in tasks]
        return
        yield


@asynccontextmanager
async def driver_of(world: World, runner: Runner) -> AsyncIterator[Driver]:
    coordinator = Coordinator(
        world.memory_log, ClusterState(), rng=Random(7), wall_clock=lambda: NOW_MS / 1000
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        driver = Driver(coordinator, runner, SETTINGS, rng=Random(8), software_version="1")
        await driver.register()
        yield driver
        nursery.cancel_scope.cancel()


async def copy(source: ObjectStore, target: ObjectStore) -> None:
    """Copy what the target does not have."""
    there = {each.key for each in await target.list("")}
    for each in await source.list(""):
        if each.key not in there:
            await target.put(each.key, await source.get(each.key))


async def results_of(runner: Runner, tasks: list[MergeTask]) -> list[UnitResult]:
    with trio.fail_after(PATIENCE_SECONDS):
        found = [result async for result in runner.run(tasks)]
    return sorted(found, key=lambda each: each.number)


async def test_the_same_segments_as_without_spark(resident: ResidentSpark, tmp_path: Path) -> None:
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


async def test_a_missing_object_fails_its_unit_alone(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        lost = folder.source(folder.tasks[0])
        lost.unlink()
        async with spark_runner(folder.url, resident) as runner:
            failed, done = await results_of(runner, folder.tasks)
    assert str(lost.relative_to(tmp_path)) in failed.error
    assert (done.error, done.records) == ("", 6)


async def test_what_a_task_raises_is_told_of_each_unit(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with (
        folder_with(tmp_path, "t") as folder,
        spark_runner("file://elsewhere/x", resident) as runner,
    ):
        [failed] = await results_of(runner, folder.tasks)
    assert failed.error.startswith("StoreMisconfigured: 'file://elsewhere/x' names no folder")
    assert failed.segments == ()


async def test_a_task_whose_worker_dies_is_done_again(
    resident: ResidentSpark, tmp_path: Path
) -> None:
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


async def test_a_task_that_dies_each_time_is_lost_and_others_come_at_once(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        good, bad = folder.tasks
        async with (
            held(folder.source(bad)) as pipe,
            spark_runner(folder.url, resident) as runner,
        ):
            found: list[int] = []
            with trio.fail_after(PATIENCE_SECONDS):
                async for result in runner.run([bad, good]):
                    # It came while the other one is held.
                    found.append(result.number)
                    for _ in range(2):
                        await pipe.when_read(kill_workers)
    assert found == [good.units[0].number]


async def test_stop_cancels_what_runs_and_keeps_what_came(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t", "u") as folder:
        good, bad = folder.tasks
        async with held(folder.source(bad)) as pipe, spark_runner(folder.url, resident) as runner:
            found: list[UnitResult] = []
            with trio.fail_after(PATIENCE_SECONDS):
                async for result in runner.run([bad, good]):
                    found.append(result)
                    await pipe.when_read(runner.stop)
            assert [each.number for each in found] == [good.units[0].number]
            await no_job_is_left(resident)
            pipe.let_go()
            assert await results_of(runner, [bad]) == []
        async with spark_runner(folder.url, resident) as another:
            assert [each.error for each in await results_of(another, [bad])] == [""]


async def test_a_stop_before_the_first_batch_holds(tmp_path: Path) -> None:
    unstarted = ResidentSpark(SparkSettings("local[1]"))
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, unstarted) as runner:
        runner.stop()
        assert await results_of(runner, folder.tasks) == []


async def test_a_caller_that_goes_away_leaves_no_job(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t") as folder:
        async with held(folder.source(folder.tasks[0])) as pipe, trio.open_nursery() as nursery:

            async def use(runner: SparkRunner) -> None:
                assert [each async for each in runner.run(folder.tasks)] == []

            async with spark_runner(folder.url, resident) as runner:
                nursery.start_soon(use, runner)
                with trio.fail_after(PATIENCE_SECONDS):
                    await pipe.when_read(nursery.cancel_scope.cancel)
        await no_job_is_left(resident)


async def test_a_spark_that_died_is_started_again(resident: ResidentSpark, tmp_path: Path) -> None:
    async with (
        folder_with(tmp_path, "t") as folder,
        spark_runner(folder.url, resident) as runner,
    ):
        [first] = await results_of(runner, folder.tasks)
        [one] = jvms()
        os.kill(one, signal.SIGKILL)
        [second] = await results_of(runner, folder.tasks)
    assert (first.error, second.error) == ("", "")
    # The new one counts from 0, and the names of segments must differ.
    assert second.segments[0].attempt > first.segments[0].attempt + 1_000


async def test_sessions_that_die_unseen_use_up_numbers_of_attempts(
    resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_pipeline.spark_runner.MAX_ATTEMPT", 4 * UNSEEN_ATTEMPTS - 1)
    async with (
        folder_with(tmp_path, "t") as folder,
        spark_runner(folder.url, resident) as runner,
    ):
        [first] = await results_of(runner, folder.tasks)
        lost = folder.source(folder.tasks[0])
        lost.rename(tmp_path / "kept")
        resident.close()
        [unseen] = await results_of(runner, folder.tasks)
        (tmp_path / "kept").rename(lost)
        resident.close()
        [third] = await results_of(runner, folder.tasks)
        assert (first.error, unseen.segments, third.error) == ("", (), "")
        assert third.segments[0].attempt >= 2 * UNSEEN_ATTEMPTS
        resident.close()
        with pytest.raises(AttemptsUsedUp):
            await results_of(runner, folder.tasks)
        # The next life's.
        [again] = await results_of(runner, folder.tasks)
        assert again.segments[0].attempt < UNSEEN_ATTEMPTS
    resident.close()
    assert jvms() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("signals", [1, 2])
async def test_a_start_that_hangs_is_killed(
    signals: int, resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident.close()  # PySpark would give its session to any other
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    started = tmp_path / "started"
    os.mkfifo(started)
    java.write_text(f"""#!/bin/sh
[ "$1" = -version ] && {{ echo 'openjdk version "17.0.1"' >&2; exit 0; }}
echo > '{started}'
exec sleep 600
""")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("tidegate_pipeline.stopping.FORCE_SECONDS", 0.1)
    hanging = ResidentSpark(SparkSettings("local[1]"))
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            folder_with(tmp_path, "t") as folder,
            stopping_by_signals() as stopping,
            spark_runner(folder.url, hanging) as runner,
            trio.open_nursery() as nursery,
        ):
            stopping.tell(runner.stop)
            stopping.tell_by_force(hanging.kill)

            async def signal_us() -> None:
                await trio.to_thread.run_sync(started.read_bytes, abandon_on_cancel=True)
                for _ in range(signals):
                    os.kill(os.getpid(), signal.SIGTERM)
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(signal_us)
            assert await results_of(runner, folder.tasks) == []
    # PySpark leaves a pipe open; what is said of it belongs to this test.
    gc.collect()


async def test_a_first_start_that_fails_is_told(
    resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident.close()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    unstarted = ResidentSpark(SparkSettings("local[1]"))
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, unstarted) as runner:
        with pytest.raises(NoSpark, match="Spark does not start: NoJava: JAVA_HOME=/nowhere"):
            await results_of(runner, folder.tasks)


def written(folder: Path) -> list[bytes]:
    """The segments in a folder."""
    return [each.read_bytes() for each in sorted(folder.rglob(f"*-{INCARNATION}-*"))]


async def no_job_is_left(resident: ResidentSpark) -> None:
    """Spark takes note of a job's end a moment after who ran it."""
    tracker = resident.running().session.sparkContext.statusTracker()
    with trio.fail_after(PATIENCE_SECONDS):
        while await trio.to_thread.run_sync(tracker.getActiveJobsIds):  # noqa: ASYNC110
            await trio.sleep(0.05)


class Held:
    """A file that is a pipe for now: who reads it waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.with_name(f"{path.name}.kept")
        path.rename(self._kept)
        os.mkfifo(path)

    async def when_read(self, call: Callable[[], None]) -> None:
        """Wait until somebody reads it, and call."""
        handle = await trio.to_thread.run_sync(
            os.open, self._path, os.O_WRONLY, abandon_on_cancel=True
        )
        call()
        os.close(handle)

    def let_go(self) -> None:
        """Make it the file that it was."""
        if self._kept.exists():
            # Who waits in open() must wake up.
            handle = os.open(self._path, os.O_RDWR)
            self._kept.rename(self._path)
            os.close(handle)


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[Held]:
    pipe = Held(path)
    try:
        yield pipe
    finally:
        pipe.let_go()


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == pid:
            found.append(int(stat.parent.name))
    return found


def jvms() -> list[int]:
    """Spark's, which are our children."""
    found = children(os.getpid())
    return [pid for pid in found if "java" in Path(f"/proc/{pid}/exe").resolve().name]


def kill_workers() -> None:
    """Kill Python's workers: the children of the daemon, which is Spark's child."""
    for jvm in jvms():
        for daemon in children(jvm):
            for worker in children(daemon):
                os.kill(worker, signal.SIGKILL)
