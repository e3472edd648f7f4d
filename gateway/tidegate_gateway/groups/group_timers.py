"""The timers of the groups that this gateway serves.  One task runs them all.

All timers restart after a stall of the process, and stop while the gateway is cut off.  In both
cases the gateway cannot handle the members' heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf

import trio

from .hosted_group import HostedGroup

STALL_SECONDS = 3.0
# The delay before the retry of a failed tick, so that other groups' timers and other work can run.
TICK_AGAIN_SECONDS = 5.0


class GroupTimers:
    """hosted: the groups in memory, by id.  Times are on trio's clock."""

    def __init__(self, hosted: Mapping[str, HostedGroup]) -> None:
        self._hosted = hosted
        self._heap: list[tuple[float, str]] = []
        self._wake = trio.Event()
        self.stand_still = False

    def wake(self) -> None:
        """Make sleep() return, so that its caller checks the timers again."""
        self._wake.set()

    def set(self, hosted: HostedGroup) -> None:
        """Set the group's timer to its next deadline, if that is earlier.

        A timer that fires too early only causes a check, so heartbeats need not move the timer.
        """
        deadline = hosted.machine.next_deadline()
        if deadline < hosted.timer_at:
            self._arm(hosted, deadline)
            self._wake.set()

    def _arm(self, hosted: HostedGroup, at: float) -> None:
        hosted.timer_at = at
        heappush(self._heap, (at, hosted.machine.group_id))

    def tick_due(self, now: float) -> None:
        """Tick each machine whose timer is due."""
        while self._heap and self._heap[0][0] <= now:
            at, group_id = heappop(self._heap)
            hosted = self._hosted.get(group_id)
            if hosted is None or hosted.timer_at != at:
                continue  # the machine was dropped, or an earlier timer replaced this one
            hosted.timer_at = inf
            try:
                hosted.machine.tick(now)
                hosted.carry_out()
            except Exception:
                self._arm(hosted, now + TICK_AGAIN_SECONDS)
                raise

    async def sleep(self, until: float) -> None:
        """Sleep until a time, the next timer, or a call of wake()."""
        runs = self._heap and not self.stand_still
        until = min(self._heap[0][0] if runs else inf, until)
        with trio.move_on_at(until):
            await self._wake.wait()
        self._wake = trio.Event()
        if trio.current_time() > until + STALL_SECONDS:
            self.restart()

    def heed_cut_off(self, is_cut_off: bool) -> None:
        """While the gateway is cut off, stop timers and end parked requests.

        Another gateway may serve the groups meanwhile.
        """
        before, self.stand_still = self.stand_still, is_cut_off
        if before and not is_cut_off:
            self.restart()
        if is_cut_off and not before:
            for hosted in self._hosted.values():
                hosted.send_away()

    def restart(self) -> None:
        """Restart the timers of all members, each with its full time."""
        for hosted in self._hosted.values():
            hosted.machine.restart_timers(trio.current_time())
