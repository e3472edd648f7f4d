"""Counts the faults that landed, and sees to it that those which were promised do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

_MAX_PATIENCE = 12
# Of kinds that strike tasks: there may be few.
_PIPELINE_PATIENCE = 3
# What strikes calls that a run may make but once.
_RARE = frozenset({"store.delete_error"})


def _patience(kind: str) -> int:
    return _PIPELINE_PATIENCE if kind.startswith("pipeline.") else _MAX_PATIENCE


class Strikes:
    """A run's faults by kind.

    promised: kinds that must land.  Rates alone would leave some of them out in a short run, so a
    kind is due, once, when it was passed over for a few of the calls that it can strike.
    """

    def __init__(self, promised: Iterable[str], rng: Random) -> None:
        self.landed: Counter[str] = Counter()
        self._calls_left = {
            kind: 0 if kind in _RARE else rng.randint(1, _patience(kind)) for kind in promised
        }
        self._is_on = False

    def promise(self, kinds: Iterable[str]) -> None:
        """From now on these must land, too; of kinds that are events."""
        for kind in kinds:
            self._calls_left.setdefault(kind, 0)

    def is_due(self, kind: str) -> bool:
        """Count a call that this kind can strike; True when it has to."""
        if not self._is_on or self.landed[kind] or kind not in self._calls_left:
            return False
        self._calls_left[kind] -= 1
        return self._calls_left[kind] < 0

    def count(self, kind: str, times: int = 1) -> None:
        """Note that a fault had its effect."""
        if times:
            self.landed[kind] += times

    def missing(self) -> tuple[str, ...]:
        """Return what was promised and has not landed yet."""
        return tuple(kind for kind in self._calls_left if not self.landed[kind])

    @property
    def is_on(self) -> bool:
        """Tell whether faults may strike."""
        return self._is_on

    def turn_on(self) -> None:
        """Begin to force what was promised."""
        self._is_on = True

    def turn_off(self) -> None:
        """Force nothing any more."""
        self._is_on = False
