"""Stretches of runs that are left alone for a while after a unit of them failed.  Pure.

Reading one again costs requests and bytes, and the next failure is likely.  A stretch is named by
what is done with it, the number of its partition and its first offset; its neighbours go on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

# Doubled with each failure.
FIRST_PAUSE_SECONDS = 5.0
LAST_PAUSE_SECONDS = 600.0


class Work(Enum):
    """What is done with a stretch."""

    MERGE = "merge"
    COMPACTION = "compaction"


Stretch: TypeAlias = tuple[Work, int, int]
"""Kind of work, number of the partition, first offset."""


class _Pause(NamedTuple):
    """seconds: its length.  until: the end of it."""

    seconds: float
    until: float


class Pauses:
    """All times are in seconds of one clock that only rises."""

    def __init__(self) -> None:
        self._pauses: dict[Stretch, _Pause] = {}

    def __len__(self) -> int:
        """Return how many stretches failed when they were last tried."""
        return len(self._pauses)

    def failed(self, stretch: Stretch, now: float) -> float:
        """Begin a pause; return how long it lasts."""
        last = self._pauses.get(stretch)
        seconds = min(last.seconds * 2, LAST_PAUSE_SECONDS) if last else FIRST_PAUSE_SECONDS
        self._pauses[stretch] = _Pause(seconds, now + seconds)
        return seconds

    def done(self, stretch: Stretch) -> None:
        """Forget what failed before."""
        self._pauses.pop(stretch, None)

    def is_paused(self, stretch: Stretch, now: float) -> bool:
        """Tell whether a stretch is to be left alone."""
        pause = self._pauses.get(stretch)
        return pause is not None and now < pause.until

    def prune(self, now: float) -> None:
        """Forget stretches that nobody tried again: they begin elsewhere now, or are gone."""
        self._pauses = {
            stretch: pause
            for stretch, pause in self._pauses.items()
            if now < pause.until + LAST_PAUSE_SECONDS
        }
