"""Opens the log of an existing cluster, for commands that write to it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.existing import open_followed_log
from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog
from tidegate_runtime.log_lines import configure_logs

from .dev.pipeline import default_log
from .output.telling import was_told

LOAD_SECONDS: Final = 120.0
NOT_DONE: Final = 1
NOT_TOLD: Final = 2


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options that say where the cluster is, as typed."""

    data: Path
    log: str | None


def run_told(work: Callable[[], Awaitable[int]]) -> int:
    """Run a command; return its exit code.  Print an error that a person can fix as a sentence."""
    configure_logs("critical")
    try:
        return trio.run(work)
    except Exception as error:
        if not was_told(error):
            raise
        return NOT_TOLD


@asynccontextmanager
async def opened_cluster(cluster: ClusterOptions) -> AsyncGenerator[Coordinator, None]:
    """Open a coordinator of an existing cluster, without a registration as a gateway.

    Raises:
      Exception: see refusals_to_start.py.
    """
    async with AsyncExitStack() as stack:
        log = await open_followed_log(cluster.log or default_log(cluster.data))
        stack.push_async_callback(log.aclose)
        coordinator = await coordinator_of(log, Random(os.urandom(32)))
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(coordinator.run)
        yield coordinator
        nursery.cancel_scope.cancel()


async def coordinator_of(log: MetadataLog, rng: Random) -> Coordinator:
    """Return a coordinator with the current state; the caller runs it.

    Raises:
      LogMisconfigured: the log has no cluster, or only a part of one.
      Exception: see load_state().
    """
    state = await load_state(log, deadline_seconds=LOAD_SECONDS)
    check_cluster(state, "")
    if not state.cluster_id:
        raise LogMisconfigured("it is empty: no gateway has used it yet")
    return Coordinator(log, state, rng=rng, wall_clock=time.time)
