from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_storage.objects.keys import cost_key, parse_cost_key, parse_wal_key, wal_key
from tidegate_storage.stores.object_store import check_key

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
NUMBERS = st.integers(0, 2**31 - 1)
# Those of imports are below zero.
NODES = st.integers(-(2**30), 2**31 - 1)


def test_a_wal_key_has_the_documented_layout() -> None:
    key = wal_key("cluster", 1, "us-east-1a", 3, 42, 7)
    assert key == "cluster/1/wal/us-east-1a/3-42/000000000007"


@given(NAMES, NUMBERS, NAMES, NODES, NUMBERS, NUMBERS)
def test_wal_keys_are_read_back(
    cluster: str, timeline: int, zone: str, node: int, incarnation: int, counter: int
) -> None:
    key = wal_key(cluster, timeline, zone, node, incarnation, counter)
    check_key(key)
    assert parse_wal_key(key) == (cluster, timeline, zone, node, incarnation, counter)


@given(NAMES, NUMBERS, st.integers(1970010100, 2999123123), NUMBERS, NUMBERS, NUMBERS)
def test_keys_of_cost_sums_are_read_back(
    cluster: str, timeline: int, hour: int, node: int, incarnation: int, counter: int
) -> None:
    key = cost_key(cluster, timeline, hour, node, incarnation, counter)
    check_key(key)
    assert parse_cost_key(key) == (cluster, timeline, hour, node, incarnation, counter)


def test_keys_of_cost_sums_are_in_the_order_of_their_hours() -> None:
    keys = [cost_key("c", 1, hour, 9, 9, 9) for hour in (1970010100, 2026112620, 2026112621)]
    assert keys == sorted(keys)
    with pytest.raises(ValueError, match="does not name cost sums"):
        parse_cost_key("c/1/costs/2026112620-1-1-1")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "c/1/wal/z/3-42",
        "c/1/wal/z/3/000000000007",
        "c/1/wal/z/3-42/7",
        "c/1/segments/z/3-42/000000000007",
        "c/+1/wal/z/3-42/000000000007",
        "c/1/wal/z/3-42/00000000000x",
    ],
)
def test_foreign_keys_are_refused(key: str) -> None:
    with pytest.raises(ValueError, match="does not name a WAL object"):
        parse_wal_key(key)
