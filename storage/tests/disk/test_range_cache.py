from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tidegate_storage.range_cache import RangeCache

Load = Callable[[], Awaitable[tuple[str, int]]]


class Loader:
    """Ends loads when the test releases them; counts them."""

    def __init__(self, value: str = "loaded", size_bytes: int = 10) -> None:
        self.calls = 0
        self.gate = trio.Event()
        self.value = value
        self.size_bytes = size_bytes
        self.error: Exception | None = None

    async def __call__(self) -> tuple[str, int]:
        self.calls += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.value, self.size_bytes


def test_a_value_is_found_until_it_is_evicted() -> None:
    cache = RangeCache[str](100)
    assert cache.get_nowait("a") is None
    for hot in (False, True):
        cache.put("a", "value", 10, hot=hot)
        assert cache.get_nowait("a") == "value"
        assert cache.used_bytes == 10
        cache.evict("a")
        cache.evict("a")
        assert cache.get_nowait("a") is None
        assert cache.used_bytes == 0


def test_the_least_recently_used_goes_first() -> None:
    cache = RangeCache[str](100)
    for key in range(10):
        cache.put(key, "cold", 10, hot=False)
    cache.put(10, "cold", 20, hot=False)
    assert [cache.get_nowait(key) for key in (0, 1)] == [None, None]
    assert cache.get_nowait(2) == "cold"


def test_a_cold_scan_does_not_evict_the_hot_tail() -> None:
    cache = RangeCache[str](100)
    for key in range(5):
        cache.put(("tail", key), "hot", 10, hot=True)
    for key in range(1000):
        cache.put(("scan", key), "cold", 10, hot=False)
    assert all(cache.get_nowait(("tail", key)) == "hot" for key in range(5))


def test_a_value_used_twice_survives_a_scan() -> None:
    cache = RangeCache[str](100)
    cache.put("used", "value", 10, hot=False)
    assert cache.get_nowait("used") == "value"
    for key in range(1000):
        cache.put(key, "cold", 10, hot=False)
    assert cache.get_nowait("used") == "value"


def test_a_scan_with_repeated_uses_does_not_evict_the_hot_tail() -> None:
    cache = RangeCache[str](100)
    cache.put("hot", "hot", 50, hot=True)
    for number in range(20):
        cache.put(number, "cold", 10, hot=False)
        for _ in range(3):
            assert cache.get_nowait(number, promote=False) == "cold"
    assert cache.get_nowait("hot") == "hot"


def test_the_cache_follows_a_hot_set_that_moves() -> None:
    cache = RangeCache[str](100)
    for key in range(1000):
        cache.put(key, "hot", 10, hot=True)
    assert [cache.get_nowait(key) for key in range(992, 1000)] == ["hot"] * 8
    assert cache.get_nowait(900) is None


def test_a_value_larger_than_the_cache_is_not_kept_and_evicts_nothing() -> None:
    cache = RangeCache[str](100)
    cache.put("a", "value", 10, hot=False)
    cache.put("large", "value", 101, hot=True)
    assert cache.get_nowait("large") is None
    assert cache.get_nowait("a") == "value"


def test_a_value_between_the_protected_part_and_the_whole_is_kept() -> None:
    cache = RangeCache[str](100)
    cache.put("large", "value", 95, hot=True)
    assert cache.get_nowait("large") == "value"
    cache.put("next", "value", 50, hot=True)
    assert cache.get_nowait("next") == "value"
    assert cache.used_bytes <= 100


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put hot", "get", "evict"]), st.integers(0, 9), st.integers(0, 60)
    )
)


@given(OPERATIONS)
def test_the_bound_holds_and_no_value_is_ever_wrong(
    operations: list[tuple[str, int, int]],
) -> None:
    cache = RangeCache[tuple[int, int]](100)
    newest: dict[int, tuple[int, int]] = {}
    for number, (operation, key, size_bytes) in enumerate(operations):
        if operation == "get":
            assert cache.get_nowait(key) in (None, newest.get(key))
        elif operation == "evict":
            cache.evict(key)
            newest.pop(key, None)
        else:
            newest[key] = (key, number)
            is_hot = operation == "put hot"
            cache.put(key, newest[key], size_bytes, hot=is_hot)
            if is_hot:
                assert cache.get_nowait(key) == newest[key]
        assert cache.used_bytes <= 100
    for key in newest:
        cache.evict(key)
    assert cache.used_bytes == 0


