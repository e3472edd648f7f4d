"""Deletes dead objects in batches; an object that cannot be deleted does not delay the others.

If a batch fails, its two halves are tried later.  If a single object fails, it is tried again after
10 s, and after each further failure after twice the time, up to an hour.  So even if the store
refuses to delete many objects, all others are deleted, and a transient error delays an object only
a little.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

# After this number of failed batches in one round, the store probably does not answer at all.
MAX_FAILED: Final = 3
FIRST_PAUSE_SECONDS: Final = 10.0
LAST_PAUSE_SECONDS: Final = 3600.0


class Due(Protocol):
    """Returns the numbers of objects to delete now, at most one batch: see rules.housekeeping."""

    def __call__(
        self, *, left_out: set[int] = ..., among: list[int] | None = None
    ) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class _Failed:
    """Numbers of objects to delete together, not before a time on Trio's clock.

    pause_seconds: the last wait, which the next failure doubles.
    """

    numbers: list[int]
    not_before: float = 0.0
    pause_seconds: float = 0.0


class Deletions:
    """Remembers failed deletions over all rounds.

    delete: deletes objects by their numbers, and returns whether it succeeded.
    """

    def __init__(self, delete: Callable[[list[int]], Awaitable[bool]]) -> None:
        self._delete = delete
        self._failed: list[_Failed] = []

    async def run_once(self, due: Due) -> None:
        """Delete the objects that are due: first objects that never failed, then the others."""
        failures = 0
        while failures < MAX_FAILED and (numbers := due(left_out=self._numbers())):
            failures += not await self._try(numbers)
        now = trio.current_time()
        # Halves of failed batches come first: most of their objects can probably be deleted.
        for each in sorted(self._failed, key=lambda each: each.not_before):
            if failures == MAX_FAILED or each.not_before > now:
                return
            self._failed.remove(each)
            # Another gateway may have deleted some of these objects, or they may be no longer due.
            if numbers := due(among=each.numbers):
                failures += not await self._try(numbers, each.pause_seconds)

    def _numbers(self) -> set[int]:
        return {number for each in self._failed for number in each.numbers}

    async def _try(self, numbers: list[int], last_pause_seconds: float = 0.0) -> bool:
        if await self._delete(numbers):
            return True
        middle = len(numbers) // 2
        if middle:
            self._failed += [_Failed(numbers[:middle]), _Failed(numbers[middle:])]
        else:
            pause = min(max(2 * last_pause_seconds, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS)
            self._failed.append(_Failed(numbers, trio.current_time() + pause, pause))
        return False
