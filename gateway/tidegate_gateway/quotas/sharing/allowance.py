"""This gateway's allowance of a quota that gateways share.  Pure; times are in ms.

The allowance grows by the gateway's share in each second.  Clients use it up; if it becomes
negative, they wait.  So in any time span all gateways together let through at most the sum of their
shares in this span, plus their savings.  A gateway saves at most `burst_seconds` of its share, or
of quota / live gateways if that is more.

A client waits until the share has made up the missing amount, but no longer than quota / live
gateways would take.  The reason: a gateway with enough demand soon gets at least this share.  If it
does not, the client must wait again.
"""

from __future__ import annotations

from collections.abc import Callable

from ..rates import MAX_THROTTLE_MS, rounded_ms
from .demand import Demand
from .fair_shares import floor_of
from .held_share import HeldShare
from .ledger import Wanted


class Allowance:
    """See the module's head.

    Args:
      burst_seconds: how much of a share can be saved up.
      live: returns the number of gateways.
      on_use: called when the allowance is used while inactive; returns whether it is active now.
        If not, the gateway's share is quota / live gateways.
    """

    __slots__ = (
        "_at_ms",
        "_burst_seconds",
        "_demand",
        "_held",
        "_live",
        "_on_use",
        "_quota",
        "_rate",
        "_saved",
    )

    def __init__(
        self,
        burst_seconds: float,
        live: Callable[[], int],
        on_use: Callable[[Allowance], bool],
    ) -> None:
        self._burst_seconds = burst_seconds
        self._live = live
        self._on_use = on_use
        self._held = HeldShare()
        self._demand: Demand | None = None
        self._saved: float | None = None
        self._quota = self._rate = 0.0
        self._at_ms = 0

    def take(self, count: float, quota: float, now_ms: int) -> None:
        """Use up an amount, even if it is not there; a negative count gives back."""
        self._settle(quota, now_ms)
        assert self._saved is not None
        self._saved -= count
        if count:
            self._used(now_ms)
            if self._demand is not None:
                self._demand.note_passed(count)

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return the present allowance, which may be negative."""
        self._settle(quota, now_ms)
        assert self._saved is not None
        return self._saved

    def most(self, quota: float, now_ms: int) -> float:
        """Return how much can be saved up."""
        even = quota / self._live()
        share = self._held.per_second(quota, self._live(), now_ms)
        return self._burst_seconds * max(share, even)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must wait until nothing is missing, and note the wait."""
        missing = -self.tokens(quota, now_ms)
        if missing <= 0:
            return 0
        rate = max(self._rate, quota / self._live())
        # quota / live gateways may be 0 for a tiny quota, by rounding.
        wait_ms = rounded_ms(missing / rate * 1_000) if rate > 0 else MAX_THROTTLE_MS
        self._used(now_ms)
        if self._demand is not None:
            self._demand.note_waiting(now_ms + wait_ms)
        return wait_ms

    def share(self, now_ms: int) -> float:
        """Return the gateway's share of the quota, by the last known quota."""
        return self._held.per_second(self._quota, self._live(), now_ms)

    def look(self, now_ms: int) -> Wanted | None:
        """Return the share to ask the owner for; None if none is needed.

        Call it every half second while it is active.

        This first gives back the unused part of the share, so that the owner can give it to others
        at once.  If the demand is 0, it gives back all but the floor, and the allowance becomes
        inactive.
        """
        if self._demand is None:
            return None
        demand = self._demand.look(self._quota, now_ms)
        self._settle(self._quota, now_ms)
        floor = floor_of(self._quota, self._live())
        if demand <= 0:
            self._demand = None
            self._held.release(floor)
        else:
            self._held.cut(max(demand, floor), now_ms)
        self._rate = self.share(now_ms)
        return Wanted(self._quota, demand, self.share(now_ms))

    def grant(self, share: float, asked_ms: int, now_ms: int) -> None:
        """Hold the share that the owner granted.  asked_ms: the time of the request."""
        if self._demand is not None:
            self._settle(self._quota, now_ms)
            self._held.take(share, asked_ms)
            self._rate = self.share(now_ms)

    def _used(self, now_ms: int) -> None:
        if self._demand is None:
            self._held.resume(now_ms)
            self._demand = Demand(now_ms) if self._on_use(self) else None

    def _settle(self, quota: float, now_ms: int) -> None:
        """Add the growth since the last call."""
        before, self._quota = self._rate, quota
        self._rate = self._held.per_second(quota, self._live(), now_ms)
        most = self.most(quota, now_ms)
        if self._saved is None:
            self._saved = most
        else:
            # The share may have changed in between, so the smaller one counts.
            grown = min(before, self._rate) * (now_ms - self._at_ms) / 1_000
            self._saved = min(self._saved + grown, most)
        self._at_ms = now_ms