async def test_concurrent_misses_share_one_load() -> None:
    cache = RangeCache[str](100)
    load = Loader()
    found: list[str] = []
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(_get, cache, load, found)
        await trio.testing.wait_all_tasks_blocked()
        load.gate.set()
    assert found == ["loaded"] * 5
    assert load.calls == 1
    assert cache.get_nowait("key") == "loaded"
    assert await cache.get("key", load) == "loaded"
    assert load.calls == 1


async def test_different_keys_load_at_the_same_time() -> None:
    cache = RangeCache[str](100)
    first, second = Loader("first"), Loader("second")
    found: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_get, cache, first, found, "a")
        nursery.start_soon(_get, cache, second, found, "b")
        await trio.testing.wait_all_tasks_blocked()
        second.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert found == ["second"]
        first.gate.set()


async def test_a_failed_load_raises_to_all_waiters_and_is_not_kept() -> None:
    cache = RangeCache[str](100)
    load = Loader()
    load.error = KeyError("gone")
    failures: list[str] = []

    async def get() -> None:
        with pytest.raises(KeyError, match="gone"):
            await cache.get("key", load)
        failures.append("gone")

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(get)
        await trio.testing.wait_all_tasks_blocked()
        load.gate.set()
    assert len(failures) == 3
    assert load.calls == 1
    load.error = None
    assert await cache.get("key", load) == "loaded"


async def test_if_the_leading_caller_is_cancelled_one_follower_takes_over() -> None:
    cache = RangeCache[str](100)
    load = Loader()
    found: list[str] = []
    leader = trio.CancelScope()
    async with trio.open_nursery() as nursery:

        async def lead() -> None:
            with leader:
                await _get(cache, load, found)

        nursery.start_soon(lead)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(_get, cache, load, found)
        await trio.testing.wait_all_tasks_blocked()
        leader.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert load.calls == 2
        load.gate.set()
    assert found == ["loaded"] * 3
    assert load.calls == 2


async def test_a_cancelled_follower_does_not_end_the_load() -> None:
    cache = RangeCache[str](100)
    load = Loader()
    found: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_get, cache, load, found)
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await cache.get("key", load)
        load.gate.set()
    assert (found, load.calls) == (["loaded"], 1)


@pytest.mark.parametrize("promote", [False, True])
async def test_a_value_of_anothers_load_stays_on_probation_without_promote(promote: bool) -> None:
    cache = RangeCache[str](100)
    cache.put("key", "scanned", 50, hot=False)
    assert await cache.get("key", Loader(), promote=promote) == "scanned"
    cache.put("next", "scanned", 60, hot=False)
    assert ("key" in cache) == promote


async def test_a_value_evicted_during_its_load_is_not_kept() -> None:
    cache = RangeCache[str](100)
    old, new = Loader("old"), Loader("new")
    found: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_get, cache, old, found)
        await trio.testing.wait_all_tasks_blocked()
        cache.evict("key")
        nursery.start_soon(_get, cache, new, found)
        await trio.testing.wait_all_tasks_blocked()
        old.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert cache.get_nowait("key") is None
        new.gate.set()
    assert found == ["old", "new"]
    assert cache.get_nowait("key") == "new"


async def test_a_put_during_a_load_is_kept() -> None:
    cache = RangeCache[str](100)
    load = Loader("loaded")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_get, cache, load, [])
        await trio.testing.wait_all_tasks_blocked()
        cache.put("key", "put", 10, hot=True)
        load.gate.set()
    assert cache.get_nowait("key") == "put"


async def _get(cache: RangeCache[str], load: Load, found: list[str], key: str = "key") -> None:
    found.append(await cache.get(key, load))


def test_on_leave_is_called_for_each_value_that_leaves() -> None:
    left: list[str] = []
    cache = RangeCache[str](30, on_leave=left.append)
    for name in ("a", "b", "c"):
        cache.put(name, name, 10, hot=name == "a")
    cache.put("b", "B", 10, hot=True)
    cache.evict("missing")
    assert left == ["b"]
    cache.put("d", "d", 20, hot=False)
    assert left == ["b", "c", "d"]  # the protected values leave no room
    cache.evict("a")
    assert left == ["b", "c", "d", "a"]


