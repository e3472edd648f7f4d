"""Whether the open WAL object travels in the metadata log.  Pure: times are passed in.

The log takes a number of bytes a second from all gateways together, and each gateway has an equal
share.  A gateway that used less saves up the share of one second at most, or one object of
max_object_bytes if that is more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tidegate_coordination.rules.records.inlining import may_inline
from tidegate_coordination.state.cluster import ClusterState


@dataclass(slots=True)
class InlineLane:
    """See the module's head.

    max_object_bytes: of the batches of an object in the log; 0: none travels there.
    bytes_per_second: returns the bytes that the present log takes from all gateways.
    """

    max_object_bytes: int
    bytes_per_second: Callable[[], int]
    state_of: Callable[[], ClusterState]
    _left: float = inf
    _counted_at: float = 0.0

    @property
    def is_on(self) -> bool:
        """Return whether the settings let objects travel in the log."""
        return self.max_object_bytes > 0

    def takes(self, size_bytes: int, now: float) -> bool:
        """Return whether the log takes an object of that size now."""
        if not 0 < size_bytes <= self.max_object_bytes:
            return False
        self._fill(now)
        return size_bytes <= self._left and may_inline(self.state_of(), size_bytes)

    def took(self, size_bytes: int) -> None:
        """Note that an object goes into the log."""
        self._left -= size_bytes

    def _fill(self, now: float) -> None:
        share = self.bytes_per_second() / max(1, len(self.state_of().gateways.live))
        # If a share is smaller than an object, the gateway saves the shares of some seconds.
        most = max(share, self.max_object_bytes) if share else 0.0
        self._left = min(most, self._left + (now - self._counted_at) * share)
        self._counted_at = now
