"""Deletes dead objects in batches, so that objects that a store keeps hold up no others.

A batch that fails is kept apart and tried in halves, in later rounds; what fails alone is left for
a while, each time for twice as long, up to an hour.  So any number of objects that a store keeps
ends no round for the objects behind them, and an error that passes delays an object little.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio

# So many that fail in one round are a store that is away, not objects that it keeps.
MAX_FAILED: Final = 3
FIRST_PAUSE_SECONDS: Final = 10.0
LAST_PAUSE_SECONDS: Final = 3600.0


class Due(Protocol):
    """Return the numbers that may go now, not too many at once: see rules.collectable."""

    def __call__(
        self, *, left_out: set[int] = ..., among: list[int] | None = None
    ) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class _Failed:
    """Numbers to be tried together, not before a time on trio's clock.

    pause_seconds: how long they were left before that.
    """

    numbers: list[int]
    not_before: float = 0.0
    pause_seconds: float = 0.0


class Deletions:
    """What failed, over all rounds.

    delete: deletes objects by their numbers, and tells if that succeeded.
    """

    def __init__(self, delete: Callable[[list[int]], Awaitable[bool]]) -> None:
        self._delete = delete
        self._failed: list[_Failed] = []

    async def run_once(self, due: Due) -> None:
        """Delete what is due: first what never failed, then what did."""
        failures = 0
        while failures < MAX_FAILED and (numbers := due(left_out=self._numbers())):
            failures += not await self._try(numbers)
        now = trio.current_time()
        # Halves first: what is in them may well go.
        for each in sorted(self._failed, key=lambda each: each.not_before):
            if failures == MAX_FAILED or each.not_before > now:
                return
            self._failed.remove(each)
            # Others may have deleted some of them, or no longer want them deleted.
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
