"""The age of a run for retention.

A header whose records were not walked makes no run older than its commit.  Its time counts if it
is later than the commit.
"""

import pytest

from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.events.cluster import (
    RUN_SEGMENT,
    RUN_WALKED,
    MetadataVersionSet,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
)
from tidegate_coordination.events.metadata_versions import NEWEST, WALKED_TIMES
from tidegate_coordination.rules.housekeeping import plan_retention
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.runs import Marker, Runs, packed_marker

from .test_wal_rules import World, batch

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def commit(world: World, timestamp_ms: int, *, is_walked: bool) -> None:
    facts = batch(at=0)._replace(max_timestamp=timestamp_ms)
    name = WalName(1, world.counter)
    world.counter += 1
    world.apply(*CommitWal(name, 100, [facts], is_walked=is_walked).decide(world.view()).events)


def merge(world: World, first: int, end: int, timestamp_ms: int) -> None:
    new = (Segment(world.counter, 500, 74, 30, first, end, timestamp_ms, 9),)
    world.apply(SegmentsPublished(1, (SegmentsOfPartition(0, first, end, new, 1, 2),)))


def retained_from(world: World, retention_ms: int) -> int:
    settings = compile_topic_settings({"retention.ms": str(retention_ms)}, BrokerLayers())
    moves = dict(plan_retention(world.state, lambda _: settings))
    return moves.get(0, 0)


@pytest.mark.parametrize("claimed", [-1, 0, 1, 1000])
def test_a_time_that_only_a_header_says_makes_no_run_older_than_its_commit(claimed: int) -> None:
    world = World()
    commit(world, claimed, is_walked=False)
    assert retained_from(world, HOUR_MS // 100) == 0
    world.clock_ms += HOUR_MS
    commit(world, claimed, is_walked=False)
    assert retained_from(world, HOUR_MS // 100) == 1


def test_a_later_time_of_a_header_still_keeps_a_run() -> None:
    world = World()
    commit(world, NOW_MS + 2 * HOUR_MS, is_walked=False)
    world.clock_ms += HOUR_MS
    commit(world, -1, is_walked=False)
    assert retained_from(world, 1) == 0


def test_walked_records_expire_by_their_own_time_as_on_kafka() -> None:
    world = World()
    commit(world, 1000, is_walked=True)
    assert world.state.partitions[0].runs[0].flags == RUN_WALKED
    assert retained_from(world, 1000) == 1
    assert retained_from(world, NOW_MS) == 0


def test_walked_records_without_a_time_age_from_their_commit() -> None:
    world = World()
    commit(world, -1, is_walked=True)
    assert retained_from(world, 1000) == 0


@pytest.mark.parametrize("are_walked", [True, False])
def test_a_segment_is_believed_only_if_all_its_runs_were_walked(are_walked: bool) -> None:
    world = World()
    commit(world, 1000, is_walked=True)
    commit(world, 1000, is_walked=are_walked)
    merge(world, 0, 2, 1000)
    flags = world.state.partitions[0].runs[0].flags
    assert flags == RUN_SEGMENT | (RUN_WALKED if are_walked else 0)
    assert retained_from(world, 1000) == (2 if are_walked else 0)
    world.check_replay()


def test_a_segment_of_markers_alone_has_no_flag_that_older_gateways_do_not_fold() -> None:
    world = World(WALKED_TIMES - 1)
    partition = world.state.partitions[0]
    partition.runs = Runs(0)
    partition.runs.append_marker(0, packed_marker(Marker(7, 0, True, NOW_MS)))
    partition.next_offset = 1
    merge(world, 0, 1, NOW_MS)
    assert partition.runs[0].flags == RUN_SEGMENT


def test_no_run_has_the_flag_before_all_gateways_know_it() -> None:
    world = World(WALKED_TIMES - 1)
    commit(world, 1000, is_walked=True)
    assert world.state.partitions[0].runs[0].flags == 0
    assert retained_from(world, 1000) == 0
    world.apply(MetadataVersionSet(NEWEST))
    commit(world, 1000, is_walked=True)
    assert world.state.partitions[0].runs[1].flags == RUN_WALKED
