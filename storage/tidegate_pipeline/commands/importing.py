"""`tidegate pipeline import`: copies the backlog of a link's topics, and ends."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from random import Random
from typing import Final

import trio

from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.visitor import keep_lease
from tidegate_coordination.existing import open_existing_store
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ..costs import CostBook
from ..importing.import_driver import ImportDriver
from ..importing.local_import import LocalImportRunner
from ..importing.partition_import import PartitionImport
from ..importing.parts import ImportRunner
from ..importing.readers import Origin
from ..importing.visit import begin_visit, leave_link, take_link
from ..tasks.memory import keep_memory
from .import_sources import ImportOptions, opened_side
from .options import Options, chosen_runner
from .parts import LEAVE_SECONDS, checked_state, opened_shared
from .progress import ImportBar, is_terminal
from .report import STOPPED, check_level, run_command, size_text
from .stopping import StoppedAtOnce, Stopping, stopping_by_signals

TOPICS_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.25
LOCAL_TASKS: Final = 2
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Done:
    driver: ImportDriver
    runner: str
    topics: int
    seconds: float
    is_stopped: bool

    @property
    def problems(self) -> list[PartitionImport]:
        return [each for each in self.driver.partitions if each.problem]

    @property
    def rate(self) -> float:
        return self.driver.counters.size_bytes / _MIB / max(self.seconds, 0.001)

    @property
    def exit_code(self) -> int:
        if self.is_stopped:
            return STOPPED
        return 1 if self.problems else 0


def run_import(options: Options, wanted: ImportOptions, *, as_json: bool, log_level: str) -> int:
    """Import; return the exit code."""

    def work() -> int:
        check_level(log_level)
        kind, sentence = chosen_runner(options)
        if sentence:
            _say(sentence)
        with ImportBar(is_shown=is_terminal() and not as_json) as bar:
            done = trio.run(_import, options, wanted, kind, bar)
        print(_json(done) if as_json else _text(done))
        return done.exit_code

    return run_command(work)


async def _import(options: Options, wanted: ImportOptions, kind: str, bar: ImportBar) -> _Done:
    async with (
        stopping_by_signals() as stopping,
        opened_shared(options, stopping, CostBook(time.time)) as shared,
    ):
        with stopping.until_asked():
            state = await checked_state(shared)
        link = _link(state, wanted.link)
        async with (
            opened_side(link, state, wanted) as (side, origin),
            _opened_runner(options, kind, shared.store_url, origin, stopping) as runner,
        ):
            rng = Random(os.urandom(32))
            coordinator = Coordinator(shared.log, state, rng=rng, wall_clock=time.time)
            driver = ImportDriver(
                coordinator,
                runner,
                side,
                link.name,
                decompressed_bytes=DECOMPRESSED_BYTES if wanted.checks_records else None,
                on_progress=bar,
            )
            return await _live(driver, coordinator, wanted, kind, stopping)
    raise StoppedAtOnce


def _link(state: ClusterState, name: str) -> Link:
    link = state.links.by_name.get(name)
    if link is None:
        known = ", ".join(sorted(state.links.by_name)) or "none"
        raise BadSource(f"there is no link {name}, but: {known}; `tidegate link add` makes one")
    return link


@asynccontextmanager
async def _opened_runner(
    options: Options, kind: str, url: str, origin: Origin, stopping: Stopping
) -> AsyncGenerator[ImportRunner, None]:
    """Open the chosen runner; Spark starts with its first task."""
    if kind == "local":
        _ = keep_memory()
        store = open_existing_store(url)
        try:
            yield LocalImportRunner(store, origin, at_once=LOCAL_TASKS)
        finally:
            await store.aclose()
        return
    # Spark is an extra.
    from ..runners.spark_import import SparkImportRunner
    from ..runners.spark_session import ResidentSpark, SparkSettings

    settings = SparkSettings(options.master, max_failures=options.max_failures)
    resident = ResidentSpark(settings)
    stopping.tell_by_force(resident.kill)
    try:
        yield SparkImportRunner(url, origin, resident)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(resident.close)


async def _live(
    driver: ImportDriver,
    coordinator: Coordinator,
    wanted: ImportOptions,
    kind: str,
    stopping: Stopping,
) -> _Done:
    """Run one incarnation of the driver."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        with stopping.until_asked():
            rng = Random(os.urandom(32))
            await begin_visit(coordinator, rng=rng, software_version=version("tidegate"))
        nursery.start_soon(keep_lease, coordinator)
        try:
            with stopping.until_asked():
                await take_link(coordinator, wanted.link, _say_busy(wanted.link))
                _say(f"the gateways' mirrors of link {wanted.link} stand aside for this import")
                topics = await _topics(coordinator.state, wanted)
            stopping.tell(driver.stop)
            began = time.monotonic()
            await driver.run(topics)
            seconds = time.monotonic() - began
        finally:
            with trio.move_on_after(LEAVE_SECONDS) as leaving:
                leaving.shield = True
                await leave_link(coordinator, wanted.link)
        nursery.cancel_scope.cancel()
    return _Done(driver, kind, len(topics), seconds, stopping.is_asked)


