"""A world whose objects are files, for tasks on a real Spark; and means to hold and kill tasks.

A source that is a named pipe holds a task where a test wants it: the worker waits in open().
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import trio
from msgspec.structs import replace

from tests.fetch.test_fetch_segments import write_some
from tests.worlds.fetch_world import NOW_MS, World, fetch_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.cluster import ClusterState
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.tasks.work import MergeTask, Runner, UnitResult
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

SETTINGS = MergeSettings(rest_ms=0, patience_ms=0, chunk_bytes=200, task_bytes=1)
PATIENCE_SECONDS = 240.0
INCARNATION = 77


class Folder:
    """A world's objects as files; tasks: one for each partition."""

    def __init__(self, world: World, path: Path, tasks: list[MergeTask]) -> None:
        self.world = world
        self.tasks = tasks
        self.path = path
        self.url = f"file:{path}"

    def source(self, task: MergeTask) -> Path:
        """Return the last file that a task reads."""
        return self.path / task.units[0].sources[-1].key


@asynccontextmanager
async def folder_with(path: Path, *topics: str) -> AsyncIterator[Folder]:
    """Yield a world that wrote topics of one partition each, each in separate objects."""
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
    """A runner that only records the tasks that a driver hands out."""

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
    """Copy the objects that the target lacks."""
    there = {each.key for each in await target.list("")}
    for each in await source.list(""):
        if each.key not in there:
            await target.put(each.key, await source.get(each.key))


async def results_of(runner: Runner, tasks: list[MergeTask]) -> list[UnitResult]:
    with trio.fail_after(PATIENCE_SECONDS):
        found = [result async for result in runner.run(tasks)]
    return sorted(found, key=lambda each: each.number)


class Held:
    """A file that is a pipe for now, so its reader waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.with_name(f"{path.name}.kept")
        path.rename(self._kept)
        os.mkfifo(path)

    async def when_read(self, call: Callable[[], None]) -> None:
        """Wait until a reader opens the file, and call."""
        handle = await trio.to_thread.run_sync(
            os.open, self._path, os.O_WRONLY, abandon_on_cancel=True
        )
        call()
        os.close(handle)

    def let_go(self) -> None:
        """Restore the file."""
        if self._kept.exists():
            # Wake up a reader that waits in open().
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
    """Return the process ids of Spark's JVMs, which are our children."""
    found = children(os.getpid())
    return [pid for pid in found if "java" in Path(f"/proc/{pid}/exe").resolve().name]


def workers() -> list[int]:
    """Return the process ids of Python workers: children of the daemon, which is Spark's child."""
    return [worker for jvm in jvms() for daemon in children(jvm) for worker in children(daemon)]


def kill_workers() -> None:
    """Kill all workers, even idle ones.

    Spark may give a task to a killed worker before it notices, so that the task fails once more.
    """
    for worker in workers():
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


async def end_workers() -> None:
    """Kill all workers, and return once Spark's daemon has noticed."""
    with trio.fail_after(PATIENCE_SECONDS):
        while workers():
            kill_workers()
            await trio.sleep(0.05)
