"""A Spark session: how it starts, ends, is stopped, dies, and restarts."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from tests.worlds.spark_world import PATIENCE_SECONDS, folder_with, held, jvms, results_of
from tidegate_pipeline.commands.options import why_no_spark
from tidegate_pipeline.commands.stopping import stopping_by_signals
from tidegate_pipeline.runners.spark_trouble import AttemptsUsedUp, NoSpark
from tidegate_pipeline.tasks.work import UnitResult

if why_no_spark():
    pytest.skip(why_no_spark(), allow_module_level=True)

from tidegate_pipeline.runners.spark_runner import UNSEEN_ATTEMPTS, SparkRunner, spark_runner
from tidegate_pipeline.runners.spark_session import ResidentSpark, SparkSettings, configs_of


@pytest.fixture(scope="module")
def resident() -> Iterator[ResidentSpark]:
    spark = ResidentSpark(SparkSettings("local[2]", max_failures=2))
    yield spark
    spark.close()


async def test_stop_cancels_running_jobs_and_keeps_results(
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


class StopAtFirst(trio.abc.Instrument):
    """Stops a runner just before its first job starts."""

    def __init__(self, runner: SparkRunner) -> None:
        self._runner = runner
        self.is_done = False

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith("_do_task"):
            self.is_done = True
            self._runner.stop()


async def test_a_stop_just_before_a_job_starts_ends_the_run(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, resident) as runner:
        stop = StopAtFirst(runner)
        trio.lowlevel.add_instrument(stop)
        try:
            assert await results_of(runner, folder.tasks) == []
        finally:
            trio.lowlevel.remove_instrument(stop)
    assert stop.is_done


async def test_a_stop_before_the_first_batch_ends_the_run(tmp_path: Path) -> None:
    unstarted = ResidentSpark(SparkSettings("local[1]"))
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, unstarted) as runner:
        runner.stop()
        assert await results_of(runner, folder.tasks) == []


async def test_a_caller_that_closes_the_run_leaves_no_job(
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


async def test_a_spark_session_that_died_is_restarted(
    resident: ResidentSpark, tmp_path: Path
) -> None:
    async with (
        folder_with(tmp_path, "t") as folder,
        spark_runner(folder.url, resident) as runner,
    ):
        [first] = await results_of(runner, folder.tasks)
        [one] = jvms()
        os.kill(one, signal.SIGKILL)
        with capture_logs() as logs:
            [second] = await results_of(runner, folder.tasks)
    assert (first.error, second.error) == ("", "")
    assert [each["java"][-1] for each in logs if "java" in each] == ["it was ended by signal 9"]
    # The new session counts attempts from 0, but the names of segments must differ.
    assert second.segments[0].attempt > first.segments[0].attempt + 1_000


async def test_sessions_that_die_unseen_use_up_attempt_numbers(
    resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidegate_pipeline.runners.spark_runner.MAX_ATTEMPT", 4 * UNSEEN_ATTEMPTS - 1
    )
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
        # The next incarnation's attempts begin at 0.
        [again] = await results_of(runner, folder.tasks)
        assert again.segments[0].attempt < UNSEEN_ATTEMPTS
    resident.close()
    assert jvms() == []


@pytest.mark.parametrize("signals", [1, 2])
async def test_a_start_that_hangs_is_killed(
    signals: int, resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident.close()  # PySpark would give this session to the next runner
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
    monkeypatch.setattr("tidegate_pipeline.commands.stopping.FORCE_SECONDS", 0.1)
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
    # PySpark leaves its pipe to the JVM open; a warning of it fails this test.
    gc.collect()


async def test_a_local_spark_inherits_nothing_of_another_spark(
    resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident.close()
    defaults = tmp_path / "conf"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file:{tmp_path}/not-there\n"
    )
    theirs = {
        "SPARK_CONF_DIR": str(defaults),
        "SPARK_HOME": "/another/spark",
        "SPARK_LOCAL_DIRS": "/another/disk",
        "PYSPARK_PYTHON": "/another/python",
        "PYSPARK_SUBMIT_ARGS": "--master spark://another:7077 pyspark-shell",
    }
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    local = ResidentSpark(SparkSettings("local[1]"))
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, local) as runner:
        assert len(await results_of(runner, folder.tasks)) == len(folder.tasks)
    await trio.to_thread.run_sync(local.close)
    assert {name: os.environ.get(name) for name in theirs} == theirs


async def test_a_first_start_that_fails_raises_no_spark(
    resident: ResidentSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident.close()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    unstarted = ResidentSpark(SparkSettings("local[1]"))
    async with folder_with(tmp_path, "t") as folder, spark_runner(folder.url, unstarted) as runner:
        with pytest.raises(NoSpark, match="Spark does not start: NoJava: JAVA_HOME=/nowhere"):
            await results_of(runner, folder.tasks)


async def no_job_is_left(resident: ResidentSpark) -> None:
    """Wait until Spark has no job; it records a job's end shortly after the caller sees it."""
    tracker = resident.running().session.sparkContext.statusTracker()
    with trio.fail_after(PATIENCE_SECONDS):
        while await trio.to_thread.run_sync(tracker.getActiveJobsIds):  # noqa: ASYNC110
            await trio.sleep(0.05)


def test_a_job_of_one_task_is_speculated_upon_only_by_its_duration() -> None:
    threshold = "spark.speculation.task.duration.threshold"
    assert configs_of(SparkSettings(speculation=True))[threshold] == "120s"
    assert threshold not in configs_of(SparkSettings())
