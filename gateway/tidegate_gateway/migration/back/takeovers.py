"""Computes how long a gateway waits before it writes a topic's partitions back.  Pure.

While the set of live gateways does not change, a partition has the same owner, even if writing back
is stopped and started again.  Only before a change can another gateway have been the owner.  After
the time of a lease, that gateway has read of the change, or has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable


class Takeovers:
    """See the module's head.  Times are seconds on one monotonic clock."""

    def __init__(self) -> None:
        self._gateways: tuple[int, ...] = ()
        self._since = 0.0
        self._theirs: set[bytes] = set()

    def look(
        self, gateways: tuple[int, ...], reversed_ids: Iterable[bytes], now: float, *, is_live: bool
    ) -> None:
        """Note the present gateways and topics of the state.

        gateways: those that may own partitions.  reversed_ids: of the topics that are written back,
        or were.  is_live: whether this gateway may write now.
        """
        if gateways != self._gateways or not is_live:
            self._gateways, self._since = gateways, now
            self._theirs.update(reversed_ids)

    def pause_seconds(self, topic_id: bytes, now: float, lease_seconds: float) -> float:
        """Return how long to wait before the first batch of a topic."""
        left = self._since + lease_seconds - now
        if left <= 0:
            self._theirs.clear()
        return left if topic_id in self._theirs else 0.0
