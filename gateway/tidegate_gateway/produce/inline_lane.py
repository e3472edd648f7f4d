"""Whether the open WAL object travels in the metadata log.  Pure: times are passed in.

The log takes a number of bytes a second from all gateways together, and each gateway has an equal
share.  A gateway that used less saves up the share of one second at most, or one object of
max_object_bytes if that is more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from tidegate_coordination.log.metadata_log import LogCapabilities
from tidegate_coordination.rules.records.inlining import may_inline
from tidegate_coordination.state.cluster import ClusterState

LOOK_SECONDS: Final = 1.0


class InlineLane:
    """See the module's head.

    Args:
      max_object_bytes: of the batches of an object in the log; 0: none travels there.
      capabilities: returns those of the present log; asked once a second.
    """

    def __init__(
        self,
        max_object_bytes: int,
        capabilities: Callable[[], LogCapabilities],
        state: ClusterState,
    ) -> None:
        self.is_on = max_object_bytes > 0
        self._max_object_bytes = max_object_bytes
        self._capabilities = capabilities
        self._state = state
        self._looked_at = -inf
        self._largest = 0
        self._share = 0.0
        self._left = inf
        self._counted_at = 0.0

    def takes(self, size_bytes: int, now: float) -> bool:
        """Return whether the log takes an object of that size now."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._look(now)
        if not 0 < size_bytes <= self._largest:
            return False
        # If a share is smaller than an object, the gateway saves the shares of some seconds.
        most = max(self._share, self._largest)
        self._left = min(most, self._left + (now - self._counted_at) * self._share)
        self._counted_at = now
        return size_bytes <= self._left and may_inline(self._state, size_bytes)

    def took(self, size_bytes: int) -> None:
        """Note that an object goes into the log."""
        self._left -= size_bytes

    def _look(self, now: float) -> None:
        """Note what the log takes, and this gateway's share of it."""
        self._looked_at = now
        has = self._capabilities()
        self._share = has.inline_bytes_per_second / max(1, len(self._state.gateways.live))
        # Other proposals need room in the entry, too.
        largest = min(self._max_object_bytes, has.inline_max_bytes, has.max_entry_bytes // 4)
        self._largest = largest if self._share else 0
