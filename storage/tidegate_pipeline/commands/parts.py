"""The parts of the commands: log, store, runner and driver, opened and closed here."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.existing import open_existing_store, open_followed_log, sqlite_path
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.shown import shown_log, shown_store
from tidegate_storage.objects.ownership import check_owner, read_owner
from tidegate_storage.stores.object_store import (
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from ..costs import WRITE_SECONDS, CostBook
from ..driver import Driver
from ..runners.local_runner import LocalRunner
from ..tasks.memory import keep_memory
from ..tasks.work import MergeTask, UnitResult
from .options import Options, log_url, store_url
from .stopping import Stopping

_log = structlog.get_logger("tidegate.pipeline")

LOAD_SECONDS: Final = 120.0
LEAVE_SECONDS: Final = 10.0

OnProgress = Callable[[int, int], None]


class NothingThere(Exception):
    """No gateway has used the log yet.  The text says what to do."""


class StoppableRunner(Protocol):
    """A Runner that can be stopped."""

    def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner."""
        ...

    def stop(self) -> None:
        """Start no more tasks and end those under way; finished results stay."""
        ...


class StoppableLocalRunner:
    """Runs tasks in this process, until stop().  The store is opened for the first task."""

    def __init__(self, store_url: str) -> None:
        self._store_url = store_url
        self._store: ObjectStore | None = None
        self._attempts = count(1)
        self._is_stopped = False
        self._waiting: set[trio.CancelScope] = set()

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner."""
        if self._store is None:
            _ = keep_memory()
            self._store = open_existing_store(self._store_url)
        inner = LocalRunner(self._store, next_attempt=lambda: next(self._attempts))
        async with aclosing(inner.run(tasks)) as results:
            while not self._is_stopped:
                result = await self._next(results)
                if result is None:
                    return
                yield result

    async def _next(self, results: AsyncGenerator[UnitResult, None]) -> UnitResult | None:
        """Wait for a result in a cancel scope; such a scope must not enclose a yield."""
        with trio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                return await anext(results, None)
            finally:
                self._waiting.discard(scope)
        return None

    def stop(self) -> None:
        """See StoppableRunner."""
        self._is_stopped = True
        for scope in self._waiting:
            scope.cancel()

    async def aclose(self) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.aclose()


@asynccontextmanager
async def opened_runner(
    options: Options, kind: str, stopping: Stopping
) -> AsyncGenerator[StoppableRunner, None]:
    """Open the chosen runner; Spark starts with its first task."""
    url = store_url(options.data, options.object_store)
    if kind == "local":
        async with aclosing(StoppableLocalRunner(url)) as local:
            stopping.tell(local.stop)
            yield local
        return
    # Spark is an extra.
    from ..runners.spark_runner import spark_runner
    from ..runners.spark_session import ResidentSpark, SparkSettings

    settings = SparkSettings(
        options.master, max_failures=options.max_failures, speculation=options.speculation
    )
    resident = ResidentSpark(settings)
    stopping.tell_by_force(resident.kill)
    try:
        async with spark_runner(url, resident) as runner:
            stopping.tell(runner.stop)
            yield runner
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(resident.close)


async def open_log_in_use(url: str) -> MovableLog:
    """Open a log that a gateway made.

    Raises:
      NothingThere: no gateway has made the log yet.
    """
    path = sqlite_path(url)
    if path is not None and not path.exists():
        raise NothingThere(_nothing(url))
    return await open_followed_log(url)


async def load_state_in_use(log: MetadataLog, url: str) -> ClusterState:
    """Load the state of a cluster that exists.

    Raises:
      NothingThere: the log holds no cluster yet.
      TooSlowError, LogMisconfigured: as load_state() and check_cluster().
    """
    state = await load_state(log, deadline_seconds=LOAD_SECONDS)
    check_cluster(state, "")
    if not state.cluster_id:
        raise NothingThere(_nothing(url))
    return state


def _nothing(url: str) -> str:
    return (
        f"no gateway has used the metadata log yet ({shown_log(url)}): start one first, as with"
        " `tidegate dev`, with the same --data or --log"
    )


def _open_store_in_use(url: str) -> ObjectStore:
    """Open a store that a gateway uses.

    Raises:
      NothingThere: the store's folder does not exist; a gateway creates it at its start.
      StoreMisconfigured: the URL or the folder is wrong.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and not Path(unquote(parts.path)).exists():
        raise NothingThere(_unowned(url))
    return open_existing_store(url)


