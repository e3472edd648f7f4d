"""This gateway's allowance of a quota that gateways share.  Pure; times are in ms.

The allowance grows by the gateway's share in each second.  Clients use it up, and it may go below
zero; then they wait.  So whatever way the shares go, in any time all gateways let
through what their shares add up to in it, and what was saved up before.  That is at most what
`burst_seconds` of the share bring, or of quota / live gateways if that is more.

A client waits as long as the share needs to make good what is missing, but no longer than quota /
live gateways needs: a gateway with so much demand soon gets as much.  If it does not get it, the
client waits again.
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
      on_use: called when it is used and is not active; returns whether it is now.  Else the
        gateway has quota / live gateways.
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
        """Take from it, however much there is; a negative count gives back."""
        self._settle(quota, now_ms)
        assert self._saved is not None
        self._saved -= count
        if count:
            self._used(now_ms)
            if self._demand is not None:
                self._demand.note_passed(count)

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return how much there is."""
        self._settle(quota, now_ms)
        assert self._saved is not None
        return self._saved

    def most(self, quota: float, now_ms: int) -> float:
        """Return how much can be saved up."""
        even = quota / self._live()
        share = self._held.per_second(quota, self._live(), now_ms)
        return self._burst_seconds * max(share, even)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must wait until nothing is missing, and note that it does."""
        missing = -self.tokens(quota, now_ms)
        if missing <= 0:
            return 0
        rate = max(self._rate, quota / self._live())
        # The part of a tiny quota may be too small for a float.
        wait_ms = rounded_ms(missing / rate * 1_000) if rate > 0 else MAX_THROTTLE_MS
        self._used(now_ms)
        if self._demand is not None:
            self._demand.note_waiting(now_ms + wait_ms)
        return wait_ms

    def share(self, now_ms: int) -> float:
        """Return the gateway's share of the quota that was asked for last."""
        return self._held.per_second(self._quota, self._live(), now_ms)

    def look(self, now_ms: int) -> Wanted | None:
        """Return the share to ask the owner for; None if none is needed.

        Call it every half second while it is active.

        The unused part of the share is given back first, so that the owner can give it to others at
        once.  A demand of 0 gives back all but the floor, and ends being active.
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
        """Hold what the owner answered to a question of asked_ms."""
        if self._demand is not None:
            self._settle(self._quota, now_ms)
            self._held.take(share, asked_ms)
            self._rate = self.share(now_ms)

    def _used(self, now_ms: int) -> None:
        if self._demand is None:
            self._held.resume(now_ms)
            self._demand = Demand(now_ms) if self._on_use(self) else None

    def _settle(self, quota: float, now_ms: int) -> None:
        """Add what the share brought since the last call."""
        before, self._quota = self._rate, quota
        self._rate = self._held.per_second(quota, self._live(), now_ms)
        most = self.most(quota, now_ms)
        if self._saved is None:
            self._saved = most
        else:
            # The share may have changed on the way: the smaller one counts.
            grown = min(before, self._rate) * (now_ms - self._at_ms) / 1_000
            self._saved = min(self._saved + grown, most)
        self._at_ms = now_ms
