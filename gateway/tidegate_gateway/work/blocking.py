"""Runs work that would hold up the event loop: in a thread, or inline in the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

Result = TypeVar("Result")


class Blocking(Protocol):
    """Runs a function that computes for a millisecond or longer."""

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return the function's result, or raise its error."""
        ...


class InThread:
    """Runs functions in worker threads, at most max_threads at once."""

    def __init__(self, max_threads: int = 2) -> None:
        self._limiter = trio.CapacityLimiter(max_threads)

    async def run(self, function: Callable[[], Result]) -> Result:
        """See Blocking."""
        return await trio.to_thread.run_sync(function, limiter=self._limiter)


class Inline:
    """Runs functions in the event loop: the simulated world allows no threads."""

    async def run(self, function: Callable[[], Result]) -> Result:
        """See Blocking."""
        await trio.lowlevel.checkpoint()
        return function()
