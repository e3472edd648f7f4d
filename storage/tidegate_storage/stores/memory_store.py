"""Objects in a dict: the twin for tests and simulation, and the store of `memory:`."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

import trio

from .object_store import (
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectInfo,
    StoreUnavailable,
    check_key,
    check_prefix,
)


class MemoryObjectStore:
    """Keeps objects as long as the process runs.  Copies each body, as a network would."""

    requests_cost_money = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._sorted_keys: list[str] = []

    async def put(self, key: str, body: Buffer) -> None:
        check_key(key)
        await trio.lowlevel.checkpoint()
        if key in self._objects:
            raise ObjectExists(key)
        self._objects[key] = (bytes(body), self._clock())
        insort(self._sorted_keys, key)

    async def get(self, key: str) -> bytes:
        check_key(key)
        await trio.lowlevel.checkpoint()
        return self._body(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        await trio.lowlevel.checkpoint()
        part = self._body(key)[start : start + length]
        if len(part) != length:
            raise StoreUnavailable(f"{key} ends before byte {start + length}")
        return part

    async def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        await trio.lowlevel.checkpoint()
        for key in keys:
            if self._objects.pop(key, None) is not None:
                del self._sorted_keys[bisect_left(self._sorted_keys, key)]

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        check_prefix(prefix)
        await trio.lowlevel.checkpoint()
        first = max(
            bisect_left(self._sorted_keys, prefix), bisect_right(self._sorted_keys, start_after)
        )
        keys = self._sorted_keys[first : first + limit]
        return [self._info(key) for key in keys if key.startswith(prefix)]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def _body(self, key: str) -> bytes:
        try:
            return self._objects[key][0]
        except KeyError:
            raise NoSuchObject(key) from None

    def _info(self, key: str) -> ObjectInfo:
        body, modified_at = self._objects[key]
        return ObjectInfo(key, len(body), modified_at)
