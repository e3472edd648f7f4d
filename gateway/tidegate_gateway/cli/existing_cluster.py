"""Opens the log of an existing cluster, for commands that write to it."""

from __future__ import annotations

import time
from random import Random
from typing import Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog

LOAD_SECONDS: Final = 120.0


async def coordinator_of(log: MetadataLog, rng: Random) -> Coordinator:
    """Return a coordinator with the current state; it does not run yet.

    Raises:
      LogMisconfigured: the log has no cluster, or only a part of one.
      Exception: see load_state().
    """
    state = await load_state(log, deadline_seconds=LOAD_SECONDS)
    check_cluster(state, "")
    if not state.cluster_id:
        raise LogMisconfigured("it is empty: no gateway has used it yet")
    return Coordinator(log, state, rng=rng, wall_clock=time.time)
