"""Gateways that gave no answer, and are left alone for a while that grows."""

from __future__ import annotations

from typing import Final

import trio

FIRST_SECONDS: Final = 2.0
MOST_DOUBLINGS: Final = 4


class Suspects:
    """By incarnation, so that the next life of a gateway begins without a past."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._failures: dict[int, int] = {}

    def holds(self, incarnation: int) -> bool:
        """Tell whether a gateway should not be asked now."""
        return self._until.get(incarnation, float("-inf")) > trio.current_time()

    def suspect(self, incarnation: int) -> float:
        """Note that it failed; return for how many seconds it is left alone.

        Questions that were under way together and failed together count once.
        """
        if not self.holds(incarnation):
            failures = self._failures.get(incarnation, 0)
            self._failures[incarnation] = failures + 1
            seconds = FIRST_SECONDS * 2 ** min(failures, MOST_DOUBLINGS)
            self._until[incarnation] = trio.current_time() + seconds
        return self._until[incarnation] - trio.current_time()

    def trust(self, incarnation: int) -> None:
        """Note that it answered well."""
        if self._failures:
            self._failures.pop(incarnation, None)
