"""Signals: the first asks to finish, the second ends at once.

Threads that wait for a JVM end by no cancellation: what ends them is told at the second signal, or
some time after the first.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import structlog
import trio

from ..runners.submitted import is_submitted

PARENT_SECONDS: Final = 1.0
# How long after the first signal nothing may hold us any more.
FORCE_SECONDS: Final = 10.0

_log = structlog.get_logger("tidegate.pipeline")


class StoppedAtOnce(Exception):
    """A second signal came: leave without a word."""


class StopAsked(Exception):
    """It was asked to stop before the work could begin."""


class Stopping:
    """Whether to stop, and who wants to be told."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._calls: list[Callable[[], None]] = []
        self._calls_by_force: list[Callable[[], None]] = []

    @property
    def is_asked(self) -> bool:
        """Tell whether to stop."""
        return self._event.is_set()

    def tell(self, call: Callable[[], None]) -> None:
        """Call it when asked to stop; now if that was so already."""
        self._calls.append(call)
        if self.is_asked:
            call()

    def tell_by_force(self, call: Callable[[], None]) -> None:
        """Call it when asking was not enough.  It must not block."""
        self._calls_by_force.append(call)

    @contextmanager
    def until_asked(self) -> Generator[None, None, None]:
        """Cancel the block when asked to stop.

        Raises:
          StopAsked: it was.
        """
        scope = trio.CancelScope()
        self.tell(scope.cancel)
        try:
            with scope:
                yield
        finally:
            self._calls.remove(scope.cancel)
        if scope.cancelled_caught:
            raise StopAsked("stopped before the work could begin")

    def ask(self) -> None:
        """Stop soon."""
        self._event.set()
        for call in self._calls:
            call()

    def force(self) -> None:
        """End what holds us."""
        for call in self._calls_by_force:
            call()

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until asked."""
        with trio.move_on_after(seconds):
            await self._event.wait()


@asynccontextmanager
async def stopping_by_signals(*, stop_at_eof: bool = False) -> AsyncGenerator[Stopping, None]:
    """Heed SIGINT and SIGTERM; the second cancels the block.

    stop_at_eof: the end of standard input is a signal too: whoever started us is gone.  So is the
    end of spark-submit, which passes no signals on.
    """
    stopping = Stopping()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed, signals, stopping, nursery.cancel_scope)
            nursery.start_soon(_force_later, stopping)
            if stop_at_eof:
                nursery.start_soon(_heed_eof, stopping)
            if is_submitted(os.environ):
                nursery.start_soon(_heed_parent, os.getppid(), stopping)
            yield stopping
            nursery.cancel_scope.cancel()


async def _heed(
    signals: AsyncIterator[int], stopping: Stopping, everything: trio.CancelScope
) -> None:
    async for number in signals:
        if stopping.is_asked:
            _log.warning("stopping at once", signal=signal.Signals(number).name)
            everything.cancel()
            stopping.force()
            return
        _log.info("stopping", signal=signal.Signals(number).name)
        stopping.ask()


async def _force_later(stopping: Stopping) -> None:
    await stopping.wait(math.inf)
    await trio.sleep(FORCE_SECONDS)
    stopping.force()


async def _heed_eof(stopping: Stopping) -> None:
    _ = await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    stopping.ask()


async def _heed_parent(parent: int, stopping: Stopping) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells of it
        await trio.sleep(PARENT_SECONDS)
    _print_nowhere()
    stopping.ask()


def _print_nowhere() -> None:
    """Nobody reads what we print any more: a log line would be an error."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)
