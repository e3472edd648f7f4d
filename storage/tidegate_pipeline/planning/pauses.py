"""Pauses of stretches of runs after a unit failed.  Pure.

Another try costs requests and bytes, and probably fails again.  The kind of work, the number of the
partition and the first offset identify a stretch; other stretches are not paused.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

# The first pause; each further failure doubles it.
FIRST_PAUSE_SECONDS = 5.0
LAST_PAUSE_SECONDS = 600.0


class Work(Enum):
    """The kind of work on a stretch."""

    MERGE = "merge"
    COMPACTION = "compaction"


Stretch: TypeAlias = tuple[Work, int, int]
"""Kind of work, number of the partition, first offset."""


class _Pause(NamedTuple):
    """seconds: its length.  until: its end."""

    seconds: float
    until: float


class Pauses:
    """The paused stretches.  All times are in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._pauses: dict[Stretch, _Pause] = {}

    def __len__(self) -> int:
        """Return the number of stretches whose last try failed."""
        return len(self._pauses)

    def failed(self, stretch: Stretch, now: float) -> float:
        """Start a pause; return its length in seconds."""
        last = self._pauses.get(stretch)
        seconds = min(last.seconds * 2, LAST_PAUSE_SECONDS) if last else FIRST_PAUSE_SECONDS
        self._pauses[stretch] = _Pause(seconds, now + seconds)
        return seconds

    def done(self, stretch: Stretch) -> None:
        """Remove the stretch: its work succeeded."""
        self._pauses.pop(stretch, None)

    def is_paused(self, stretch: Stretch, now: float) -> bool:
        """Return whether a stretch is paused."""
        pause = self._pauses.get(stretch)
        return pause is not None and now < pause.until

    def prune(self, now: float) -> None:
        """Remove stretches that no round tried again: they have changed, or no longer exist."""
        self._pauses = {
            stretch: pause
            for stretch, pause in self._pauses.items()
            if now < pause.until + LAST_PAUSE_SECONDS
        }
