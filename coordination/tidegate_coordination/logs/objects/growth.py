"""The known end of a log that does not announce entries, and the callers that wait for more."""

from collections.abc import Awaitable, Callable

import trio

from tidegate_coordination.log.metadata_log import FIRST_POSITION
from tidegate_coordination.logs.objects.pace import Pace


class Growth:
    """`last_seen`: a position that the log has reached."""

    def __init__(self) -> None:
        self.last_seen = FIRST_POSITION - 1
        self._pace = Pace()
        self._grown = trio.lowlevel.ParkingLot()

    def note(self, position: int) -> None:
        """Wake the waiters if the log reaches further than was known."""
        if position > self.last_seen:
            self.last_seen = position
            self._pace.grew(trio.current_time())
            self._grown.unpark_all()

    def looked(self) -> None:
        """Note that a read just found the end of the log."""
        self._pace.looked(trio.current_time())

    async def wait(
        self, after_position: int, timeout_seconds: float, look: Callable[[], Awaitable[None]]
    ) -> None:
        """Return once the log is known to reach beyond a position, or after the time-out.

        Args: look: looks once for another gateway's entry, and notes a found one.
        """
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(timeout_seconds):
            while self.last_seen <= after_position:
                pause_seconds = self._pace.due_at - trio.current_time()
                if pause_seconds > 0:
                    await self._park(pause_seconds)
                else:
                    self._pace.looked_in_vain(trio.current_time())
                    await look()

    async def _park(self, pause_seconds: float) -> None:
        with trio.move_on_after(pause_seconds):
            await self._grown.park()
