"""Reads ranges of objects from a gateway of the zone if possible, otherwise from the store."""

from __future__ import annotations

from typing import NamedTuple

import trio

from tidegate_coordination.state.records.objects import ObjectName
from tidegate_runtime.histograms import Histogram
from tidegate_storage.stores.object_store import ObjectStore

from ...network.fetch_work import count_get
from .object_asks import ObjectAsk
from .zone_reads import ZoneReads

FROM_STORE = 0
"""The lender of a range from the store; no incarnation has this number."""


class Got(NamedTuple):
    """The bytes of a range, perhaps damaged in transit; lender: see zone_reads.Lent."""

    ask: ObjectAsk
    body: memoryview
    lender: int

    @property
    def rereads(self) -> int:
        """Return how often to ask the store again if these bytes are damaged.

        They may be damaged only in transit, and whole in the store.
        """
        return 1 if self.is_from_store else 2

    @property
    def is_from_store(self) -> bool:
        """Return whether the bytes came from the store."""
        return self.lender == FROM_STORE

    def part(self, position: int, length: int) -> memoryview:
        """Return bytes by their place in the object."""
        at = position - self.ask.start
        return self.body[at : at + length]


class ObjectReads:
    """See the module's head.

    concurrent_reads: the most concurrent reads of the store.  store_reads, store_bytes, times:
    counters.
    """

    def __init__(self, store: ObjectStore, concurrent_reads: int, zone: ZoneReads | None) -> None:
        self.store_reads = 0
        self.store_bytes = 0
        self.times = Histogram()
        self._store = store
        self._zone = zone
        self._reads = trio.Semaphore(concurrent_reads)

    async def read(self, name: ObjectName, ask: ObjectAsk) -> Got:
        """Read a range of an object.

        Raises:
          NoSuchObject, StoreUnavailable, StoreMisconfigured: as ObjectStore.get_range.
        """
        lent = await self._zone.read(name, ask) if self._zone is not None else None
        return Got(ask, *lent) if lent is not None else await self.read_store(ask)

    def at_hand(self, ask: ObjectAsk) -> Got | None:
        """Return a range that is in memory since an earlier read got a whole block."""
        lent = self._zone.at_hand(ask) if self._zone is not None else None
        return Got(ask, *lent) if lent is not None else None

    async def read_store(self, ask: ObjectAsk) -> Got:
        """Read a range from the store.

        Raises: as read().
        """
        count_get()
        async with self._reads:
            began = trio.current_time()
            body = await self._store.get_range(ask.key, ask.start, ask.length)
        self.times.add(trio.current_time() - began)
        self.store_reads += 1
        self.store_bytes += len(body)
        return Got(ask, memoryview(body), FROM_STORE)

    def found_good(self, first: Got, last: Got) -> None:
        """Report the lender of a range if its bytes were damaged and those of the store are good.

        Without good bytes from the store, the lender may have lent an object that is corrupt there.
        """
        if self._zone is not None and not first.is_from_store and last.is_from_store:
            self._zone.doubt(first.ask, first.lender)
