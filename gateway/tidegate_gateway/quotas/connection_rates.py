"""Limits the rates of new connections: of all together, and from one address (KIP-612).

While the rate of all connections is too high, the gateway accepts no further ones, so clients wait
in the kernel's backlog.  If an address is above its own quota, the gateway accepts its connection,
holds it for a moment and closes it, so that the client does not try again at once.  As in Kafka,
neither wait is longer than one window, and closed connections are not counted.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.security.quotas import Bucket, normal_address
from tidegate_coordination.state.security.quotas import ClientQuotaTable

from .rates import SampledRate, Windows
from .usage import Buckets

_LOWEST: Final = 1e-6
"""Stands for a rate of 0, at which each wait is the longest."""


class ConnectionRates:
    """See the module's head.

    held: how many connections were held and closed.  waited_seconds: how long accepting paused.

    Args:
      rate: of all connections, in a second.
    """

    def __init__(self, table: ClientQuotaTable, windows: Windows, rate: float) -> None:
        self.held = 0
        self.waited_seconds = 0.0
        self._table = table
        self._windows = windows
        self._rate = max(rate, _LOWEST)
        self._all = SampledRate(windows)
        self._of_addresses = Buckets(lambda _: SampledRate(windows))

    def pause(self) -> float:
        """Count an accepted connection; return after how many seconds the next may be accepted."""
        now_ms = _now_ms()
        self._all.record(1, now_ms)
        seconds = self._wait_ms(self._all, self._rate, now_ms) / 1_000
        self.waited_seconds += seconds
        return seconds

    async def holds(self, host: str) -> bool:
        """Return False if a connection of an address may be served; else wait and return True."""
        rate = self._table.connection_rate(host)
        if rate is None:
            return False
        now_ms = _now_ms()
        of_address = self._of_addresses.of(Bucket(normal_address(host) or host, ""), now_ms)
        of_address.record(1, now_ms)
        wait_ms = self._wait_ms(of_address, int(rate), now_ms)
        if not wait_ms:
            return False
        of_address.record(-1, now_ms)
        self._all.record(-1, now_ms)
        self.held += 1
        await trio.sleep(wait_ms / 1_000)
        return True

    def _wait_ms(self, counted: SampledRate, rate: float, now_ms: int) -> int:
        return min(counted.throttle_ms(rate, now_ms), self._windows.window_ms)


def _now_ms() -> int:
    return int(trio.current_time() * 1_000)
