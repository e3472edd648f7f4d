"""Wakes the coordinator's loop."""

from __future__ import annotations

import trio


class Work:
    """Wakes the loop.

    event: set once the loop has something to do.  log_grew: the log may hold new entries.
    """

    def __init__(self) -> None:
        self.event = trio.Event()
        self.log_grew = False

    def look_again(self) -> None:
        """Make the follower read the log once more."""
        self.log_grew = True
        self.event.set()

    async def wait(self) -> None:
        """Wait until there is something to do."""
        await self.event.wait()
        self.event = trio.Event()
