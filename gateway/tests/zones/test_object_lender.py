"""A gateway's reads for its zone, and their bounds."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.fetch_world import Store
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.fetch.lending.object_lender import GET_SECONDS, ObjectLender
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import StoreUnavailable

MIB = 1 << 20


class Busy(Store):
    """A store that notes the most bytes that were requested at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.most_bytes = self.now_bytes = 0
        self.seconds = 1.0

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.now_bytes += length
        self.most_bytes = max(self.most_bytes, self.now_bytes)
        try:
            return await super().get_range(key, start, length)
        finally:
            self.now_bytes -= length


async def test_lent_ranges_in_flight_are_bounded_in_bytes(autojump_clock: MockClock) -> None:
    store, cache = Busy(), RangeCache[object](512 * MIB)
    lender = ObjectLender(store, cache)
    for number in range(12):
        await store.put(f"large{number}", bytes(12 * MIB))
    async with trio.open_nursery() as nursery:
        for number in range(12):
            ask = ObjectAsk(f"large{number}", 0, 10, 12 * MIB)
            nursery.start_soon(lender.read, ask)
    assert store.most_bytes == 60 * MIB
    assert lender.counters.gets == 12


class _Body(bytes):
    """Bytes that count how many bytes of this class are in memory."""

    bytes_in_memory = 0

    def __init__(self, _: bytes) -> None:
        _Body.bytes_in_memory += len(self)

    def __del__(self) -> None:
        _Body.bytes_in_memory -= len(self)


class Weighed(Store):
    """A store that notes the most bytes of its answers that were in memory at one time."""

    most_bytes = 0

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        body = _Body(await super().get_range(key, start, length))
        self.most_bytes = max(self.most_bytes, _Body.bytes_in_memory)
        return body


async def test_a_read_that_waits_for_a_second_block_holds_no_first_one(
    autojump_clock: MockClock,
) -> None:
    store, cache = Weighed(), RangeCache[object](8 * MIB)
    lender = ObjectLender(store, cache)
    store.seconds = 1.0
    for number in range(40):
        await store.put(f"large{number}", bytes(2 * MIB))

    async def ask(number: int) -> None:
        with suppress(StoreUnavailable):
            found = await lender.read(ObjectAsk(f"large{number}", MIB - 9, MIB + 9, 2 * MIB))
            assert found is None or bytes(found) == bytes(18)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(ask, number)
    assert store.most_bytes < (8 + 16 + 2) * MIB


async def test_a_range_over_two_blocks_comes_whole(autojump_clock: MockClock) -> None:
    store, cache = Store(), RangeCache[object](8 * MIB)
    lender = ObjectLender(store, cache)
    body = bytes(range(256)) * (2 * MIB // 256)
    await store.put("large", body)
    found = await lender.read(ObjectAsk("large", MIB - 9, MIB + 9, 2 * MIB))
    assert found is not None
    assert bytes(found) == body[MIB - 9 : MIB + 9]


async def test_with_little_memory_nothing_is_read_for_all() -> None:
    lender = ObjectLender(Store(), RangeCache[object](4 * MIB))
    assert await lender.read(ObjectAsk("large", 0, 9, 2 * MIB)) is None


async def test_all_waiters_of_a_slow_get_fail_together(autojump_clock: MockClock) -> None:
    store, cache = Busy(), RangeCache[object](512 * MIB)
    store.seconds = 60.0
    lender = ObjectLender(store, cache)
    gave_up: list[float] = []

    async def ask() -> None:
        with pytest.raises(StoreUnavailable, match="takes long"):
            await lender.read(ObjectAsk("large", 0, 10, 12 * MIB))
        gave_up.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
            await trio.sleep(0.1)
    assert gave_up == [GET_SECONDS] * 10
    assert len(store.reads) == 1


async def test_a_block_that_was_lent_in_any_order_leaves_first() -> None:
    store, cache = Store(), RangeCache[object](5 * MIB)
    lender = ObjectLender(store, cache)
    size = MIB // 2
    for name in ("one", "two"):
        await store.put(name, bytes(size))
    third = size // 3
    for start, end in ((2 * third, size), (0, third), (0, third)):
        await lender.read(ObjectAsk("one", start, end, size))
    await lender.read(ObjectAsk("two", 0, size, size))
    assert given_up(cache) == ["two"]
    await lender.read(ObjectAsk("one", third, 2 * third, size))
    assert given_up(cache) == ["two", "one"]
    assert lender.counters.gets == 2


def given_up(cache: RangeCache[object]) -> list[str]:
    """Return the keys of values in the order of eviction."""
    return [str(key[0]) for key in cache._spent if isinstance(key, tuple)]
