"""Skipped runs that are kept: they are brought back into their hole, or dropped for good."""

from __future__ import annotations

import pytest

from tests.rules.test_compaction_rules_published import compact
from tests.rules.test_segment_rules import publish, rows, unit, world_with
from tests.rules.test_skip_rules import end_skip, ends, places, skip
from tests.rules.test_wal_rules import TOPIC, World, batch, offsets
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.events.cluster import (
    ConfigsSet,
    Event,
    GatewayExpired,
    GatewayRegistered,
    LogStartsMoved,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
    SkippedStretch,
    SkipsEnded,
    TopicDeleted,
)
from tidegate_coordination.events.metadata_versions import KEPT_SKIPS
from tidegate_coordination.rules.housekeeping import MoveLogStarts, collectable, plan_retention
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion
from tidegate_coordination.rules.records.segments import Publication
from tidegate_coordination.rules.records.skips import Ending, EndSkips, Unreadable
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.records.runs import RunRow

BACK = (Ending.ENDED,)
FIRST_BACK = SkipsEnded(1, (SkippedStretch(0, 0, 3),), True)


def kept(world: World) -> list[RunRow]:
    return list(world.state.partitions[0].kept or ())


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 2), (1, 3), (3, 5), (4, 5), (0, 5)])
def test_runs_come_back_to_where_they_were(first: int, last: int) -> None:
    world = world_with(5)
    before, size = rows(world), world.state.partitions[0].size_bytes
    stretch = before[first:last]
    skip(world, stretch)
    assert kept(world) == stretch
    world.state.touched.clear()

    assert end_skip(world, stretch, back=True) == BACK

    assert rows(world) == before
    assert world.state.touched == {0}
    assert (ends(world), kept(world)) == ((0, 15), [])
    assert world.state.partitions[0].size_bytes == size
    runs = world.state.partitions[0].runs
    assert [runs.find(offset) for offset in range(0, 15, 3)] == [0, 1, 2, 3, 4]
    assert end_skip(world, stretch, back=True) == (Ending.CHANGED,)


def test_a_part_of_a_hole_comes_back() -> None:
    world = world_with(5)
    before = rows(world)
    skip(world, before[:3])
    assert end_skip(world, before[1:2], back=True) == BACK
    assert (places(world), ends(world)) == ([(3, 6), (9, 12), (12, 15)], (3, 15))
    assert end_skip(world, before[:1], before[2:3], back=True) == BACK * 2
    assert (rows(world), ends(world)) == (before, (0, 15))


def test_a_hole_at_the_end_is_filled_after_later_records() -> None:
    world = world_with(2)
    before = rows(world)
    skip(world, before)
    assert offsets(world.commit(batch(count=2))) == [6]
    assert end_skip(world, before, back=True) == BACK
    assert (places(world), ends(world)) == ([(0, 3), (3, 6), (6, 8)], (0, 8))


def test_merges_beside_a_hole_leave_it_as_it_is() -> None:
    world = world_with(5)
    before = rows(world)
    skip(world, before[2:3])
    assert publish(world, unit(before[:2]), unit(before[3:], attempt=2)) == (
        Publication.PUBLISHED,
        Publication.PUBLISHED,
    )
    assert end_skip(world, before[2:3], back=True) == BACK
    assert places(world) == [(0, 6), (6, 9), (9, 15)]


def test_an_object_with_kept_runs_is_not_dead() -> None:
    world = world_with(1)
    [run] = rows(world)
    skip(world, [run])
    skip(world, rows(world, 1), partition=1)
    assert not world.state.objects.dead

    assert end_skip(world, [run], back=False) == BACK

    assert (kept(world), ends(world)) == ([], (3, 3))
    world.apply(TopicDeleted(TOPIC))
    died_ms = world.state.log_time_ms
    assert collectable(world.state, 0, died_ms) == []  # not until a copy of the log covers it
    assert collectable(world.state, 0, died_ms + 1) == [0]
    world.check_replay()


def test_nothing_is_kept_below_its_level() -> None:
    world = world_with(2, KEPT_SKIPS - 1)
    before = rows(world)
    skip(world, before[:1])
    assert (kept(world), end_skip(world, before[:1], back=True)) == ([], (Ending.CHANGED,))


def test_a_deleted_topic_and_an_ended_command() -> None:
    world = world_with(2)
    seen = rows(world)[:1]
    skip(world, seen)
    world.apply(GatewayRegistered(2, -5, "repair", "", (), "0", 0), writer=0)
    world.apply(GatewayExpired(2))
    late = EndSkips(2, (Unreadable(0, tuple(seen)),), True)
    assert late.decide(world.view()).answer == (Ending.CHANGED,)
    changed = [seen[0]._replace(check=seen[0].check ^ 1)]
    assert end_skip(world, changed, back=True) == (Ending.CHANGED,)
    assert end_skip(world, seen, seen, back=False) == (Ending.ENDED, Ending.CHANGED)
    world.apply(TopicDeleted(TOPIC))
    assert end_skip(world, seen, back=True) == (Ending.NO_PARTITION,)


@pytest.mark.parametrize(("base", "end"), [(0, 2), (0, 6), (3, 3), (6, 9), (3, 0)])
def test_the_fold_refuses_what_is_not_kept(base: int, end: int) -> None:
    world = world_with(4)
    skip(world, rows(world)[:1])
    with pytest.raises(StateBroken):
        world.apply(SkipsEnded(1, (SkippedStretch(0, base, end),), True))


