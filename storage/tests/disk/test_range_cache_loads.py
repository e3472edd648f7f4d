"""Loads that several readers of a cache wait for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
import trio.testing

from tidegate_storage.range_cache import RangeCache

Load = Callable[[], Awaitable[tuple[str, int]]]


class Loader:
    """Loads on request; counts."""

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


async def test_a_failed_load_fails_all_its_waiters_and_is_not_kept() -> None:
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


async def test_when_the_leader_is_cancelled_one_follower_takes_over() -> None:
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


async def test_a_cancelled_follower_does_not_disturb_the_load() -> None:
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
async def test_a_scan_that_finds_what_others_load_may_leave_it_on_probation(promote: bool) -> None:
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


async def test_values_that_a_load_brings_along_are_waited_for(
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


async def test_a_failed_load_does_not_fail_the_values_that_it_would_have_brought() -> None:
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


class InHand:
    """The memory and the open file of a load."""


@pytest.mark.parametrize("loads", [1, 3])
async def test_a_failed_load_releases_its_memory_at_once(loads: int) -> None:
    """A gateway's garbage collector runs seldom, so reference cycles would hold the memory."""
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
