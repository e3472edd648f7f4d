"""Connections of clients that are not known yet: in the TLS handshake, or before they logged in.

They take an eighth of all connections at most, so that clients that only connect leave the others
room.  Beyond that the one that connected first is closed: a client that logs in needs a moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog
import trio

from tidegate_runtime.said_again import SaidAgain

from .transport import Transport

_log = structlog.get_logger("tidegate.server")

SHARE: Final = 8
_TEXT: Final = "too many connections are not authenticated: the oldest of them are closed"


def of_all(max_connections: int) -> int:
    """Return how many of these connections strangers may have."""
    return max(max_connections // SHARE, 1)


class Strangers:
    """maximum: of connections at a time.  closed: how many were closed for others."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.closed = 0
        self._transports: OrderedDict[int, Transport] = OrderedDict()
        self._said = SaidAgain()
        self._count = 0

    def __len__(self) -> int:
        return len(self._transports)

    def add(self, transport: Transport) -> Callable[[], None]:
        """Take a connection; return what to call once its client is known, or has gone."""
        self._count += 1
        number = self._count
        self._transports[number] = transport
        while len(self._transports) > self.maximum:
            self._close_oldest()
        return lambda: self._forget(number)

    def _close_oldest(self) -> None:
        _, transport = self._transports.popitem(last=False)
        transport.close()
        self.closed += 1
        if self._said.is_due(_TEXT, trio.current_time()):
            _log.warning(_TEXT, most=self.maximum)

    def _forget(self, number: int) -> None:
        self._transports.pop(number, None)
