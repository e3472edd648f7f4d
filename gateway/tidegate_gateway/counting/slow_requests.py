"""One log line for each request that took long, with its stages.

At most MAX_LINES a second are written: when all requests are slow, the log must not make them
slower.  The next line has the number of omitted lines.  The counts include all slow requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum, auto
from math import inf
from typing import Final

import structlog

from tidegate_protocol.apis import APIS
from tidegate_runtime.line_rates import UNLIMITED, LineRate

from ..network.call import ANONYMOUS, Peer

_log = structlog.get_logger("tidegate.slow_requests", UNLIMITED)  # note() limits these lines

MAX_LINES: Final = 5
"""Per second, for all clients."""
MAX_NAME_CHARACTERS: Final = 128
NOTHING: Final = -1
"""The value of slow.request.log.ms without lines."""


class Waits(Enum):
    """A reason for a late answer of a gateway that is not slow."""

    NEVER = auto()
    FOR_RECORDS = auto()
    FOR_MEMBERS = auto()  # for the other members of a group, during its rebalance


def seconds_of(threshold_ms: int) -> float:
    """Return the least time of a slow request; inf if slow requests are not logged."""
    return inf if threshold_ms == NOTHING else threshold_ms / 1000


class SlowRequests:
    """See the module's head.

    after_seconds: the least time of a slow request.  Callers compare times with this number
      themselves, so a fast request takes no call.  counts: slow requests by API key.
    """

    def __init__(self, after_seconds: float = inf) -> None:
        self.after_seconds = after_seconds
        self.counts: Counter[int] = Counter()
        self._rate = LineRate(MAX_LINES, seconds=1.0)

    def note_answered(
        self, api_key: int, waits: Waits, peer: Peer, received: float, began: float, now: float
    ) -> None:
        """Note a request that took long, unless it waited for records or for other members.

        received: when the request's last byte came.  began: when its handler began.
        """
        stages, waited = {"queue_ms": milliseconds(began - received)}, 0.0
        if waits is Waits.FOR_RECORDS:
            work = peer.fetch_work
            waited = work.waited_seconds
            stages |= {"wait_ms": milliseconds(waited), "gets": work.gets, "bytes": work.size_bytes}
        is_slow = now - received - waited >= self.after_seconds
        if is_slow and waits is not Waits.FOR_MEMBERS:
            self.note(api_key, peer, now - received, stages, now)

    def note(
        self, api_key: int, peer: Peer, seconds: float, stages: Mapping[str, int], now: float
    ) -> None:
        """Log or count a slow request.

        Args:
          seconds: from the request's last byte to its answer.  stages: fields of the line, in
          order.
          now: seconds of a monotonic clock.
        """
        self.counts[api_key] += 1
        left_out = self._rate.take(now)
        if left_out is None:
            return
        fields: dict[str, object] = {}
        if peer.principal != ANONYMOUS:
            fields["principal"] = peer.principal[:MAX_NAME_CHARACTERS]
        fields |= stages
        if left_out:
            fields["left_out"] = left_out
        _log.warning(
            "a request was slow",
            api=APIS[api_key].name,
            client_id=(peer.client_id or "")[:MAX_NAME_CHARACTERS],
            peer=f"{peer.host}:{peer.port}",
            listener=peer.listener,
            total_ms=milliseconds(seconds),
            **fields,
        )


def milliseconds(seconds: float) -> int:
    """Return a time in milliseconds, as a log line shows it."""
    return round(seconds * 1000)
