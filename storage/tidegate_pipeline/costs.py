"""Counts this pipeline's requests to the object store, and writes the sums beside those of
gateways.

Tasks count their requests where they run, even in Spark's workers, and return the counts with their
results.  So the requests of a task without a result, which was stopped or lost, are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
import trio

from tidegate_coordination.logs.movable import MovableLog
from tidegate_storage.objects.cost_sums import (
    PIPELINE,
    CostSums,
    KindBook,
    LogRequests,
    encode,
    hour_of,
)
from tidegate_storage.objects.keys import cost_key
from tidegate_storage.stores.counting_store import CountingStore, Request, RequestSums
from tidegate_storage.stores.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)

from .tasks.work import Asked

_log = structlog.get_logger("tidegate.pipeline")

WRITE_SECONDS: Final = 3_600.0
# A key needs a node id of 0 or more.  The driver has none, and its incarnation alone makes the key
# unique.
_NODE_ID: Final = 0


class CostBook:
    """See the module's head.  A book outlives the incarnations of a driver."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._log: MovableLog | None = None
        self._log_requests = LogRequests(self._of_log)
        self._begin_ms = self._now_ms()
        self._counter = 0
        self._unwritten: tuple[str, bytes] | None = None
        self._one_at_a_time = trio.Lock()
        self._asked = KindBook()

    def counted(self, store: ObjectStore, log: MovableLog) -> ObjectStore:
        """Return the store with its requests counted; count the log's requests from now on, too."""
        self._log = log
        # Book now: a driver that ended by an error has written nothing, and the requests of its log
        # would be lost.
        self._log_requests.book(self._asked)
        return CountingStore(store, self._asked)

    def _of_log(self) -> RequestSums | None:
        return self._log.requests if self._log is not None else None

    def _now_ms(self) -> int:
        return round(self._wall_clock() * 1000)

    def add(self, asked: Asked) -> None:
        """Count a task's requests."""
        self._asked.requests.update(asked.requests)
        self._asked.stored_bytes.update(asked.stored_bytes)
        self._asked.got_bytes.update(asked.got_bytes)

    async def write(
        self, store: ObjectStore, cluster_id: str, timeline: int, incarnation: int
    ) -> None:
        """Store the sums since the last time; first store sums that could not be stored before.

        Args:
          store: a store whose requests are not counted.
          incarnation: the driver's, which no other has.

        Raises:
          StoreUnavailable, StoreMisconfigured: call it again later; nothing is lost.
        """
        async with self._one_at_a_time:
            if self._unwritten is not None:
                await self._put(store, *self._unwritten)
            self._log_requests.book(self._asked)
            if not self._asked.requests:
                return
            # The sums include this object's own PUT.
            self._asked.requests["put costs"] += 1
            sums = self._taken()
            self._counter += 1
            hour = hour_of(sums.end_ms / 1000)
            key = cost_key(cluster_id, timeline, hour, _NODE_ID, incarnation, self._counter)
            self._unwritten = key, encode(sums)
            await self._put(store, *self._unwritten)

    def _taken(self) -> CostSums:
        sums = CostSums(
            node_id=PIPELINE,
            begin_ms=self._begin_ms,
            end_ms=max(self._now_ms(), self._begin_ms),
            requests=dict(self._asked.requests),
            stored_bytes=dict(self._asked.stored_bytes),
            got_bytes=dict(self._asked.got_bytes),
        )
        self._begin_ms = sums.end_ms
        self._asked.clear()
        return sums

    async def _put(self, store: ObjectStore, key: str, body: bytes) -> None:
        try:
            await put_idempotent(store, key, body)
        except ObjectExists:
            _log.warning("another process's sums have the key of this one's", key=key)
        except (StoreMisconfigured, StoreUnavailable):
            self._asked.asked(Request.PUT, key)  # the PUT that will repeat this one
            raise
        else:
            self._asked.stored(key, len(body))
        self._unwritten = None
