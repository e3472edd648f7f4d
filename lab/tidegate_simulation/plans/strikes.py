"""Counts the faults that landed, and forces those that were promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

_MAX_PATIENCE = 12
# Smaller for kinds that strike tasks, because a run may have few tasks.
_PIPELINE_PATIENCE = 3
# Kinds that strike calls which a run may make only once.
_RARE = frozenset({"store.delete_error"})


def _patience(kind: str) -> int:
    return _PIPELINE_PATIENCE if kind.startswith("pipeline.") else _MAX_PATIENCE


class Strikes:
    """A run's faults by kind.

    promised: kinds that must land.  In a short run, rates alone would leave some kinds out.  So a
    promised kind must land once, after a few calls that it could have struck.
    """

    def __init__(self, promised: Iterable[str], rng: Random) -> None:
        self.landed: Counter[str] = Counter()
        self._calls_left = {
            kind: 0 if kind in _RARE else rng.randint(1, _patience(kind)) for kind in promised
        }
        self._is_on = False

    def promise(self, kinds: Iterable[str]) -> None:
        """Promise further kinds of events."""
        for kind in kinds:
            self._calls_left.setdefault(kind, 0)

    def is_due(self, kind: str) -> bool:
        """Count a call that this kind can strike; return True if the fault must land now."""
        if not self._is_on or self.landed[kind] or kind not in self._calls_left:
            return False
        self._calls_left[kind] -= 1
        return self._calls_left[kind] < 0

    def count(self, kind: str, times: int = 1) -> None:
        """Note that a fault had its effect."""
        if times:
            self.landed[kind] += times

    def missing(self) -> tuple[str, ...]:
        """Return the promised kinds that have not landed yet."""
        return tuple(kind for kind in self._calls_left if not self.landed[kind])

    @property
    def is_on(self) -> bool:
        """Return whether faults can strike."""
        return self._is_on

    def turn_on(self) -> None:
        """Begin to force the promised kinds."""
        self._is_on = True

    def turn_off(self) -> None:
        """Stop forcing kinds."""
        self._is_on = False
