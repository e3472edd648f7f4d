"""Whether the metadata log still answers this gateway, and how long its callers wait."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from .replica import Replica
from .route import Route

CUT_OFF_SHARE: Final = 2 / 3
"""Part of a lease: a log counts as silent if it did not answer for so long."""


class Liveness:
    """Knows since when the log owes an answer; see LogAccess.

    Until it is answered, a question to another gateway counts as a call of the log.

    most_stale_seconds: see stale_seconds.
    """

    def __init__(self, replica: Replica, route: Route) -> None:
        self._replica = replica
        self._access = replica.access
        self._route = route
        self.most_stale_seconds = inf

    @property
    def silent_since(self) -> float | None:
        """When the oldest unanswered call of the log or of the leader began, on Trio's clock; None
        without one.
        """
        return _earlier(self._access.asked_at, self._route.unheard_since)

    @property
    def is_cut_off(self) -> bool:
        """Whether other gateways may have ended this gateway's lease without its knowledge.

        It becomes true if the log has not answered for a lease and other gateways can serve.  It
        stays true until this replica has read to the log's end again.  A slow log that answers does
        not count as silent, or the gateway would disconnect its clients again and again.
        """
        return self._is_unsure_for(self._lease_seconds) and self._has_others

    @property
    def is_stale(self) -> bool:
        """Whether this replica may lack changes that are older than stale_seconds.

        A replica that is cut off is stale, too.  After most_stale_seconds it is stale even if it
        knows no other gateway, since one may have started meanwhile.
        """
        # This is asked for each request, and nearly always returns here.
        if self._access.unsure_since is None and self._route.unheard_since is None:
            return False
        if self._is_unsure_for(self.stale_seconds) and self._has_others:
            return True
        return self._is_unsure_for(self.most_stale_seconds)

    @property
    def stale_seconds(self) -> float:
        """How long clients of records are served from a state that may be outdated."""
        return min(self._lease_seconds, self.most_stale_seconds)

    @property
    def _lease_seconds(self) -> float:
        return self._replica.state.gateways.lease_ms / 1000

    @property
    def _has_others(self) -> bool:
        return self._replica.state.gateways.has_others(self._replica.incarnation)

    def _is_unsure_for(self, seconds: float) -> bool:
        unsure_since = _earlier(self._access.unsure_since, self._route.unheard_since)
        if unsure_since is None or not self._replica.incarnation:
            return False
        now = trio.current_time()
        if now < unsure_since + CUT_OFF_SHARE * seconds:
            return False
        return now >= self._access.answered_at + seconds


class Patience:
    """How long callers wait: deadline_seconds, and away_seconds for a log that is silent.

    While the log is silent, proposals without a caller must not pile up in the queue.
    """

    def __init__(self, liveness: Liveness, deadline_seconds: float, away_seconds: float) -> None:
        self.deadline_seconds: Final = deadline_seconds
        self._liveness = liveness
        self._away_seconds = away_seconds

    async def wait(self, done: trio.Event, withdraw: Callable[[], None]) -> None:
        """Wait for an event; call withdraw if it was not set in time, or the wait is cancelled."""
        deadline = trio.current_time() + self.deadline_seconds
        try:
            while not done.is_set() and (now := trio.current_time()) < deadline:
                silent_since = self._liveness.silent_since
                away_at = self._away_seconds + (now if silent_since is None else silent_since)
                if now >= away_at:
                    return
                with trio.move_on_at(min(deadline, away_at)):
                    await done.wait()
        finally:
            if not done.is_set():
                withdraw()


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
