"""The leader as one gateway sees it, and whether it is this gateway itself."""

from __future__ import annotations

from typing import Final

import structlog

from ..state.cluster import ClusterState
from ..state.writers.gateways import Gateway
from .hooks import Hook
from .leaders import leader
from .suspects import Suspects

FIRST_SUSPECT_SECONDS: Final = 5.0

_log = structlog.get_logger("tidegate.forwarding")


class Leadership:
    """The leader by rendezvous among the gateways that are not suspected.

    reaches_log: whether this gateway may lead.  leading: whether it leads; None while that is
    unknown.
    count: how often it began to lead.
    """

    def __init__(self, state: ClusterState, *, reaches_log: bool) -> None:
        self.suspects: Final = Suspects(FIRST_SUSPECT_SECONDS)
        self.leading: bool | None = None
        self.count = 0
        self._state = state
        self._reaches_log = reaches_log
        self._hooks: list[Hook] = []
        self._found: Gateway | None = None
        self._key: object = None

    def listen(self, hook: Hook) -> None:
        """Call hook(True) when this gateway begins to append for others, hook(False) after.

        See hooks.py.
        """
        self._hooks.append(hook)

    def other(self, me: int) -> Gateway | None:
        """Return the leader if it is another gateway than incarnation `me`; else None."""
        suspects = self.suspects.held()
        key = (self._state.gateways.version, suspects, me)
        if key != self._key:
            self._key = key
            self._found = self._choose(me, suspects)
            self._note(self._found is not None and self._found.incarnation == me)
        found = self._found
        return found if found is not None and found.incarnation != me else None

    def another(self, me: int) -> Gateway | None:
        """Return the leader among the gateways other than incarnation `me`."""
        return leader(self._state, {*self.suspects.held(), me})

    def _choose(self, me: int, suspects: tuple[int, ...]) -> Gateway | None:
        if self._reaches_log:
            return leader(self._state, suspects)
        return leader(self._state, {*suspects, me}) or leader(self._state, {me})

    def _note(self, leads: bool) -> None:
        if leads == self.leading:
            return
        is_news = leads or self.leading is not None
        self.leading = leads
        if is_news:
            _log.info("began to append for others" if leads else "stopped appending for others")
            self.count += leads
            for hook in self._hooks:
                self._tell(hook, leads)

    def _tell(self, hook: Hook, leads: bool) -> None:
        try:
            hook(leads)
        except Exception:  # a plug-in must not stop the gateway
            _log.exception("a leadership hook failed", hook=repr(hook), leads=leads)
