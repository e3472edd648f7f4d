"""The judges of a Kafka Streams application that moves; the run is `run moving-streams`."""

from __future__ import annotations

import pytest
from exactly_once.restores import AppLife
from migration.moving.streams_judges import failures, rebalances, wrong_at_source


def life_of(*lines: tuple[int, str]) -> AppLife:
    life = AppLife(0)
    for now_ms, line in lines:
        life.take(now_ms, line)
    return life


def test_a_rebalance_counts_in_the_stretch_alone() -> None:
    life = life_of((10, "STATE REBALANCING"), (20, "STATE RUNNING"), (30, "STATE REBALANCING"))
    assert rebalances([life], 0, 40) == 2
    assert rebalances([life], 15, 30) == 1
    assert rebalances([life], 11, 29) == 0


def test_a_thread_that_ended_is_a_failure_and_a_kill_is_not() -> None:
    life = life_of((10, "ERROR ProducerFencedException old epoch"))
    life.code = 1
    assert failures([life]) == ["an instance ended by itself: ['ProducerFencedException']"]
    life.was_ended = True
    assert failures([life]) == []


def test_records_that_came_to_the_source_later_are_seen() -> None:
    ends = {"counts": {0: 5, 1: 7}, "changelog": {0: 3}}
    assert wrong_at_source(ends, ends, 12, 20) == []
    grown = ends | {"changelog": {0: 4}}
    told = "the source got records of changelog after the switch"
    assert wrong_at_source(ends, grown, 12, 20) == [told]


@pytest.mark.parametrize("there", [0, 20])
def test_a_switch_before_or_after_all_counts_shows_nothing(there: int) -> None:
    assert wrong_at_source({}, {}, there, 20) == [f"{there} of 20 counts are at the source"]