@pytest.mark.parametrize("other", [FIRST_BACK, LogStartsMoved(((0, 6),))])
@pytest.mark.parametrize("is_first", [True, False])
def test_no_other_event_of_an_entry_changes_the_same(other: Event, is_first: bool) -> None:
    world = world_with(4)
    skip(world, rows(world)[:1])
    events = [FIRST_BACK, other] if is_first else [other, FIRST_BACK]
    with pytest.raises(StateBroken):
        Trial(world.state).check(events)


def test_the_fold_refuses_to_fill_a_hole_that_a_segment_covers() -> None:
    """No proposal makes such a segment."""
    world = world_with(3)
    skip(world, rows(world)[1:2])
    segment = Segment(1, 99, 9, 9, 0, 9, 5, 5)
    world.apply(SegmentsPublished(1, (SegmentsOfPartition(0, 0, 9, (segment,), 9, 9),)))
    with pytest.raises(StateBroken):
        world.apply(SkipsEnded(1, (SkippedStretch(0, 3, 6),), True))


# -- deleted records stay deleted -----------------------------------------------------------------


def test_a_log_start_that_passed_kept_runs_drops_them() -> None:
    world = world_with(4)
    before = rows(world)
    skip(world, before[1:3])
    world.apply(*MoveLogStarts(((0, 7),)).decide(world.view()).events)
    assert (kept(world), ends(world)) == (before[2:3], (7, 12))
    assert end_skip(world, before[1:2], back=True) == (Ending.CHANGED,)
    assert end_skip(world, before[2:3], back=True) == BACK
    assert (places(world), ends(world)) == ([(6, 9), (9, 12)], (7, 12))


def test_records_deleted_in_a_hole_at_the_front_do_not_come_back() -> None:
    """The skip has moved the log start beyond the offset of DeleteRecords already."""
    world = world_with(4)
    before = rows(world)
    skip(world, before[:2])
    assert ends(world) == (6, 12)

    for offset, start in ((4, 6), (3, 6), (4, 6)):
        decided = DeleteRecords([Deletion("t", 0, offset)]).decide(world.view())
        assert decided.answer == [start]
        if decided.events:
            world.apply(*decided.events)
    world.check_replay()

    assert (kept(world), ends(world)) == (before[1:2], (6, 12))
    assert end_skip(world, before[1:2], back=True) == BACK
    assert (places(world), ends(world)) == ([(3, 6), (6, 9), (9, 12)], (4, 12))


def test_kept_runs_expire_like_others() -> None:
    world = World()
    settings = compile_topic_settings({"retention.ms": "1000"}, BrokerLayers())

    def expire() -> list[tuple[int, int]]:
        moves = plan_retention(world.state, lambda _: settings)
        world.apply(*MoveLogStarts(tuple(moves)).decide(world.view()).events)
        return moves

    world.commit(batch(count=3))
    world.commit(batch(count=3))
    skip(world, rows(world))
    assert expire() == []
    world.clock_ms += 2000
    world.commit(batch(count=1))
    assert expire() == [(0, 6)]
    assert (kept(world), places(world), ends(world)) == ([], [(6, 7)], (6, 7))
    assert sorted(world.state.objects.dead) == [0, 1]
    world.check_replay()


@pytest.mark.parametrize(("bytes_", "moves"), [("20", []), ("10", [(0, 9)])])
def test_bytes_of_kept_runs_do_not_count(bytes_: str, moves: list[tuple[int, int]]) -> None:
    world = world_with(4)
    settings = compile_topic_settings({"retention.bytes": bytes_}, BrokerLayers())
    skip(world, rows(world)[1:3])
    planned = plan_retention(world.state, lambda _: settings)
    assert [each for each in planned if each[0] == 0] == moves


# -- compacted topics -----------------------------------------------------------------------------


def test_a_compacted_topic_needs_a_word_more() -> None:
    world = world_with(3)
    stretch = rows(world)[1:2]
    skip(world, stretch)
    world.apply(ConfigsSet(2, "t", {"cleanup.policy": "compact"}))
    assert end_skip(world, stretch, back=True) == (Ending.COMPACTED,)
    assert end_skip(world, stretch, back=True, even=True) == BACK


def test_rounds_of_compaction_count_only_below_what_comes_back() -> None:
    world = world_with(4)
    stretch = rows(world)[1:2]
    assert compact(world, 2) is Publication.PUBLISHED
    skip(world, stretch)
    assert compact(world, 9) is Publication.PUBLISHED
    assert end_skip(world, stretch, back=True) == (Ending.COMPACTED,)
    assert end_skip(world, stretch, back=True, even=True) == BACK
    assert [each.end_offset for each in world.state.partitions[0].cleanings] == [2, 3]
    assert compact(world, 9) is Publication.PUBLISHED
    world.check_replay()


def test_ends_of_rounds_rise_after_ranges_at_the_front_came_back() -> None:
    world = world_with(3)
    front = rows(world)[:1]
    for _ in range(2):
        compact(world, 9)
        skip(world, front)
        end_skip(world, front, back=True, even=True)
    assert [each.end_offset for each in world.state.partitions[0].cleanings] == [0]


def test_giving_up_asks_nothing_of_a_compacted_topic() -> None:
    world = world_with(3)
    stretch = rows(world)[1:2]
    skip(world, stretch)
    compact(world, 9)
    assert end_skip(world, stretch, back=False) == BACK
