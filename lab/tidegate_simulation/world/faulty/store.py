"""An object store that fails as real stores do, and harms no stored object.

Each gateway has a FaultyStore; all of them wrap the same store.  A FaultyStore damages bytes on
their way to the reader, never the stored object, and damages each object once.  So a reader that
verifies its bytes and repeats the read gets the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from random import Random
from typing import Protocol, TypeAlias

import trio

from tidegate_storage.stores.object_store import (
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectInfo,
    ObjectStore,
    StoreUnavailable,
)

from ...plans.store_faults import StoreFaults

Read: TypeAlias = Callable[[], Awaitable[bytes]]

_HUNG_SECONDS = 30.0


class Ledger(Protocol):
    """Counts the faults; see strikes.py.  Kinds are named "store.<name of a rate>"."""

    def is_due(self, kind: str) -> bool:
        """Count a call that a fault can strike; return True if the fault must land now."""
        ...

    def count(self, kind: str, times: int = 1) -> None:
        """Note that a fault had its effect."""
        ...


class FaultyStore:
    """faults may be changed at any time.

    late: the nursery of puts that continue after their caller timed out.
    puts_refused_since: when the first put after the last success was refused; None if none was.
    put_refused_at: the time of the last refused put.
    """

    requests_cost_money = False

    def __init__(
        self,
        store: ObjectStore,
        faults: StoreFaults,
        rng: Random,
        late: trio.Nursery,
        ledger: Ledger,
    ) -> None:
        self.faults = faults
        self._ledger = ledger
        self._store = store
        self._rng = rng
        self._late = late
        self._throttled_until = 0.0
        self._damaged: set[str] = set()
        self.puts_refused_since: float | None = None
        self.put_refused_at = -inf

    async def put(self, key: str, body: Buffer) -> None:
        """See ObjectStore."""
        after_seconds = await self._begin("put")
        if self._strikes("lost_put"):
            raise self._fault("lost_put")
        if self._strikes("late_put"):
            self._late.start_soon(self._put_late, key, bytes(body))
            raise StoreUnavailable("injected: late_put")
        await self._store.put(key, body)
        if self._strikes("ambiguous_put"):
            raise self._fault("ambiguous_put")
        await trio.sleep(after_seconds)
        self.puts_refused_since = None

    async def _put_late(self, key: str, body: bytes) -> None:
        await trio.sleep(self._rng.random() * self.faults.late_seconds)
        # If a repeated put was faster, the name is taken and the late put has no effect.
        with suppress(ObjectExists):
            await self._store.put(key, body)
        self._count("late_put")

    async def get(self, key: str) -> bytes:
        """See ObjectStore."""
        return await self._read(key, lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        """See ObjectStore.  Like the S3 client, returns another kind of buffer than bytes."""

        async def read() -> bytes:
            return bytes(await self._store.get_range(key, start, length))

        return memoryview(await self._read(key, read))

    async def delete_many(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        after_seconds = await self._begin("delete")
        if self._strikes("delete_error"):
            await self._store.delete_many(keys[: self._rng.randint(0, len(keys))])
            raise self._fault("delete_error")
        await self._store.delete_many(keys)
        await trio.sleep(after_seconds)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        """See ObjectStore."""
        after_seconds = await self._begin("list")
        if self._strikes("read_error"):
            raise self._fault("read_error")
        infos = await self._store.list(prefix, start_after=start_after, limit=limit)
        await trio.sleep(after_seconds)
        return infos

    async def aclose(self) -> None:
        """Close nothing: other gateways use the same store."""
        await trio.lowlevel.checkpoint()

    # -- reads ------------------------------------------------------------------------------------

    async def _read(self, key: str, read: Read) -> bytes:
        after_seconds = await self._begin("get")
        if self._strikes("read_error"):
            raise self._fault("read_error")
        body = await read()
        await trio.sleep(after_seconds)
        return body if key in self._damaged else self._damage(key, body)

    def _damage(self, key: str, body: bytes) -> bytes:
        """Return the body, or a damaged copy of it.

        Raises:
          NoSuchObject: the fault missing_object, although the object exists.
        """
        kind = self._draw_damage()
        if not kind:
            return body
        self._damaged.add(key)
        self._count(kind)
        if kind == "missing_object":
            raise NoSuchObject(key)
        at = self._rng.randrange(len(body))
        if kind == "truncated_get":
            return body[:at]
        flipped = body[at] ^ 1 << self._rng.randrange(8)
        return body[:at] + bytes((flipped,)) + body[at + 1 :]

    def _draw_damage(self) -> str:
        for kind in ("missing_object", "truncated_get", "flipped_bit"):
            if self._strikes(kind):
                return kind
        return ""

    # -- all calls --------------------------------------------------------------------------------

    async def _begin(self, call: str) -> float:
        """Wait before a call; return the seconds to wait after it.

        Raises:
          StoreUnavailable: the call has no effect.
        """
        await trio.lowlevel.checkpoint()
        self._refuse(call)
        if self._strikes("hung"):
            await trio.sleep(_HUNG_SECONDS)
            raise self._fault("hung")
        strikes, before = self._strikes("slow"), self._rng.random() < 0.5
        seconds = self._rng.random() * self.faults.slow_seconds
        if not strikes:
            return 0.0
        self._count("slow")
        await trio.sleep(seconds if before else 0.0)
        return 0.0 if before else seconds

    def _refuse(self, call: str) -> None:
        if call in self.faults.refused:
            if call == "put":
                self.put_refused_at = trio.current_time()
                if self.puts_refused_since is None:
                    self.puts_refused_since = self.put_refused_at
            raise self._fault("refused")
        if self.faults.outage and self._strikes("outage"):
            raise self._fault("outage")
        now = trio.current_time()
        if self._strikes("throttled"):
            self._throttled_until = now + self._rng.random() * self.faults.slow_seconds
            raise self._fault("throttled")
        if self.faults.throttled and now < self._throttled_until:
            raise self._fault("throttled")

    def _strikes(self, kind: str) -> bool:
        rate: float = getattr(self.faults, kind)
        return self._rng.random() < rate or self._ledger.is_due(f"store.{kind}")

    def _count(self, kind: str) -> None:
        self._ledger.count(f"store.{kind}")

    def _fault(self, kind: str) -> StoreUnavailable:
        self._count(kind)
        return StoreUnavailable(f"injected: {kind}")
