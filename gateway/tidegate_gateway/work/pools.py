"""A gateway's thread pools, one for each purpose, so that no purpose waits for another's work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from outcome import capture

from .blocking import Blocking, Inline, InThread
from .fair_pool import FairPool, OnEnd, Start, in_thread

RECORD_THREADS: Final = 2
TELEMETRY_THREADS: Final = 1


@dataclass(frozen=True, slots=True)
class Pools:
    """See the module's head.

    records: reads records for produce requests, searches and links, and matches patterns.
    telemetry: reads what clients push.
    logins: computes keys.  files: reads certificates and properties.
    """

    records: FairPool
    telemetry: FairPool
    logins: Blocking = field(default_factory=InThread)
    files: Blocking = field(default_factory=InThread)


def thread_pools() -> Pools:
    """Return pools of threads."""
    return Pools(FairPool(in_thread, RECORD_THREADS), FairPool(in_thread, TELEMETRY_THREADS))


def at_once(work: Callable[[], Any], on_end: OnEnd) -> None:
    """Do the work at once in the event loop, and count no CPU time; see fair_pool.Start."""
    on_end(capture(work), 0.0)


def inline_pools(start: Start = at_once) -> Pools:
    """Return pools without threads, for tests and the simulated world."""
    return Pools(
        FairPool(start, RECORD_THREADS),
        FairPool(start, TELEMETRY_THREADS),
        Inline(),
        Inline(),
    )
