"""Publishing segments: only over parents that are live and unchanged; rule and fold agree."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.rules.test_wal_rules import TOPIC, World, batch
from tidegate_coordination.events.cluster import (
    RUN_SEGMENT,
    GatewayExpired,
    GatewayRegistered,
    LogStartsMoved,
    ObjectsCollected,
    RunsSkipped,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
    SkippedStretch,
    TopicDeleted,
)
from tidegate_coordination.events.metadata_versions import FIRST, NEWEST
from tidegate_coordination.rules.housekeeping import ForgetObjects, collectable
from tidegate_coordination.rules.records.segments import Publication, PublishSegments, SegmentUnit
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.frozen import piece, split
from tidegate_coordination.state.records.objects import SegmentName, WalName
from tidegate_coordination.state.records.runs import RunRow


def world_with(objects: int, version: int = NEWEST) -> World:
    world = World(version)
    for _ in range(objects):
        world.commit(batch(count=3), batch(partition=1, count=2, at=50))
    return world


def rows(world: World, partition: int = 0) -> list[RunRow]:
    runs = world.state.partitions[partition].runs
    return [runs[at] for at in range(len(runs))]


def unit(
    parents: list[RunRow], partition: int = 0, attempt: int = 1, ends: tuple[int, ...] = ()
) -> SegmentUnit:
    """A unit of one segment, or of one segment up to each offset in `ends`."""
    segments: list[Segment] = []
    base = parents[0].base_offset
    for end in ends or (parents[-1].next_offset,):
        segments.append(Segment(attempt, 500, 44 + 30, 30, base, end, 5, 99))
        base = end
    return SegmentUnit(partition, tuple(parents), tuple(segments), 1, 2)


def publish(world: World, *units: SegmentUnit, incarnation: int = 1) -> tuple[Publication, ...]:
    decided = PublishSegments(incarnation, units).decide(world.view())
    if decided.events:
        world.apply(*decided.events)
    world.check_replay()
    return decided.answer


def test_a_segment_takes_the_place_of_its_parents() -> None:
    world = world_with(5)
    before = world.state.partitions[0].size_bytes
    parents = rows(world)

    assert publish(world, unit(parents[1:4])) == (Publication.PUBLISHED,)

    now = rows(world)
    assert [(each.base_offset, each.next_offset) for each in now] == [(0, 3), (3, 12), (12, 15)]
    assert now[1].flags == RUN_SEGMENT
    assert world.state.partitions[0].size_bytes == before - 30 + 30
    name = world.state.objects.name(now[1].object_number)
    assert name == SegmentName(1, 1, TOPIC, 0, 3)
    assert world.commit(batch(count=1))[0].base_offset == 15


def test_an_object_dies_with_its_last_run() -> None:
    world = world_with(2)
    publish(world, unit(rows(world)))
    assert not world.state.objects.dead
    publish(world, unit(rows(world, 1), 1, 2))
    assert sorted(world.state.objects.dead) == [parent for parent in range(2)]
    world.apply(*ForgetObjects((0, 1)).decide(world.view()).events)
    world.check_replay()


def test_several_units_and_several_segments_at_once() -> None:
    world = world_with(6)
    parents = rows(world)
    answers = publish(
        world, unit(parents[:2], ends=(3, 6)), unit(parents[3:], attempt=2), unit(rows(world, 1), 1)
    )
    assert answers == (Publication.PUBLISHED,) * 3
    assert [each.base_offset for each in rows(world)] == [0, 3, 6, 9]


def test_a_unit_is_published_once() -> None:
    world = world_with(3)
    wanted = unit(rows(world))
    assert publish(world, wanted) == (Publication.PUBLISHED,)
    assert publish(world, wanted) == (Publication.CHANGED,)


def test_overlapping_units_of_two_drivers() -> None:
    world = world_with(4)
    first, second = unit(rows(world)[:3]), unit(rows(world)[2:], attempt=2)
    assert publish(world, second) == (Publication.PUBLISHED,)
    assert publish(world, first) == (Publication.CHANGED,)


def test_units_of_one_proposal_that_overlap() -> None:
    world = world_with(4)
    parents = rows(world)
    answers = publish(world, unit(parents[:3]), unit(parents[2:], attempt=2))
    assert answers == (Publication.PUBLISHED, Publication.CHANGED)


def test_a_log_start_that_passed_the_first_parent() -> None:
    world = world_with(4)
    planned = unit(rows(world))
    world.apply(LogStartsMoved(((0, 4),)))
    assert publish(world, planned) == (Publication.CUT,)


def test_a_log_start_within_the_first_parent_changes_nothing() -> None:
    world = world_with(4)
    planned = unit(rows(world))
    world.apply(LogStartsMoved(((0, 2),)))
    assert publish(world, planned) == (Publication.PUBLISHED,)
    world.apply(LogStartsMoved(((0, 12),)))
    assert not rows(world)
    world.check_replay()


def test_a_deleted_topic() -> None:
    world = world_with(2)
    planned = unit(rows(world))
    world.apply(TopicDeleted(TOPIC))
    assert publish(world, planned) == (Publication.NO_PARTITION,)


def test_deleting_a_topic_kills_its_segments() -> None:
    world = world_with(2)
    publish(world, unit(rows(world)), unit(rows(world, 1), 1, 2))
    world.apply(TopicDeleted(TOPIC))
    assert sorted(world.state.objects.dead) == [0, 1, 2, 3]
    names = [world.state.objects.name(number) for number in (2, 3)]
    assert [name.partition for name in names if isinstance(name, SegmentName)] == [0, 1]
    world.check_replay()


def test_nothing_of_an_incarnation_that_ended_is_published() -> None:
    world = world_with(2)
    world.apply(GatewayRegistered(2, -5, "driver", "", (), "0", 0), writer=0)
    world.apply(GatewayExpired(2))
    assert publish(world, unit(rows(world)), incarnation=2) == (Publication.CHANGED,)


def test_a_driver_is_no_broker() -> None:
    world = world_with(1)
    world.apply(GatewayRegistered(2, -5, "driver", "", (), "0", 0), writer=0)
    gateways = world.state.gateways
    assert gateways.is_live(2)
    assert [each.node_id for each in gateways.brokers()] == [1]
    assert [each.node_id for each in gateways.serving()] == [1]


@pytest.mark.parametrize(
    ("base", "end", "segments"),
    [
        (1, 6, ()),
        (0, 5, ()),
        (3, 3, ()),
        (0, 6, ((1, 6),)),
        (0, 6, ((0, 3), (4, 6))),
        (0, 6, ((0, 7),)),
        (0, 6, ((0, 3),)),
    ],
)
def test_the_fold_refuses_what_does_not_fit(
    base: int, end: int, segments: tuple[tuple[int, int], ...]
) -> None:
    world = world_with(3)
    new = tuple(Segment(1, 500, 74, 30, first, last, 5, 9) for first, last in segments)
    with pytest.raises(StateBroken):
        world.apply(SegmentsPublished(1, (SegmentsOfPartition(0, base, end, new, 1, 2),)))


def test_something_always_takes_the_place_of_parents() -> None:
    """Otherwise the run before would seem to hold the removed records."""
    world = world_with(3)
    for parents in (rows(world)[:2], rows(world)[1:2]):
        nothing = SegmentUnit(0, tuple(parents), (), 0, 0)
        assert publish(world, nothing) == (Publication.INVALID,)


def test_no_segment_takes_the_place_of_a_hole() -> None:
    """A reader of committed records must notice the hole.

    The skipped runs may have held the marker of an abort.
    """
    world = world_with(3)
    before = rows(world)
    stretch = SkippedStretch(0, before[1].base_offset, before[1].next_offset)
    world.apply(RunsSkipped(1, (stretch,)))
    assert publish(world, unit(rows(world))) == (Publication.INVALID,)
    assert publish(world, unit(rows(world)[1:])) == (Publication.PUBLISHED,)


@pytest.mark.parametrize("field", ["digest", "records", "removed"])
@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_a_number_that_no_entry_holds_is_refused(field: str, number: int) -> None:
    world = world_with(3)
    good = unit(rows(world))
    values: dict[str, Any] = {field: number}
    assert publish(world, replace(good, **values)) == (Publication.INVALID,)
    assert publish(world, good) == (Publication.PUBLISHED,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_offset": 1},
        {"next_offset": 8},
        {"next_offset": 10},
        {"size_bytes": 1 << 32},
        {"attempt": -1},
        {"check": 1 << 32},
        {"length": 0},
        {"position": 500},
        {"max_timestamp": 1 << 63},
        {"max_timestamp": -2},
    ],
)
def test_segments_that_the_fold_would_refuse_are_never_written(wrong: dict[str, int]) -> None:
    """One entry that cannot be folded would stop every gateway for ever."""
    world = world_with(3)
    good = unit(rows(world))
    bad = msgspec.structs.replace(good.segments[0], **wrong)
    assert publish(world, replace(good, segments=(bad,))) == (Publication.INVALID,)
    assert publish(world, good) == (Publication.PUBLISHED,)


def test_a_segment_is_as_old_as_its_newest_records() -> None:
    world = world_with(2)
    committed_ms = world.state.log_time_ms
    parents = rows(world)
    world.clock_ms += 50_000
    assert publish(world, unit(parents)) == (Publication.PUBLISHED,)
    assert world.state.log_time_ms > committed_ms
    [row] = rows(world)
    assert world.state.objects.committed_at_ms(row.object_number) == committed_ms


def test_names_of_segments_go_with_them() -> None:
    world = world_with(2)
    publish(world, unit(rows(world)))
    assert world.state.objects.segment_count == 1
    world.apply(TopicDeleted(TOPIC))
    world.apply(*ForgetObjects(tuple(world.state.objects.dead)).decide(world.view()).events)
    assert world.state.objects.segment_count == 0
    world.check_replay()


def of_format_3(snapshot: bytes) -> bytes:
    """The snapshot as a release without compaction wrote it, with rows of dead objects."""
    head, *tables = split(snapshot)
    assert head["format"] == 4
    assert head.pop("pipeline") == []
    for name, partitions in tables:
        if name == "partitions":
            assert all(row.pop() == [] for row in partitions)
    objects = head["objects"]
    numbers = array("I", objects.pop("numbers")).tolist()
    assert numbers == list(range(objects.pop("next")))
    objects["first"] = 0
    return b"".join(map(piece, [{**head, "format": 3}, *tables]))


def of_format_2(snapshot: bytes) -> bytes:
    """The snapshot as a release without segments wrote it."""
    head, *tables = split(of_format_3(snapshot))
    objects = head["objects"]
    assert (objects.pop("superseded"), objects.pop("homes")) == ([], [])
    assert len(objects["columns"]) == 7
    del objects["columns"][5:]  # the columns of a segment's place
    return b"".join(map(piece, [{**head, "format": 2}, *tables]))


def test_a_snapshot_with_rows_of_collected_objects_is_still_read() -> None:
    world = world_with(2, FIRST)
    publish(world, unit(rows(world)), unit(rows(world, 1), 1, 2))
    world.commit(batch(count=3))
    collected = min(world.state.objects.dead)
    world.apply(ObjectsCollected((collected,)))
    current = world.state.encode()

    world.state = ClusterState.decode(of_format_3(current))

    world.check_replay()
    assert world.state.encode() == current
    assert world.state.objects.name_or_none(collected) is None


def test_a_snapshot_without_segments_is_still_read() -> None:
    world = world_with(2, FIRST)
    world.apply(LogStartsMoved(((0, 6), (1, 4))))  # the snapshot then also has dead objects
    world.commit(batch(count=3))
    old = of_format_2(world.state.encode())
    assert old != world.state.encode()

    world.state = ClusterState.decode(old)

    world.check_replay()
    assert publish(world, unit(rows(world))) == (Publication.PUBLISHED,)
    names = [world.state.objects.name(number) for number in range(4)]
    assert names == [WalName(1, 0), WalName(1, 1), WalName(1, 2), SegmentName(1, 1, TOPIC, 0, 6)]


def test_a_snapshot_without_compaction_is_still_read() -> None:
    world = world_with(2, FIRST)
    publish(world, unit(rows(world)))
    world.state = ClusterState.decode(of_format_3(world.state.encode()))
    world.check_replay()
    assert world.state.partitions[0].cleanings == ()


def test_superseded_objects_wait_for_a_copy_of_the_log() -> None:
    """A log that is restored from an older copy knows no segments, and would read the parents."""
    world = world_with(2)
    publish(world, unit(rows(world)), unit(rows(world, 1), 1, 2))
    died_ms = world.state.log_time_ms
    world.commit(batch(count=1))
    world.apply(LogStartsMoved(((0, 7),)))
    expired = [number for number in world.state.objects.dead if number not in (0, 1)]

    assert collectable(world.state, 0, died_ms) == expired
    assert collectable(world.state, 0, died_ms + 1) == sorted([0, 1, *expired])
    assert collectable(world.state, 0) == sorted([0, 1, *expired])
    assert len(expired) == 2  # a segment, and a run that was never merged
