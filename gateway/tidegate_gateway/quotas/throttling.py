"""Throttles the connections of clients that are above a quota; see request_cost.py.

A draining gateway throttles no client, since all clients shall leave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

import trio

from tidegate_protocol.headers import RequestHeader

from ..network.call import Peer
from ..network.connection import Connection
from .client_quotas import NO_LIMITS, ClientQuotas
from .request_cost import RequestCost
from .step_time import Timed

Result = TypeVar("Result")


class Throttle:
    """The throttling of one request."""

    def __init__(self, connection: Connection, cost: RequestCost) -> None:
        self.cost = cost
        self._connection = connection

    def timed(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]:
        """Return the work, measured if the client has a quota of request time."""
        clock = self.cost.clock
        return work if clock is None else Timed(work, clock)

    def begin(self, *, is_answered: bool = True) -> int:
        """Mute the connection; return the throttle time for the answer, in ms.

        is_answered: as in Kafka, the time of a request without an answer does not count.
        """
        throttle_ms = self.cost.throttle_ms(_now_ms(), with_time=is_answered)
        if throttle_ms:
            self._connection.mute(throttle_ms / 1_000)
        return throttle_ms

    def apply(self, response: Any) -> None:
        """Mute the connection, and put the throttle time into the answer."""
        throttle_ms = self.begin()
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms


class Throttling:
    """See the module's head.

    Args:
      step_time: seconds of a monotonic clock that runs during a step of the event loop.
      is_draining: whether the gateway sends its clients away.
      connections: returns the open connections.
    """

    def __init__(
        self,
        quotas: ClientQuotas,
        step_time: Callable[[], float],
        is_draining: Callable[[], bool],
        connections: Callable[[], Collection[Connection]],
    ) -> None:
        self.quotas = quotas
        self.step_time = step_time
        self._is_draining = is_draining
        self._connections = connections
        self._as_of = quotas.version

    def of(self, connection: Connection, header: RequestHeader) -> Throttle | None:
        """Return the throttling of a request.

        None if its client has no quota, or while the gateway drains.
        """
        limits = self.quotas.limits(connection.peer.principal, header.client_id or "")
        if limits is NO_LIMITS or self._is_draining():
            return None
        return Throttle(connection, RequestCost(self.quotas, limits, _now_ms(), self.step_time))

    def produce(
        self, connection: Connection, header: RequestHeader, size_bytes: int
    ) -> Throttle | None:
        """Return the throttling of a produce request like of(), and count the request's bytes."""
        throttle = self.of(connection, header)
        if throttle is not None:
            throttle.cost.produce(size_bytes)
        return throttle

    def look(self, peer: Peer) -> None:
        """Note whether a client has a quota of bytes that it produces, or of request time."""
        limits = self.quotas.limits(peer.principal, peer.client_id or "")
        peer.is_limited = limits.produce is not None or limits.request is not None

    def on_change(self, _: set[int]) -> None:
        """Apply changed quotas to all clients; the coordinator calls this."""
        self.quotas.look()
        if self._as_of != self.quotas.version:
            self._as_of = self.quotas.version
            for each in self._connections():
                self.look(each.peer)

    def end_if_draining(self) -> None:
        """Unmute all connections if the gateway sends its clients away."""
        if self._is_draining():
            for each in self._connections():
                each.unmute()


def _now_ms() -> int:
    return int(trio.current_time() * 1_000)
