"""Which gateways have fallen silent: they neither answer nor write to the metadata log.

Not to be heard by one gateway says little of another: the network between the two may be cut.  But
whoever lives and reaches the log renews its lease there, a third of the lease after its last entry
at the latest.  So one that has done neither for longer may be relieved of its groups before its
lease is over (decision 20).  The rule that does it looks at the log's end, where the last entry of
the silent one must still be the one that is named here; see TakeClaim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegate_coordination.state.gateways import GatewayTable

# Of the lease.  Renewals come after a third of it at most; the rest is for a log that is slow.
SILENT_SHARE: Final = 0.4

LastEntry = tuple[int, int]
"""An incarnation, and the clock of its last entry."""


@dataclass(frozen=True, slots=True)
class _Silence:
    clock_ms: int
    since: float


class Silences:
    """Of the gateways that are absent.  Time is the caller's."""

    def __init__(self, gateways: GatewayTable) -> None:
        self._gateways = gateways
        self._known: dict[int, _Silence] = {}

    def look(self, absent: Iterable[int], now: float) -> None:
        """Take note of who is absent now; whoever wrote meanwhile begins anew."""
        known, self._known = self._known, {}
        for incarnation in absent:
            gateway = self._gateways.live.get(incarnation)
            if gateway is None:
                continue
            silence = known.get(incarnation)
            if silence is None or silence.clock_ms != gateway.clock_ms:
                silence = _Silence(gateway.clock_ms, now)
            self._known[incarnation] = silence

    def last_entry_of(self, incarnation: int, now: float) -> LastEntry | None:
        """Return what a gateway wrote last, if it has been silent for long enough."""
        silence = self._known.get(incarnation)
        if silence is None:
            return None
        enough_seconds = SILENT_SHARE * self._gateways.lease_ms / 1000
        is_over = now - silence.since >= enough_seconds
        return (incarnation, silence.clock_ms) if is_over else None
