"""An object store that fails as real ones do, and breaks nothing that the contract promises.

One FaultyStore wraps the store for one gateway; all share what lies beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import trio

from tidegate_storage.object_store import (
    Buffer,
    ObjectExists,
    ObjectInfo,
    ObjectStore,
    StoreUnavailable,
)


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """Rates from 0 to 1, each a share of the calls that it can strike.

    lost_put        not done, and answered with StoreUnavailable
    ambiguous_put   done, and answered with StoreUnavailable
    late_put        answered with StoreUnavailable, and done up to late_seconds later
    read_error      get, get_range and list answer with StoreUnavailable
    delete_error    delete_many answers with StoreUnavailable, done in part
    slow            a call takes up to slow_seconds more, before or after its effect
    """

    lost_put: float = 0.0
    ambiguous_put: float = 0.0
    late_put: float = 0.0
    read_error: float = 0.0
    delete_error: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 5.0
    late_seconds: float = 20.0


class FaultyStore:
    """faults may be changed at any time.

    late: where puts go that are still under way when their caller has given up.
    count: called with the name of each fault that had its effect.
    """

    requests_cost_money = False

    def __init__(
        self,
        store: ObjectStore,
        faults: StoreFaults,
        rng: Random,
        late: trio.Nursery,
        count: Callable[[str], None],
    ) -> None:
        self.faults = faults
        self._count = count
        self._store = store
        self._rng = rng
        self._late = late

    async def put(self, key: str, body: Buffer) -> None:
        """See ObjectStore."""
        after_seconds = await self._begin()
        if self._strikes("lost_put"):
            raise self._fault("lost_put")
        if self._strikes("late_put"):
            self._late.start_soon(self._put_late, key, bytes(body))
            raise self._fault("late_put")
        await self._store.put(key, body)
        if self._strikes("ambiguous_put"):
            raise self._fault("ambiguous_put")
        await trio.sleep(after_seconds)

    async def _put_late(self, key: str, body: bytes) -> None:
        await trio.sleep(self._rng.random() * self.faults.late_seconds)
        # The name is taken when a repeated put was faster; then nothing comes of this one.
        with suppress(ObjectExists):
            await self._store.put(key, body)

    async def get(self, key: str) -> bytes:
        """See ObjectStore."""
        after_seconds = await self._begin_read()
        body = await self._store.get(key)
        await trio.sleep(after_seconds)
        return body

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ObjectStore."""
        after_seconds = await self._begin_read()
        body = await self._store.get_range(key, start, length)
        await trio.sleep(after_seconds)
        return body

    async def delete_many(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        after_seconds = await self._begin()
        if self._strikes("delete_error"):
            await self._store.delete_many(keys[: self._rng.randint(0, len(keys))])
            raise self._fault("delete_error")
        await self._store.delete_many(keys)
        await trio.sleep(after_seconds)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        """See ObjectStore."""
        after_seconds = await self._begin_read()
        infos = await self._store.list(prefix, start_after=start_after, limit=limit)
        await trio.sleep(after_seconds)
        return infos

    async def aclose(self) -> None:
        """Nothing to let go of: other gateways hold the same store."""
        await trio.lowlevel.checkpoint()

    async def _begin_read(self) -> float:
        after_seconds = await self._begin()
        if self._strikes("read_error"):
            raise self._fault("read_error")
        return after_seconds

    async def _begin(self) -> float:
        """Let time pass before a call; return the seconds for after."""
        strikes, before = self._strikes("slow"), self._rng.random() < 0.5
        seconds = self._rng.random() * self.faults.slow_seconds
        await trio.lowlevel.checkpoint()
        if not strikes:
            return 0.0
        self._count("slow")
        await trio.sleep(seconds if before else 0.0)
        return 0.0 if before else seconds

    def _strikes(self, kind: str) -> bool:
        rate: float = getattr(self.faults, kind)
        return self._rng.random() < rate

    def _fault(self, kind: str) -> StoreUnavailable:
        self._count(kind)
        return StoreUnavailable(f"injected: {kind}")
