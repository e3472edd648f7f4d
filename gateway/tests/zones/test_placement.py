"""The leaders of partitions for a zone: few move, the load is even, all zones have a replica."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidegate_gateway.zones.placement import NO_LEADER, most_of, place, recommend

TOPIC_IDS = st.binary(min_size=16, max_size=16)
NODES = st.lists(st.integers(0, 10_000), min_size=1, max_size=12, unique=True).map(sorted)


@given(TOPIC_IDS, st.integers(0, 300), NODES)
def test_no_gateway_leads_more_than_a_quarter_above_the_mean(
    topic_id: bytes, count: int, node_ids: list[int]
) -> None:
    chosen = recommend(topic_id, count, node_ids)
    assert len(chosen) == count
    held = Counter(chosen)
    assert set(held) <= set(node_ids)
    assert all(4 * (each - 1) < 5 * count / len(node_ids) for each in held.values())
    assert chosen == recommend(topic_id, count, node_ids)


def test_most_is_rounded_up() -> None:
    assert [most_of(*each) for each in [(1, 3), (4, 4), (8, 2), (100, 3)]] == [1, 2, 5, 42]


@given(TOPIC_IDS, st.integers(3, 9))
def test_few_partitions_move_when_a_gateway_goes(topic_id: bytes, gateways: int) -> None:
    before = recommend(topic_id, 400, range(gateways))
    after = recommend(topic_id, 400, range(gateways - 1))
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    # The partitions of the leaving gateway must move; few others move with them, because bounds
    # shift.
    assert moved <= 1.5 * most_of(400, gateways)


@given(TOPIC_IDS, st.integers(1, 100), NODES)
def test_no_partition_moves_when_a_topic_grows_within_its_bounds(
    topic_id: bytes, count: int, node_ids: list[int]
) -> None:
    grown = count
    while most_of(grown + 1, len(node_ids)) == most_of(count, len(node_ids)):
        grown += 1
    assert recommend(topic_id, grown, node_ids)[:count] == recommend(topic_id, count, node_ids)


def test_few_partitions_move_when_a_topic_grows() -> None:
    """Many partitions of one topic may move if a gateway's room grows from one to two."""
    rng = Random(1)
    for gateways in range(2, 13):
        moved = 0
        for _ in range(50):
            topic_id = rng.randbytes(16)
            before = recommend(topic_id, 100, range(gateways))
            after = recommend(topic_id, 110, range(gateways))
            moved += sum(old != new for old, new in zip(before, after, strict=False))
        assert moved <= 0.05 * 50 * 100


ZONE_OF = {1: "a", 2: "b", 3: "a", 4: "c", 5: "b"}
OF_ZONES = {"a": 3, "b": 5, "c": 4}


def test_replicas_are_the_leader_then_one_of_each_zone_then_the_rest() -> None:
    def replicas(factor: int) -> list[int]:
        return place(5, OF_ZONES, ZONE_OF, factor, to_produce=[2, 5]).replicas

    assert [replicas(factor) for factor in (1, 3, 4, 9)] == [
        [5],
        [5, 4, 3],
        [5, 4, 3, 1],
        [5, 4, 3, 1, 2],
    ]
    assert place(5, OF_ZONES, ZONE_OF, 1, to_produce=[2, 5]).to_produce == [5, 2]
    assert place(NO_LEADER, {}, {}, 3, to_produce=[]) == (NO_LEADER, [], [])
