"""Where work goes that would hold up the event loop: a thread, or, under simulation, nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

Result = TypeVar("Result")


class Blocking(Protocol):
    """Runs a function that computes for milliseconds or more."""

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns, or raise what it raises."""
        ...


class InThread:
    """In a worker thread; at most max_threads at once."""

    def __init__(self, max_threads: int = 2) -> None:
        self._limiter = trio.CapacityLimiter(max_threads)

    async def run(self, function: Callable[[], Result]) -> Result:
        """See Blocking."""
        return await trio.to_thread.run_sync(function, limiter=self._limiter)


class Inline:
    """In the event loop, for the simulated world, where threads are not allowed."""

    async def run(self, function: Callable[[], Result]) -> Result:
        """See Blocking."""
        await trio.lowlevel.checkpoint()
        return function()
