"""The share of a quota that a gateway holds, by its own clock.  Pure; times are in ms.

An answer of the owner holds for HOLD_MS, counted from the question.  While the owner is silent, a
share that is larger than quota / live gateways then falls to that, within FALL_MS.  A smaller one
rises to it only afterwards, within FALL_MS again.  So after KEPT_MS the owner can give away what a
silent gateway held, and at no time do all silent gateways together hold more than the quota.
"""

from __future__ import annotations

from typing import Final

HOLD_MS: Final = 1_200
FALL_MS: Final = 600
KEPT_MS: Final = HOLD_MS + FALL_MS
"""For so long a gateway may hold more of a share than quota / live gateways."""


class HeldShare:
    """See the module's head.  It begins as the share of a gateway whose owner has been silent."""

    def __init__(self) -> None:
        self._share: float | None = None
        self._asked_ms = 0
        self._is_kept = False

    def take(self, share: float, asked_ms: int) -> None:
        """Hold the share that the owner gave.  asked_ms: when it was asked."""
        self._share, self._asked_ms, self._is_kept = share, asked_ms, False

    def cut(self, most: float, now_ms: int) -> None:
        """Hold no more than that, which is what clients need; the owner's silence counts on."""
        if self._share is not None and now_ms - self._asked_ms <= HOLD_MS:
            self._share = min(self._share, most)

    def release(self, floor: float) -> None:
        """Hold no more than the floor, for as long as nothing is asked for."""
        self._share, self._is_kept = floor, True

    def resume(self, now_ms: int) -> None:
        """Ask again after a release: the owner's silence counts from now."""
        if self._is_kept:
            self._asked_ms, self._is_kept = now_ms, False

    def per_second(self, quota: float, live: int, now_ms: int) -> float:
        """Return the share; at most the quota.  live: the number of gateways."""
        even = quota / live
        if self._share is None:
            return even
        share, silent_ms = min(self._share, quota), now_ms - self._asked_ms
        if self._is_kept or silent_ms <= HOLD_MS:
            return share
        begins_ms = HOLD_MS if share > even else KEPT_MS
        passed = min(max((silent_ms - begins_ms) / FALL_MS, 0.0), 1.0)
        return share + (even - share) * passed
