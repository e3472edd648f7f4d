"""Connections to the brokers of a source; each serves one request at a time.

A broker answers a connection's requests one after another, and may let a JoinGroup wait for
minutes.  Such requests must not take all connections: otherwise the heartbeats of other members
would fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable
from tidegate_coordination.client.wire.connection import BrokerConnection

WAITING_SHARE: Final = 0.8
_NAME: Final = "group-{}"


class GroupLines:
    """See the module's head.

    cluster: a client of the source that only this class uses.  max_lines: the most connections that
    are taken at once.
    """

    def __init__(self, cluster: ClassicCluster, max_lines: int) -> None:
        self.cluster = cluster
        self.max_lines = max_lines
        self._taken = 0
        self._waiting = 0
        self._open = 0
        self._numbers = count(1)
        self._free: defaultdict[int, list[int]] = defaultdict(list)

    @asynccontextmanager
    async def taken(self, node_id: int, *, waits: bool) -> AsyncGenerator[BrokerConnection, None]:
        """Lend a connection to a broker; if the request fails or is cancelled, close it.

        waits: whether the broker may delay the answer until other members have joined.

        Raises:
          ClassicError: too many requests wait, or no connection could be opened.
        """
        is_full = waits and self._waiting >= max(1, int(self.max_lines * WAITING_SHARE))
        if is_full or self._taken >= self.max_lines:
            raise BrokerUnreachable(f"{self._taken} requests of groups wait for the source.")
        number = self._take(node_id)
        self._waiting += waits
        connection: BrokerConnection | None = None
        try:
            connection = await self.cluster.connection(node_id, _NAME.format(number))
            yield connection
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        finally:
            self._waiting -= waits
            self._give(node_id, number, connection)

    def _take(self, node_id: int) -> int:
        self._taken += 1
        if self._free[node_id]:
            return heappop(self._free[node_id])
        self._open += 1
        return next(self._numbers)

    def _give(self, node_id: int, number: int, connection: BrokerConnection | None) -> None:
        """Keep a connection for the next request, unless too many are open."""
        self._taken -= 1
        if self._open <= self.max_lines:
            heappush(self._free[node_id], number)
            return
        self._open -= 1
        if connection is not None:
            connection.close()
