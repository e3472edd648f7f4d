"""Stretches of runs that are left alone for a while after a unit of them failed.  Pure.

Reading one again costs requests and bytes, and the next failure is likely.  A stretch is named by
the number of its partition and its first offset; its neighbours go on.
"""

from __future__ import annotations

from typing import NamedTuple

# Doubled with each failure.
FIRST_PAUSE_SECONDS = 5.0
LAST_PAUSE_SECONDS = 600.0


class _Pause(NamedTuple):
    """seconds: its length.  until: the end of it."""

    seconds: float
    until: float


class Pauses:
    """All times are in seconds of one clock that only rises."""

    def __init__(self) -> None:
        self._pauses: dict[tuple[int, int], _Pause] = {}

    def __len__(self) -> int:
        """Return how many stretches failed when they were last tried."""
        return len(self._pauses)

    def failed(self, partition: int, base_offset: int, now: float) -> float:
        """Begin a pause; return how long it lasts."""
        last = self._pauses.get((partition, base_offset))
        seconds = min(last.seconds * 2, LAST_PAUSE_SECONDS) if last else FIRST_PAUSE_SECONDS
        self._pauses[partition, base_offset] = _Pause(seconds, now + seconds)
        return seconds

    def done(self, partition: int, base_offset: int) -> None:
        """Forget what failed before."""
        self._pauses.pop((partition, base_offset), None)

    def is_paused(self, partition: int, base_offset: int, now: float) -> bool:
        """Tell whether a stretch is to be left alone."""
        pause = self._pauses.get((partition, base_offset))
        return pause is not None and now < pause.until

    def prune(self, now: float) -> None:
        """Forget stretches that nobody tried again: they begin elsewhere now, or are gone."""
        self._pauses = {
            stretch: pause
            for stretch, pause in self._pauses.items()
            if now < pause.until + LAST_PAUSE_SECONDS
        }
