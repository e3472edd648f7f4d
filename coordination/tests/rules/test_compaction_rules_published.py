"""Publishing a round of compaction in stretches; it is whole only if all were accepted."""

from __future__ import annotations

from tests.rules.test_segment_rules import rows, unit, world_with
from tests.rules.test_wal_rules import TOPIC, World
from tidegate_coordination.events.cluster import (
    CleanedPartition,
    GatewayExpired,
    LogStartsMoved,
    TopicDeleted,
)
from tidegate_coordination.rules.records.segments import Publication, PublishCompaction, SegmentUnit
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.cleanings import Cleaning


def compact(world: World, end_offset: int, *stretches: SegmentUnit) -> Publication:
    end = CleanedPartition(0, end_offset, 1000) if end_offset else None
    decided = PublishCompaction(1, 0, stretches, end).decide(world.view())
    if decided.events:
        world.apply(*decided.events)
    world.check_replay()
    return decided.answer


def ends(world: World) -> list[int]:
    return [each.end_offset for each in world.state.partitions[0].cleanings]


def test_a_round_replaces_stretches_and_is_kept_with_its_time() -> None:
    world = world_with(6)
    parents = rows(world)
    assert compact(world, 18, unit(parents[:2]), unit(parents[3:5])) is Publication.PUBLISHED
    assert [each.base_offset for each in rows(world)] == [0, 6, 9, 15]
    expected = (Cleaning(18, world.state.log_time_ms),)
    assert world.state.partitions[0].cleanings == expected
    again = ClusterState.decode(world.state.encode())
    assert again.partitions[0].cleanings == expected


def test_a_round_may_change_nothing_but_only_once() -> None:
    world = world_with(3)
    assert compact(world, 6) is Publication.PUBLISHED
    assert compact(world, 6) is Publication.CHANGED
    assert compact(world, 5) is Publication.CHANGED
    assert compact(world, 10) is Publication.CHANGED  # beyond the end
    assert compact(world, 9) is Publication.PUBLISHED
    assert ends(world) == [6, 9]


def test_changed_stretches_are_left_out_and_the_round_does_not_count() -> None:
    world = world_with(6)
    parents = rows(world)
    compact(world, 3, unit(parents[:2], attempt=2))
    late = compact(world, 18, unit(parents[:2], attempt=3), unit(parents[3:5], attempt=3))
    assert late is Publication.CHANGED
    assert [each.base_offset for each in rows(world)] == [0, 6, 9, 15]
    assert ends(world) == [3]


def test_expired_segments_need_no_round() -> None:
    world = world_with(6)
    parents = rows(world)
    world.apply(LogStartsMoved(((0, 7),)))
    answer = compact(world, 18, unit(parents[:2]), unit(parents[3:5]))
    assert answer is Publication.PUBLISHED
    assert ends(world) == [18]


def test_a_stretch_that_lost_its_first_records_is_done_again() -> None:
    world = world_with(6)
    parents = rows(world)
    world.apply(LogStartsMoved(((0, 7),)))
    assert compact(world, 18, unit(parents)) is Publication.CUT
    assert ends(world) == []


def test_stretches_that_overlap_are_not_both_taken() -> None:
    world = world_with(4)
    parents = rows(world)
    answer = compact(world, 12, unit(parents[:3]), unit(parents[2:], attempt=2))
    assert answer is Publication.CHANGED
    assert ends(world) == []


def test_a_part_of_a_round_counts_for_none() -> None:
    world = world_with(4)
    parents = rows(world)
    assert compact(world, 0, unit(parents[:2])) is Publication.PUBLISHED
    assert (ends(world), len(rows(world))) == ([], 3)
    assert compact(world, 12, unit(parents[2:], attempt=2)) is Publication.PUBLISHED
    assert (ends(world), len(rows(world))) == ([12], 2)


def test_nothing_is_published_by_the_dead_or_for_the_deleted() -> None:
    world = world_with(2)
    parents = rows(world)
    world.apply(TopicDeleted(TOPIC))
    assert compact(world, 6, unit(parents)) is Publication.NO_PARTITION
    world.apply(GatewayExpired(1))
    assert compact(world, 6, unit(parents)) is Publication.CHANGED
