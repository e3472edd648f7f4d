"""Times produce requests out (timeout_ms).

A late request gets the answer REQUEST_TIMED_OUT.  Its batches may still be committed, and the
sequence numbers identify a retry.  Requests are checked once in CHECK_SECONDS, which is as exact as
in Kafka.  While the gateway is cut off from the metadata log, it times out all waiting requests,
since another gateway may learn the outcome sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

import trio

CHECK_SECONDS = 0.5


class Expirable(Protocol):
    """A waiting request."""

    def time_out(self) -> None:
        """Answer REQUEST_TIMED_OUT for all unsettled batches."""
        ...


class ProduceDeadlines:
    """All requests of a gateway that wait for a commit.

    after_answers: called once after requests were timed out.  is_cut_off: see the module's head.
    """

    def __init__(
        self, after_answers: Callable[[], None], is_cut_off: Callable[[], bool] = lambda: False
    ) -> None:
        self._after_answers = after_answers
        self._is_cut_off = is_cut_off
        self._deadlines: dict[Expirable, float] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, request: Expirable, timeout_ms: int) -> None:
        """Start the timeout of a request now; earlier waits do not count."""
        self._deadlines[request] = trio.current_time() + max(timeout_ms, 0) / 1000

    def remove(self, request: Expirable) -> None:
        """Forget an answered request, which may never have been added."""
        self._deadlines.pop(request, None)

    async def run(self) -> None:
        """Time out requests; forever."""
        while True:
            await trio.sleep(CHECK_SECONDS)
            now = inf if self._is_cut_off() else trio.current_time()
            late = [each for each, deadline in self._deadlines.items() if deadline <= now]
            for request in late:
                del self._deadlines[request]
                request.time_out()
            if late:
                self._after_answers()
