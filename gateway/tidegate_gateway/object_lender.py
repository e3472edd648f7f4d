"""Objects that this gateway reads for all gateways of its zone.

An object is read whole if it is small, else in blocks, so that whoever of the zone wants which part
of it, at about the same time, one GET serves all.  Blocks lie in the reader's cache, on probation:
they never push out the hot tail.  What this gateway wrote itself is lent from memory, without any
GET.  Nothing here asks another gateway, so questions cannot go in circles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from tidegate_coordination.state.objects import WalName
from tidegate_storage.keys import parse_wal_key
from tidegate_storage.object_store import ObjectStore
from tidegate_storage.range_cache import RangeCache

from .cached_object import CachedObject
from .object_asks import ObjectAsk

MAX_WHOLE_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 8 << 20
# Of memory, one block; with less than the least there would be many GETs where one was enough.
_SHARE: Final = 8
_LEAST_BLOCK_BYTES: Final = 1 << 20
# So many blocks come at a time; who waits longer than its patience asks the store itself.
_CONCURRENT_GETS: Final = 4


class _Block(NamedTuple):
    """The key of a block in the reader's cache."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Body:
    """A block as it is stored, perhaps damaged on its way."""

    view: memoryview


@dataclass(slots=True)
class LenderCounters:
    """What was read for the zone, and what came of it, for metrics.  In blocks and bytes."""

    gets: int = 0
    get_bytes: int = 0


class ObjectLender:
    """See the module's head.  cache: that of the LogReader."""

    def __init__(self, store: ObjectStore, cache: RangeCache[object]) -> None:
        self.counters = LenderCounters()
        self._store = store
        self._cache = cache
        self._gets = trio.Semaphore(_CONCURRENT_GETS)

    async def read(self, ask: ObjectAsk) -> memoryview | None:
        """Return a range as it is stored, perhaps damaged; None if it cannot be had here now.

        It must be used before the next checkpoint: the memory goes on being written.

        Raises:
          NoSuchObject, StoreUnavailable, StoreMisconfigured: as ObjectStore.get_range.
        """
        own = self._own(ask)
        if own is not None:
            await trio.lowlevel.checkpoint()
            return own
        blocks = spans(ask, self._cache.max_bytes // _SHARE)
        parts = [await self._part(ask, block) for block in blocks]
        found = [each for each in parts if each is not None]
        if not found or len(found) < len(parts):
            return None
        return found[0] if len(found) == 1 else memoryview(b"".join(found))

    def forget(self, ask: ObjectAsk) -> None:
        """Read a range anew next time: what is in memory of it is damaged."""
        for block in spans(ask, self._cache.max_bytes // _SHARE):
            self._cache.evict(block)

    def _own(self, ask: ObjectAsk) -> memoryview | None:
        """Return the range of an object that this gateway wrote, while it is in memory."""
        try:
            named = parse_wal_key(ask.key)
        except ValueError:
            return None
        cached = self._cache.get_nowait(WalName(named.incarnation, named.counter), promote=False)
        if not isinstance(cached, CachedObject) or cached.is_stamped:
            return None
        is_it = cached.object_key == ask.key and len(cached.body) == ask.size_bytes
        return memoryview(cached.body)[ask.start : ask.end] if is_it else None

    async def _part(self, ask: ObjectAsk, block: _Block) -> memoryview | None:
        """Return what a block holds of the range; None if it was cut short on its way."""
        found = await self._cache.get(block, lambda: self._load(block), promote=False)
        assert isinstance(found, _Body)
        if len(found.view) != block.end - block.start:
            self._cache.evict(block)
            return None
        return found.view[max(ask.start - block.start, 0) : ask.end - block.start]

    async def _load(self, block: _Block) -> tuple[_Body, int]:
        async with self._gets:
            length = block.end - block.start
            body = await self._store.get_range(block.key, block.start, length)
        self.counters.gets += 1
        self.counters.get_bytes += len(body)
        return _Body(memoryview(body)), len(body)


def spans(ask: ObjectAsk, most_bytes: int) -> list[_Block]:
    """Return the blocks that hold a range; none if not one fits into so many bytes."""
    if ask.size_bytes <= min(MAX_WHOLE_BYTES, most_bytes):
        return [_Block(ask.key, 0, ask.size_bytes)]
    size = min(BLOCK_BYTES, most_bytes)
    if size < _LEAST_BLOCK_BYTES:
        return []
    first = ask.start // size * size
    starts = range(first, ask.end, size)
    return [_Block(ask.key, start, min(start + size, ask.size_bytes)) for start in starts]
