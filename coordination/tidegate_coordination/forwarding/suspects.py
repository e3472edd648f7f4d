"""Gateways that gave no answer, and are not asked for a growing time."""

from __future__ import annotations

from typing import Final

import trio

MOST_DOUBLINGS: Final = 4


class Suspects:
    """The suspects by incarnation, so a gateway that registers again is no suspect.

    The time doubles with each failure, up to 2 ** MOST_DOUBLINGS times first_seconds.  Otherwise,
    with many silent gateways, the first one would be asked again before the last one.
    """

    def __init__(self, first_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._until: dict[int, float] = {}
        self._failures: dict[int, int] = {}

    def holds(self, incarnation: int) -> bool:
        """Return whether a gateway should not be asked now."""
        return self._until.get(incarnation, float("-inf")) > trio.current_time()

    def held(self) -> tuple[int, ...]:
        """Return the incarnations that should not be asked now."""
        if not self._until:
            return ()
        now = trio.current_time()
        if any(until <= now for until in self._until.values()):
            self._until = {who: until for who, until in self._until.items() if until > now}
        return tuple(self._until)

    def suspect(self, incarnation: int) -> float:
        """Note a failure; return for how many seconds the gateway is not asked.

        Questions that were under way together and failed together count once.
        """
        if not self.holds(incarnation):
            failures = self._failures.get(incarnation, 0)
            self._failures[incarnation] = failures + 1
            seconds = self._first_seconds * 2 ** min(failures, MOST_DOUBLINGS)
            self._until[incarnation] = trio.current_time() + seconds
        return self._until[incarnation] - trio.current_time()

    def trust(self, incarnation: int) -> None:
        """Note that a gateway gave a usable answer."""
        self._failures.pop(incarnation, None)
