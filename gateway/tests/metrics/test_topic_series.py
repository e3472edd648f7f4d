"""Which topics have series.  If a topic gains or loses its series, no count is lost or falls."""

from __future__ import annotations

from collections import Counter
from random import Random

from tidegate_gateway.counting.topic_counters import BYTES_IN, PRODUCED, TopicCounters
from tidegate_gateway.counting.topic_series import CHOICE_SECONDS, OTHER, TopicSeries

INTERNAL = "__consumer_offsets"


class World:
    """Some topics, and the page's view of them."""

    def __init__(self, *topics: str, most: int = 2) -> None:
        self.topics = set(topics)
        self.counters = TopicCounters(self.topics)
        self.series = TopicSeries(self.counters, INTERNAL.__eq__, most)
        self.now = 0.0

    def produce(self, **sizes: int) -> None:
        for topic, size_bytes in sizes.items():
            self.counters.produced(topic, size_bytes, 1)

    def look(self, seconds: float = 15.0) -> dict[str, int]:
        """Return the bytes of each series."""
        self.now += seconds
        shown, others = self.series.look(self.now)
        return {**{name: row[BYTES_IN] for name, row in shown}, OTHER: others[BYTES_IN]}


def test_all_topics_have_series_while_there_is_room() -> None:
    world = World("a", "b", "c", most=3)
    world.produce(a=1, b=2)
    assert world.look() == {"b": 2, "a": 1, OTHER: 0}
    world.produce(c=5, a=1)
    assert world.look() == {"a": 2, "b": 2, "c": 5, OTHER: 0}


def test_the_most_active_topics_come_first_and_the_others_are_one() -> None:
    world = World("a", "b", "c", "d")
    world.produce(a=1, b=20, c=300, d=4)
    assert world.look() == {"c": 300, "b": 20, OTHER: 5}
    assert (list(world.series.own), world.series.others) == (["c", "b"], 2)


def test_internal_topics_come_last() -> None:
    world = World("a", "b", INTERNAL)
    world.produce(**{INTERNAL: 1_000}, a=1, b=1)
    assert world.look() == {"a": 1, "b": 1, OTHER: 1_000}


def test_a_new_topic_takes_the_series_of_an_idle_one() -> None:
    world = World("a", "b", "new")
    world.produce(a=1_000_000, b=1_000_000)
    assert world.look() == {"a": 1_000_000, "b": 1_000_000, OTHER: 0}
    world.produce(new=7, a=1)
    assert world.look() == {"a": 1_000_001, "b": 1_000_000, OTHER: 7}
    # Counts of OTHER stay in OTHER.
    assert world.look(CHOICE_SECONDS) == {"new": 0, "a": 1_000_001, OTHER: 7}
    world.produce(new=5, b=1)
    assert world.look() == {"new": 5, "a": 1_000_001, OTHER: 8}


def test_a_series_is_kept_unless_another_topic_is_twice_as_active() -> None:
    world = World("a", "b", "c")
    world.produce(a=10, b=10)
    world.look()
    world.produce(a=10, b=10, c=19)
    assert set(world.look(CHOICE_SECONDS)) == {"a", "b", OTHER}
    world.produce(a=10, b=10, c=21)
    assert set(world.look(CHOICE_SECONDS)) == {"c", "a", OTHER}


def test_a_deleted_topic_stays_counted_where_it_was() -> None:
    world = World("a", "b", "c")
    world.produce(a=100, b=100, c=3)
    assert world.look()[OTHER] == 3
    world.topics -= {"c", "a"}
    assert world.look() == {"b": 100, OTHER: 3}
    assert world.counters.whole()[BYTES_IN] == 203
    assert world.counters.whole()[PRODUCED] == 3


def test_a_topic_called_like_the_others_is_counted_with_them() -> None:
    world = World("a", OTHER)
    world.produce(**{OTHER: 5}, a=1)
    assert world.look() == {"a": 1, OTHER: 5}


def test_series_never_fall_and_rates_add_up() -> None:
    """A scraper adds up the growth of series.  A new series begins at its first value.

    So a topic that gets a series begins at 0, and one that loses its series continues in OTHER.
    """
    rng = Random(5)
    for _ in range(30):
        names = [f"t{number}" for number in range(12)]
        most = rng.randrange(1, 8)
        world = World(*names, most=most)
        world.produce(**dict.fromkeys(names, 1))
        before, grown, produced = world.look(), 0, 0
        for _ in range(40):
            sizes = Counter(rng.choices(names, k=rng.randrange(30)))
            world.produce(**sizes)
            produced += sizes.total()
            now = world.look(rng.choice([15.0, CHOICE_SECONDS]))
            for name, value in now.items():
                assert value >= before.get(name, 0)
                grown += value - before.get(name, value)
            before = now
            assert len(now) <= most + 1
        assert grown == produced
