from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_storage.range_cache import RangeCache


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


def test_on_leave_is_called_for_every_value_that_leaves() -> None:
    left: list[str] = []
    cache = RangeCache[str](30, on_leave=left.append)
    for name in ("a", "b", "c"):
        cache.put(name, name, 10, hot=name == "a")
    cache.put("b", "B", 10, hot=True)
    cache.evict("missing")
    assert left == ["b"]
    cache.put("d", "d", 20, hot=False)
    assert left == ["b", "c", "d"]  # the protected values take all room
    cache.evict("a")
    assert left == ["b", "c", "d", "a"]


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
