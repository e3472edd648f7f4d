"""Ends a run without progress: virtual time stands still while any task is runnable."""

from __future__ import annotations

import trio

MAX_STEPS_AT_ONCE = 100_000
_STEPS_A_LOOK = 1000


class LivelockGuard(trio.abc.Instrument):
    """Cancels the scope after that many steps at one moment of virtual time."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_caught = False
        self.scope = trio.CancelScope()
        self._time = -1.0
        self._steps_at_once = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """See trio.abc.Instrument."""
        self.steps += 1
        if self.steps % _STEPS_A_LOOK:
            return
        now = trio.current_time()
        if now != self._time:
            self._time, self._steps_at_once = now, 0
        self._steps_at_once += _STEPS_A_LOOK
        if self._steps_at_once > MAX_STEPS_AT_ONCE and not self.is_caught:
            self.is_caught = True
            self.scope.cancel()
