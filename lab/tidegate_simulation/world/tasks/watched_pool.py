"""A pool whose clients' turns are watched: no job waits in vain while a thread is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from tidegate_gateway.work.client import Client
from tidegate_gateway.work.fair_pool import (
    WAIT_SECONDS,
    FairPool,
    OnEnd,
    PoolBusy,
    ShouldStop,
    Start,
)

if TYPE_CHECKING:
    from outcome import Outcome

Result = TypeVar("Result")

STALLED_SECONDS: Final = 1.0


class WatchedPool(FairPool):
    """complain: called with the kind and the text of a violation."""

    def __init__(
        self, start: Start, max_threads: int, complain: Callable[[str, str], None]
    ) -> None:
        super().__init__(self._begin, max_threads)
        self._begin_in_thread = start
        self._free = max_threads
        self._jobs: Counter[Hashable] = Counter()
        self._complain = complain

    def _begin(self, work: Callable[[], Any], on_end: OnEnd) -> None:
        self._begin_in_thread(work, partial(self._ended, on_end))
        self._free -= 1

    def _ended(self, on_end: OnEnd, outcome: Outcome[Any], seconds: float) -> None:
        self._free += 1
        on_end(outcome, seconds)

    async def run(
        self, client: Client, function: Callable[[ShouldStop], Result], size_bytes: int = 0
    ) -> Result:
        """See FairPool.  A client has one running job at most, so its others may wait."""
        began = trio.current_time()
        self._jobs[client.key] += 1
        try:
            return await super().run(client, function, size_bytes)
        except PoolBusy:
            waited_seconds = trio.current_time() - began
            # While a machine stalls, its clock continues, and afterwards its threads are free.
            is_in_time = WAIT_SECONDS <= waited_seconds < WAIT_SECONDS + STALLED_SECONDS
            if is_in_time and self._free and self._jobs[client.key] == 1:
                text = f"a job of {client.key} waited for {waited_seconds:.0f} s"
                self._complain("turn lost", f"{text}, and {self._free} threads were free")
            raise
        finally:
            self._jobs[client.key] -= 1