async def test_a_miss_waits_for_a_load_that_brings_the_key_along(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = RangeCache[str](100)
    loads: list[str] = []
    answers: list[str] = []

    async def load_several() -> tuple[str, int]:
        loads.append("a, b and c")
        await trio.sleep(1)
        cache.put("b", "b", 1, hot=False)
        return "a", 1

    async def load_alone() -> tuple[str, int]:
        loads.append("alone")
        return "c alone", 1

    async def ask(key: str) -> None:
        answers.append(await cache.get(key, load_alone))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: cache.get("a", load_several, along=["b", "c"]))
        await trio.testing.wait_all_tasks_blocked()
        assert [cache.is_coming(key) for key in "abcd"] == [True, True, True, False]
        for key in ("b", "c", "b"):
            nursery.start_soon(ask, key)
    assert sorted(answers) == ["b", "b", "c alone"]  # the load did not bring c
    assert loads == ["a, b and c", "alone"]
    assert not any(map(cache.is_coming, "abc"))


async def test_a_failed_load_does_not_fail_the_keys_it_would_bring_along() -> None:
    cache = RangeCache[str](100)

    async def fail() -> tuple[str, int]:
        await trio.lowlevel.checkpoint()
        raise ValueError("a is damaged")

    async def load() -> tuple[str, int]:
        return "b", 1

    async def ask() -> None:
        with pytest.raises(ValueError, match="a is damaged"):
            await cache.get("a", fail, along=["b"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.lowlevel.checkpoint()
        assert await cache.get("b", load) == "b"
    assert not cache.is_coming("b")


def test_a_demoted_value_leaves_first() -> None:
    cache: RangeCache[str] = RangeCache(3)
    for key in ("a", "b", "c"):
        cache.put(key, key, 1, hot=False)
    cache.demote("b")
    cache.demote("nothing")
    cache.put("d", "d", 1, hot=False)
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]


@pytest.mark.parametrize("promote", [True, False])
def test_demoted_values_leave_in_order_unless_used_again(promote: bool) -> None:
    cache: RangeCache[str] = RangeCache(4)
    for key in ("a", "b", "c", "d"):
        cache.put(key, key, 1, hot=False)
    for key in ("c", "b", "d"):
        cache.demote(key)
        cache.demote(key)
    assert cache.used_bytes == 4
    assert "d" in cache
    assert cache.get_nowait("c", promote=promote) == "c"
    cache.put("e", "e", 1, hot=False)
    assert [key for key in "abcde" if key in cache] == ["a", "c", "d", "e"]
    cache.put("f", "f", 1, hot=False)
    assert [key for key in "acdef" if key in cache] == ["a", "c", "e", "f"]
    cache.evict("a")
    cache.demote("e")
    cache.evict("e")
    assert cache.get_nowait("e") is None
    assert cache.used_bytes == 2


def test_a_protected_value_is_not_demoted() -> None:
    cache: RangeCache[str] = RangeCache(2)
    cache.put("hot", "hot", 1, hot=True)
    cache.demote("hot")
    for key in ("a", "b", "c"):
        cache.put(key, key, 1, hot=False)
    assert cache.get_nowait("hot") == "hot"


class InHand:
    """The objects that a load holds when it fails: bytes, an open file."""


@pytest.mark.parametrize("loads", [1, 3])
async def test_a_failed_load_releases_its_objects_at_once(loads: int) -> None:
    """A gateway's garbage collector runs seldom, so a reference cycle would keep them for long."""
    cache = RangeCache[str](100)
    left: list[weakref.ref[InHand]] = []
    gate = trio.Event()

    async def load() -> tuple[str, int]:
        in_hand = InHand()
        left.append(weakref.ref(in_hand))
        await gate.wait()
        raise ValueError(f"{in_hand} is damaged")

    async def ask() -> None:
        with suppress(ValueError):
            await cache.get("a", load)

    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(loads):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        assert [each() for each in left] == [None]
    finally:
        gc.enable()