def _say_busy(link: str) -> Callable[[], None]:
    """Return a function that logs once why the import waits."""
    said: list[bool] = []

    def say() -> None:
        if not said:
            said.append(True)
            _say(f"another import of link {link} is at work, or died and holds its lease; waiting")

    return say


def _say(text: str) -> None:
    print(f"tidegate: {text}", file=sys.stderr, flush=True)


async def _topics(state: ClusterState, wanted: ImportOptions) -> Sequence[Topic]:
    """Return the topics to import, in the order of their names.

    A gateway makes the topics of a new link a moment later.

    Raises:
      BadSource: the link mirrors no topic, or not all topics that were named.
    """
    with trio.move_on_after(TOPICS_SECONDS):
        while _missing(state, wanted):  # noqa: ASYNC110 - the log brings them
            await trio.sleep(LOOK_SECONDS)
    missing = _missing(state, wanted)
    if missing:
        raise BadSource(f"link {wanted.link} mirrors {missing}: see `tidegate link status`")
    topics = sorted(state.links.topics_of(wanted.link), key=lambda each: each.name)
    return [each for each in topics if each.name in wanted.topics or not wanted.topics]


def _missing(state: ClusterState, wanted: ImportOptions) -> str:
    present = {each.name for each in state.links.topics_of(wanted.link)}
    lacking = sorted(set(wanted.topics) - present)
    if lacking:
        return f"no topic {', '.join(lacking)}"
    return "" if present else "no topic yet"


def _json(done: _Done) -> str:
    counters = done.driver.counters
    return json.dumps(
        {
            "runner": done.runner,
            "topics": done.topics,
            "partitions": len(done.driver.partitions),
            "bytes": counters.size_bytes,
            "batches": counters.batches,
            "objects": counters.objects,
            "failed": counters.failed,
            "seconds": round(done.seconds, 3),
            "mib_per_second": round(done.rate, 1),
            "problems": {each.name: each.problem for each in done.problems},
            "stopped": done.is_stopped,
        }
    )


def _text(done: _Done) -> str:
    counters = done.driver.counters
    partitions = f"{done.topics} topics, {len(done.driver.partitions)} partitions"
    lines = [
        f"imported {size_text(counters.size_bytes)} of {partitions}: {counters.batches} batches in"
        f" {counters.objects} objects, in {done.seconds:.1f} s ({done.rate:.1f} MiB/s)"
    ]
    if done.is_stopped:
        lines.append("stopped before the end: the same command goes on")
    lines += [f"PROBLEM {each.name}: {each.problem}" for each in done.problems]
    return "\n".join(lines)
