"""Reads objects for all gateways of its zone.

A small object is read whole, a larger one in blocks.  So one GET serves all gateways of the zone
that want any part of the block at about the same time.  Blocks are in the reader's cache, on
probation, so they never evict the hot tail.  Each partition of an object is mostly read at one
gateway, which keeps the runs that it has prepared from the block.  So a block that was lent nearly
whole is evicted first.  An object of this gateway's own is lent from memory, without a GET.  The
lender asks no other gateway, so requests cannot go round in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import trio

from tidegate_coordination.state.records.objects import WalName
from tidegate_runtime.histograms import Histogram
from tidegate_storage.objects.keys import parse_wal_key
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import Buffer, ObjectStore, StoreUnavailable

from ...network.byte_budget import ByteBudget
from ..cached_object import CachedObject
from .object_asks import ObjectAsk

MAX_WHOLE_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 8 << 20
# A block takes at most this fraction of the cache.  Below the least size there would be too many
# GETs.
_SHARE: Final = 8
_LEAST_BLOCK_BYTES: Final = 1 << 20
# Limits of concurrent GETs, in blocks and bytes.  A gateway whose request times out asks the store
# itself.  After GET_SECONDS all requests for a block fail; each gateway then reads its range
# itself.
GET_SECONDS: Final = 4.0
_CONCURRENT_GETS: Final = 16
_GET_BYTES: Final = 64 << 20
# Less than the whole block, since no reader wants the object's footer.
_LENT_SHARE: Final = 0.95
_PAGES: Final = 1024


class _Block(NamedTuple):
    """The key of a block in the reader's cache."""

    key: str
    start: int
    end: int


@dataclass(slots=True)
class _Body:
    """A block as stored, perhaps damaged in transit.  lent: a bit for each page that was lent."""

    view: memoryview
    lent: int = 0

    def lend(self, start: int, end: int) -> memoryview:
        """Return a part of the block, and note that it was lent."""
        page = self._page_bytes
        first, stop = start // page, -(-end // page)
        self.lent |= (1 << stop) - (1 << first)
        return self.view[start:end]

    @property
    def is_lent(self) -> bool:
        """Return whether nearly the whole block was lent at least once."""
        return self.lent.bit_count() * self._page_bytes >= _LENT_SHARE * len(self.view)

    @property
    def _page_bytes(self) -> int:
        return len(self.view) // _PAGES + 1


@dataclass(slots=True)
class LenderCounters:
    """The number, bytes and times of the GETs for the zone, for metrics."""

    gets: int = 0
    get_bytes: int = 0
    times: Histogram = field(default_factory=Histogram)