def _unowned(url: str) -> str:
    return (
        f"the object store belongs to no cluster yet ({shown_store(url)}): wait for the gateway"
        " that starts, or give the same --data or --object-store as it has"
    )


@dataclass(frozen=True, slots=True)
class Shared:
    """The cluster's log, store and state, opened.

    store: its requests are counted in costs.  bare: the same store, without a count.
    """

    log: MetadataLog
    log_url: str
    store: ObjectStore
    bare: ObjectStore
    store_url: str
    costs: CostBook


@asynccontextmanager
async def opened_shared(
    options: Options, stopping: Stopping, costs: CostBook
) -> AsyncGenerator[Shared, None]:
    """Open log and store.

    costs: counts the requests to both; a driver writes the sums.

    Raises:
      NothingThere, LogMisconfigured, LogUnavailable, StoreMisconfigured: the text says what to do.
      StopAsked: a signal came meanwhile.
    """
    url = log_url(options.data, options.log)
    url_of_store = store_url(options.data, options.object_store)
    async with AsyncExitStack() as stack:
        with stopping.until_asked():
            log = await open_log_in_use(url)
            stack.push_async_callback(log.aclose)
        store = _open_store_in_use(url_of_store)
        stack.push_async_callback(store.aclose)
        yield Shared(log, url, costs.counted(store, log), store, url_of_store, costs)


async def checked_state(shared: Shared) -> ClusterState:
    """Load the state of the cluster, and check that the store is its own; see living_driver()."""
    state = await load_state_in_use(shared.log, shared.log_url)
    if await read_owner(shared.store) is None:
        # A gateway registers first, and then claims the prefix.
        raise NothingThere(_unowned(shared.store_url))
    await check_owner(shared.store, state.cluster_id, timeline=state.timeline)
    return state


@asynccontextmanager
async def living_driver(
    shared: Shared,
    runner: StoppableRunner,
    options: Options,
    on_progress: OnProgress,
    *,
    stopping: Stopping,
) -> AsyncGenerator[Driver, None]:
    """Yield a driver with a new incarnation, which ends with the block.

    Raises:
      GatewayFenced: in an exception group; the incarnation was fenced.  Open another driver.
      CoordinatorUnavailable, StoreUnavailable, TooSlowError: log or store do not answer; try again
        later.
      NothingThere: no gateway has registered, or taken the prefix, yet; try again later.
      StopAsked: a signal came before the driver registered.
    """
    with stopping.until_asked():
        state = await checked_state(shared)
    rng = Random(os.urandom(32))
    coordinator = Coordinator(shared.log, state, rng=rng, wall_clock=time.time)
    driver = Driver(
        coordinator,
        runner,
        options.merge_settings(),
        rng=rng,
        software_version=version("tidegate"),
        on_asked=shared.costs.add,
        on_progress=on_progress,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        with stopping.until_asked():
            await driver.register()
        nursery.start_soon(driver.keep_lease)
        nursery.start_soon(_write_costs_each_hour, shared, coordinator)
        try:
            yield driver
        finally:
            # Do this even after an error, so that another pipeline need not wait for the lease.  A
            # second signal has cancelled the coordinator already, and so this block.
            with trio.move_on_after(LEAVE_SECONDS):
                await driver.leave()
        with trio.move_on_after(LEAVE_SECONDS):
            await _write_costs(shared, coordinator)
        nursery.cancel_scope.cancel()


async def _write_costs_each_hour(shared: Shared, coordinator: Coordinator) -> None:
    while True:
        await trio.sleep(WRITE_SECONDS)
        await _write_costs(shared, coordinator)


async def _write_costs(shared: Shared, coordinator: Coordinator) -> None:
    """Write the sums of requests; if the store does not answer, the next call writes them."""
    state = coordinator.state
    try:
        await shared.costs.write(
            shared.bare, state.cluster_id, state.timeline, coordinator.incarnation
        )
    except (StoreMisconfigured, StoreUnavailable) as error:
        _log.warning("could not write what the pipeline cost", error=str(error))
    except Exception as error:
        # A programming error: merges continue.
        _log.error("could not write what the pipeline cost", exc_info=error)
