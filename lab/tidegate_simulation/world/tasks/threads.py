"""Work in threads has a cost: in the simulated world it takes time that the seed draws.

Most jobs take some milliseconds, as one large batch does, and a few take seconds, as on a machine
without free processors.  A thread of a gateway that has ended may still end its job, without an
effect on the next incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

import trio
from outcome import capture

from tidegate_gateway.work.fair_pool import FairPool, OnEnd
from tidegate_gateway.work.pools import RECORD_THREADS, TELEMETRY_THREADS, Pools

from .watched_pool import WatchedPool

Result = TypeVar("Result")

_USUAL_SECONDS: Final = 0.005
_LONG_SECONDS: Final = 2.0
_LONG_SHARE: Final = 0.02


class SimulatedThreads:
    """The threads of one life of a gateway.

    Args:
      nursery: of the world.
      has_thread: returns whether the machine has a thread for the records of a batch.
    """

    def __init__(self, nursery: trio.Nursery, rng: Random, has_thread: Callable[[], bool]) -> None:
        self._nursery = nursery
        self._rng = rng
        self._has_thread = has_thread

    def start(self, work: Callable[[], Any], on_end: OnEnd) -> None:
        """See fair_pool.Start."""
        self._nursery.start_soon(self._do, work, on_end, self._draw_seconds())

    def start_if_possible(self, work: Callable[[], Any], on_end: OnEnd) -> None:
        """See fair_pool.Start.

        Raises:
          RuntimeError: there is no thread, as at a limit of the system.
        """
        if not self._has_thread():
            raise RuntimeError("can't start new thread")
        self.start(work, on_end)

    async def _do(self, work: Callable[[], Any], on_end: OnEnd, seconds: float) -> None:
        await trio.sleep(seconds)
        on_end(capture(work), seconds)

    async def run(self, function: Callable[[], Result]) -> Result:
        """See blocking.Blocking."""
        await trio.sleep(self._draw_seconds())
        return function()

    def pools(self, complain: Callable[[str, str], None]) -> Pools:
        """Return the pools of this gateway.  complain: takes the kind and text of a violation."""
        records = WatchedPool(self.start_if_possible, RECORD_THREADS, complain)
        return Pools(records, FairPool(self.start, TELEMETRY_THREADS), self, self)

    def _draw_seconds(self) -> float:
        is_long = self._rng.random() < _LONG_SHARE
        return self._rng.random() * (_LONG_SECONDS if is_long else _USUAL_SECONDS)
