"""The stranger that is closed if there are too many."""

from __future__ import annotations

from random import Random

import pytest

from tidegate_runtime.doors.crowd import Crowd, origin_of


def arrive(crowd: Crowd, number: int, host: str, most: int) -> list[int]:
    """Add a stranger; return the strangers that are closed for it."""
    crowd.add(number, host)
    gone: list[int] = []
    while (found := crowd.next_to_go(most, max(most // 2, 1))) is not None:
        assert crowd.discard(found)
        gone.append(found)
    return gone


def test_all_may_stay_up_to_the_bound() -> None:
    crowd = Crowd()
    assert [arrive(crowd, each, f"10.0.0.{each}", 4) for each in range(4)] == [[]] * 4
    assert len(crowd) == 4


def test_the_first_to_come_is_the_first_to_go() -> None:
    crowd = Crowd()
    gone = [arrive(crowd, each, f"10.0.0.{each}", 4) for each in range(8)]
    assert gone == [[], [], [], [], [0], [1], [2], [3]]


def test_one_address_has_half_of_the_room() -> None:
    crowd = Crowd()
    gone = [arrive(crowd, each, "10.0.0.1", 4) for each in range(4)]
    assert gone == [[], [], [0], [1]]
    assert [arrive(crowd, each, f"10.0.1.{each}", 4) for each in (10, 11)] == [[], []]


def test_the_address_with_most_strangers_makes_room() -> None:
    """Even with many connections, an address cannot displace a client of another address."""
    crowd = Crowd()
    for each in range(4):
        arrive(crowd, each, "10.0.0.1", 8)
    for each in range(4, 8):
        arrive(crowd, each, "10.0.0.2", 8)
    assert arrive(crowd, 9_999, "10.9.9.9", 8) == [0]
    for each in range(8, 1000):
        assert 9_999 not in arrive(crowd, each, f"10.0.0.{each % 2}", 8)


def test_a_crowd_of_one_keeps_the_newest() -> None:
    crowd = Crowd()
    assert arrive(crowd, 1, "a", 1) == []
    assert arrive(crowd, 2, "b", 1) == [1]
    assert arrive(crowd, 3, "b", 1) == [2]


def test_a_stranger_that_left_is_not_there() -> None:
    crowd = Crowd()
    arrive(crowd, 1, "a", 4)
    assert crowd.discard(1)
    assert not crowd.discard(1)
    assert len(crowd) == 0


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("client", "client"),
    ],
)
def test_ipv6_addresses_count_by_their_network(host: str, origin: str) -> None:
    assert origin_of(host) == origin


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_hold_in_any_order(seed: int) -> None:
    rng, crowd, most = Random(seed), Crowd(), 6
    here: dict[int, str] = {}
    for number in range(500):
        if here and rng.random() < 0.3:
            left = rng.choice(list(here))
            assert crowd.discard(left)
            del here[left]
        host = rng.choice("abcdefgh")
        here[number] = host
        counts = {each: list(here.values()).count(each) for each in here.values()}
        gone = arrive(crowd, number, host, most)
        assert number not in gone
        for each in gone:
            is_own = here[each] == host and counts[host] > most // 2
            assert is_own or counts[here[each]] == max(counts.values())
            assert each == min(other for other in here if here[other] == here[each])
            counts[here[each]] -= 1
            del here[each]
        assert len(crowd) == len(here) <= most
        assert max(counts.values()) <= most // 2
