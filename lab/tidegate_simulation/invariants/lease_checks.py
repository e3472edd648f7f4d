"""No gateway expires another that wrote to the log within the last half lease, whatever clocks say.

Writes are the gateway's own entries, its proposals in entries of others, and its registration, at
the true time of the append.  So the watch judges an entry when it is appended: a reader that gets
several entries at once cannot tell how much time passed between them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import Entry, authored
from tidegate_coordination.state.cluster import ClusterState


class LeaseWatch:
    """See the module's head.

    complain: called with the kind and the text of a violation.  now: the true time, in seconds.
    """

    def __init__(self, complain: Callable[[str, str], None], now: Callable[[], float]) -> None:
        self._complain = complain
        self._now = now
        self._heard_at: dict[int, float] = {}

    def before(self, state: ClusterState, entry: Entry) -> None:
        """Judge an entry that was just appended by the state before it."""
        now = self._now()
        self._heard_at[entry.writer] = now
        for author, event in authored(entry):
            self._heard_at[author] = now
            if isinstance(event, ev.GatewayRegistered):
                self._heard_at[event.incarnation] = now
            elif isinstance(event, ev.GatewayExpired) and event.incarnation != author:
                silent = now - self._heard_at.get(event.incarnation, -inf)
                if silent < state.gateways.lease_ms / 2000:
                    text = f"{event} by {entry.writer} after {silent:.2f} s"
                    self._complain("expired too soon", text)
