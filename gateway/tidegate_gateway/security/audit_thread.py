"""The thread of an audit log, which does no other work, so that no write waits for other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

Result = TypeVar("Result")


class AuditThread:
    """See Blocking; one function at a time.

    If the caller is cancelled, it does not wait for the function: a disk may never answer.
    """

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(1)

    async def run(self, function: Callable[[], Result]) -> Result:
        """See Blocking."""
        return await trio.to_thread.run_sync(
            function, limiter=self._limiter, abandon_on_cancel=True
        )