class ObjectLender:
    """See the module's head.  cache: the LogReader's."""

    def __init__(self, store: ObjectStore, cache: RangeCache[object]) -> None:
        self.counters = LenderCounters()
        self._store = store
        self._cache = cache
        self._gets = trio.Semaphore(_CONCURRENT_GETS)
        self._loading = ByteBudget(_GET_BYTES)

    async def read(self, ask: ObjectAsk) -> memoryview | None:
        """Return a range as stored, perhaps damaged; None if this gateway cannot read it now.

        The caller must use it before the next checkpoint, since later the memory may change.

        Raises:
          NoSuchObject, StoreMisconfigured: as ObjectStore.get_range.
          StoreUnavailable: as ObjectStore.get_range, or the GET of a block takes too long.  In that
            case a GET of the range may still succeed.
        """
        await trio.lowlevel.checkpoint()
        # after the checkpoint, since meanwhile a reader may have stamped the body
        own = self._own(ask)
        if own is not None:
            return own
        blocks = spans(ask, self._cache.max_bytes // _SHARE)
        if len(blocks) == 1:
            return self._part(ask, blocks[0], await self._body(blocks[0]))
        return await self._joined(ask, blocks) if blocks else None

    def at_hand(self, ask: ObjectAsk) -> memoryview | None:
        """Return a range as read() does if its block is in memory; otherwise None."""
        blocks = spans(ask, self._cache.max_bytes // _SHARE)
        if len(blocks) != 1:
            return None
        found = self._cache.get_nowait(blocks[0], promote=False)
        return self._part(ask, blocks[0], found) if isinstance(found, _Body) else None

    def forget(self, ask: ObjectAsk) -> None:
        """Evict the damaged block of a range, so that the next read gets it from the store."""
        named = self._own_name(ask)
        if named is not None:
            self._cache.evict(named)
        for block in spans(ask, self._cache.max_bytes // _SHARE):
            self._cache.evict(block)

    def _own(self, ask: ObjectAsk) -> memoryview | None:
        """Return the range of an object that this gateway wrote, while it is in memory."""
        named = self._own_name(ask)
        cached = self._cache.get_nowait(named, promote=False) if named is not None else None
        if not isinstance(cached, CachedObject) or cached.is_stamped:
            return None
        is_it = len(cached.body) == ask.size_bytes
        return memoryview(cached.body)[ask.start : ask.end] if is_it else None

    def _own_name(self, ask: ObjectAsk) -> WalName | None:
        """Return the key of an object that this gateway wrote, if it is in memory."""
        try:
            named = parse_wal_key(ask.key)
        except ValueError:
            return None
        name = WalName(named.incarnation, named.counter)
        cached = self._cache.get_nowait(name, promote=False)
        is_it = isinstance(cached, CachedObject) and cached.object_key == ask.key
        return name if is_it else None

    async def _joined(self, ask: ObjectAsk, blocks: Sequence[_Block]) -> memoryview | None:
        """Return a range over several blocks; None if one is evicted before all are in memory.

        During the wait for a block only the cache holds the earlier ones, so it may evict them.
        """
        for block in blocks:
            await self._body(block)
        bodies = [self._cache.get_nowait(block, promote=False) for block in blocks]
        parts: list[memoryview] = []
        for block, body in zip(blocks, bodies, strict=True):
            part = self._part(ask, block, body) if isinstance(body, _Body) else None
            if part is None:
                return None
            parts.append(part)
        return memoryview(b"".join(parts))

    async def _body(self, block: _Block) -> _Body:
        found = await self._cache.get(block, lambda: self._load(block), promote=False)
        assert isinstance(found, _Body)
        return found

    def _part(self, ask: ObjectAsk, block: _Block, found: _Body) -> memoryview | None:
        """Return the block's part of the range; None if the block arrived truncated."""
        if len(found.view) != block.end - block.start:
            self._cache.evict(block)
            return None
        end = min(ask.end, block.end) - block.start
        part = found.lend(max(ask.start - block.start, 0), end)
        if found.is_lent:
            self._cache.demote(block)
        return part

    async def _load(self, block: _Block) -> tuple[_Body, int]:
        try:
            with trio.fail_after(GET_SECONDS):
                body = await self._get(block)
        except trio.TooSlowError:
            raise StoreUnavailable(f"to read {block.key} for all takes long") from None
        self.counters.gets += 1
        self.counters.get_bytes += len(body)
        return _Body(memoryview(body)), len(body)

    async def _get(self, block: _Block) -> Buffer:
        length = block.end - block.start
        await self._loading.take(length)
        try:
            async with self._gets:
                began = trio.current_time()
                body = await self._store.get_range(block.key, block.start, length)
                self.counters.times.add(trio.current_time() - began)
                return body
        finally:
            self._loading.give(length)


def spans(ask: ObjectAsk, most_bytes: int) -> list[_Block]:
    """Return the blocks that hold a range; none if even the smallest block is too large."""
    if ask.size_bytes <= min(MAX_WHOLE_BYTES, most_bytes):
        return [_Block(ask.key, 0, ask.size_bytes)]
    size = min(BLOCK_BYTES, most_bytes)
    if size < _LEAST_BLOCK_BYTES:
        return []
    first = ask.start // size * size
    starts = range(first, ask.end, size)
    return [_Block(ask.key, start, min(start + size, ask.size_bytes)) for start in starts]
