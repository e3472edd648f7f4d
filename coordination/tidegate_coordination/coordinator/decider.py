"""The parts of a coordinator with which this gateway itself decides proposals and appends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ..log.access import LogAccess
from ..log.metadata_log import MetadataLog
from ..state.cluster import ClusterState
from .committer import Committer
from .queue import ProposalQueue
from .replica import Replica
from .work import Work


@dataclass(frozen=True, slots=True)
class Decider:
    """The parts that a route needs of its coordinator.

    wall_clock: seconds since the epoch.
    """

    log: MetadataLog
    work: Work
    replica: Replica
    queue: ProposalQueue
    committer: Committer
    wall_clock: Callable[[], float]

    def clock_ms(self) -> int:
        """Return the wall clock's reading, in milliseconds since the epoch."""
        return int(self.wall_clock() * 1000)


def make_decider(
    log: MetadataLog,
    state: ClusterState,
    is_cut_off: Callable[[], bool],
    *,
    rng: Random,
    wall_clock: Callable[[], float],
) -> Decider:
    """Return the parts for one log and one state."""
    work = Work()
    replica = Replica(log, state, LogAccess(log, is_cut_off))
    queue = ProposalQueue(work)
    max_entry_bytes = log.capabilities.max_entry_bytes
    committer = Committer(
        replica, queue, rng=rng, wall_clock=wall_clock, max_entry_bytes=max_entry_bytes
    )
    return Decider(log, work, replica, queue, committer, wall_clock)
