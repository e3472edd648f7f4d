"""Segments span a short time, so that retention can delete records of a slow partition."""

from __future__ import annotations

from itertools import count

import pytest

from tests.rules.test_run_ages import commit, retained_from
from tests.rules.test_run_ages import merge as publish
from tests.rules.test_wal_rules import World
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.events.cluster import (
    ClusterCreated,
    Run,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
    WalCommitted,
)
from tidegate_coordination.events.inlined import BatchesInlined
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.planning.plan import Plan, UnderWay

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
NO_TIME = -1


def plan_of(world: World, configs: dict[str, str]) -> Plan:
    """Return a plan without units; configs: of the topic."""
    settings = compile_topic_settings(configs, BrokerLayers())
    return Plan(
        world.state,
        MergeSettings(),
        settings_of=lambda _: settings,
        is_paused=lambda _: False,
        next_number=count().__next__,
        under_way=UnderWay(),
    )


def merge(world: World) -> None:
    """Do the merges that are due."""
    plan = plan_of(world, {"retention.ms": str(RETENTION_MS)})
    plan.add_merges(0)
    for each in plan.units:
        first, end = each.parents[0].base_offset, each.parents[-1].next_offset
        length = sum(row.length for row in each.parents)
        newest_ms = max(row.max_timestamp for row in each.parents)
        segment = Segment(world.counter, length + 100, 74, length, first, end, newest_ms, 9)
        world.counter += 1
        parts = SegmentsOfPartition(0, first, end, (segment,), 1, end - first)
        world.apply(SegmentsPublished(1, (parts,)))


@pytest.mark.parametrize(
    ("claimed", "is_walked"), [(NO_TIME, True), (NO_TIME, False), (0, False), (1000, False)]
)
def test_a_slow_partition_expires_whatever_time_its_headers_say(
    claimed: int, *, is_walked: bool
) -> None:
    world = World()
    world.apply(ClusterCreated("c" * 22, timeline=1))
    for _ in range(72):
        commit(world, claimed, is_walked=is_walked)
        world.clock_ms += HOUR_MS
        merge(world)
    assert 40 <= retained_from(world, RETENTION_MS) <= 72
    world.check_replay()


def test_a_merge_ends_before_records_whose_bytes_are_in_the_log() -> None:
    world = World()
    world.apply(ClusterCreated("c" * 22, timeline=1))
    for _ in range(3):
        commit(world, 1000, is_walked=True)
    run = Run(0, 0, 3, 3, 1, 1000, 1, 0)
    world.apply(WalCommitted(1, 900, 3, (run,), ()), BatchesInlined(1, 900, b"abc"))
    world.clock_ms += HOUR_MS
    world.apply()
    plan = plan_of(world, {})
    assert plan.add_merges(0)
    assert [each.parents[-1].next_offset for each in plan.units] == [3]


@pytest.mark.parametrize(("is_walked", "hours"), [(True, 0), (False, 1)])
def test_compaction_bounds_segments_by_the_same_times(hours: int, *, is_walked: bool) -> None:
    world = World()
    world.apply(ClusterCreated("c" * 22, timeline=1))
    for at in range(2):
        commit(world, 1000, is_walked=is_walked)
        publish(world, at, at + 1, 1000)
        world.clock_ms += HOUR_MS
    plan = plan_of(world, {"cleanup.policy": "compact"})
    assert plan.add_compaction(0)
    first, second = plan.units[0].unit.sources
    assert second.newest_at_ms - first.newest_at_ms == hours * HOUR_MS
