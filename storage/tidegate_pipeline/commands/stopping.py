"""Signals: the first asks to finish, the second ends at once.

Cancellation does not end a thread that waits for a JVM.  Calls that end such threads run at the
second signal, or FORCE_SECONDS after the first.
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
# How long after the first signal the calls of tell_by_force() run.
FORCE_SECONDS: Final = 10.0

_log = structlog.get_logger("tidegate.pipeline")


class StoppedAtOnce(Exception):
    """A second signal came: exit without a message."""


class StopAsked(Exception):
    """A signal came before the work began."""


class Stopping:
    """Knows whether to stop, and the calls to make then."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._calls: list[Callable[[], None]] = []
        self._calls_by_force: list[Callable[[], None]] = []

    @property
    def is_asked(self) -> bool:
        """Return whether a signal came."""
        return self._event.is_set()

    def tell(self, call: Callable[[], None]) -> None:
        """Call `call` when a signal comes, or at once if one came already."""
        self._calls.append(call)
        if self.is_asked:
            call()

    def tell_by_force(self, call: Callable[[], None]) -> None:
        """Call `call` if the first signal was not enough.  The call must not block."""
        self._calls_by_force.append(call)

    @contextmanager
    def until_asked(self) -> Generator[None, None, None]:
        """Cancel the block when a signal comes.

        Raises:
          StopAsked: a signal came.
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
        """Ask the work to stop: the first signal."""
        self._event.set()
        for call in self._calls:
            call()

    def force(self) -> None:
        """Make the calls of tell_by_force()."""
        for call in self._calls_by_force:
            call()

    async def wait(self, seconds: float) -> None:
        """Wait for that many seconds, or until a signal comes."""
        with trio.move_on_after(seconds):
            await self._event.wait()


@asynccontextmanager
async def stopping_by_signals(*, stop_at_eof: bool = False) -> AsyncGenerator[Stopping, None]:
    """Handle SIGINT and SIGTERM; the second one cancels the block.

    stop_at_eof: the end of standard input counts as a signal: the parent process ended.  The end of
    spark-submit always counts as one, since it forwards no signals.
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
    """Discard all output: its reader is gone, so a log line would raise."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)
