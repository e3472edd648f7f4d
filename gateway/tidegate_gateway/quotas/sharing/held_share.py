"""The share of a quota that a gateway holds, by its own clock.  Pure; times are in ms.

A grant of the owner holds for HOLD_MS after its request.  If the owner stays silent, a share above
quota / live gateways then falls to this value within FALL_MS.  A smaller share rises to this value
only after that, within another FALL_MS.  So after KEPT_MS the owner can grant the share of a silent
gateway to others, and all silent gateways together never hold more than the quota.
"""

from __future__ import annotations

from typing import Final

HOLD_MS: Final = 1_200
FALL_MS: Final = 600
KEPT_MS: Final = HOLD_MS + FALL_MS
"""For so long a gateway may hold more of a share than quota / live gateways."""


class HeldShare:
    """See the module's head.  It begins as quota / live gateways, as after a long silence."""

    def __init__(self) -> None:
        self._share: float | None = None
        self._asked_ms = 0
        self._is_kept = False

    def take(self, share: float, asked_ms: int) -> None:
        """Hold the share that the owner granted.  asked_ms: the time of the request."""
        self._share, self._asked_ms, self._is_kept = share, asked_ms, False

    def cut(self, most: float, now_ms: int) -> None:
        """Reduce the share to the clients' demand; the time of the owner's silence continues."""
        if self._share is not None and now_ms - self._asked_ms <= HOLD_MS:
            self._share = min(self._share, most)

    def release(self, floor: float) -> None:
        """Hold only the floor, until the next request."""
        self._share, self._is_kept = floor, True

    def resume(self, now_ms: int) -> None:
        """Resume requests after a release: the owner's silence counts from now."""
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
