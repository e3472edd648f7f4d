"""Measures how busy the event loop is: how late it wakes a task, and its thread's CPU time.

A request waits for the loop just as this task does.  The idle share of the loop stands for the idle
ratios of Kafka's request handler and network threads, since the loop does their work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from tidegate_runtime.histograms import Histogram

STEP_SECONDS: Final = 0.25
_STEPS: Final = 240
"""Steps in a minute: the idle share is that of the last minute."""


class LoopWatch:
    """See the module's head.

    Args:
      used_seconds: returns the CPU time of the calling thread; None if it is not known.

    delays: how late the task ran.
    """

    def __init__(self, used_seconds: Callable[[], float] | None) -> None:
        self.delays = Histogram()
        self._used_seconds = used_seconds or _nothing
        self._steps: deque[tuple[float, float]] = deque(maxlen=_STEPS)

    async def run(self) -> None:
        """Watch; forever."""
        while True:
            now = trio.current_time()
            self._steps.append((now, self._used_seconds()))
            await trio.sleep_until(now + STEP_SECONDS)
            self.delays.add(trio.current_time() - now - STEP_SECONDS)

    @property
    def idle_share(self) -> float:
        """Return the share of the last minute in which the loop was idle; 1 at first."""
        if len(self._steps) < 2:
            return 1.0
        (began, used_before), (ended, used) = self._steps[0], self._steps[-1]
        busy = (used - used_before) / (ended - began) if ended > began else 0.0
        return min(max(1.0 - busy, 0.0), 1.0)


def _nothing() -> float:
    return 0.0
