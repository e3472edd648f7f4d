"""Skipping runs: only the checked runs are skipped, and all others stay unchanged."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.rules.test_segment_rules import publish, rows, unit, world_with
from tests.rules.test_wal_rules import TOPIC, World, batch, offsets
from tidegate_coordination.events.cluster import (
    GatewayExpired,
    GatewayRegistered,
    LogStartsMoved,
    Run,
    RunsSkipped,
    SkippedStretch,
    TopicDeleted,
    WalCommitted,
)
from tidegate_coordination.events.inlined import BatchesInlined
from tidegate_coordination.events.metadata_versions import FIRST, KEPT_SKIPS
from tidegate_coordination.rules.housekeeping import ForgetObjects, MoveLogStarts, collectable
from tidegate_coordination.rules.records.segments import Publication
from tidegate_coordination.rules.records.skips import (
    Ending,
    EndSkips,
    Skip,
    SkipRuns,
    Unreadable,
)
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.runs import RunRow


def skip(world: World, *stretches: list[RunRow], partition: int = 0) -> tuple[Skip, ...]:
    asked = tuple(Unreadable(partition, tuple(each)) for each in stretches)
    decided = SkipRuns(1, asked).decide(world.view())
    if decided.events:
        world.apply(*decided.events)
    world.check_replay()
    return decided.answer


def end_skip(
    world: World, *stretches: list[RunRow], back: bool, even: bool = False
) -> tuple[Ending, ...]:
    """Bring stretches of partition 0 back, or give them up."""
    asked = tuple(Unreadable(0, tuple(each)) for each in stretches)
    decided = EndSkips(1, asked, back, even).decide(world.view())
    if decided.events:
        world.apply(*decided.events)
    world.check_replay()
    return decided.answer


def places(world: World) -> list[tuple[int, int]]:
    return [(each.base_offset, each.next_offset) for each in rows(world)]


def ends(world: World) -> tuple[int, int]:
    partition = world.state.partitions[0]
    return partition.log_start, partition.next_offset


def test_a_hole_in_the_middle() -> None:
    world = world_with(5)
    before = rows(world)
    size = world.state.partitions[0].size_bytes

    assert skip(world, before[1:3]) == (Skip.SKIPPED,)

    assert rows(world) == [before[0], *before[3:]]
    assert ends(world) == (0, 15)
    assert world.state.partitions[0].size_bytes == size - 20
    runs = world.state.partitions[0].runs
    assert [runs.find(offset) for offset in (0, 2, 3, 8, 9, 14)] == [0, 0, 1, 1, 1, 2]
    assert rows(world, 1)[1].base_offset == 2


def test_a_hole_at_the_front_moves_the_log_start() -> None:
    world = world_with(3)
    assert skip(world, rows(world)[:1]) == (Skip.SKIPPED,)
    assert (places(world), ends(world)) == ([(3, 6), (6, 9)], (3, 9))


def test_commits_continue_after_a_hole_at_the_end() -> None:
    world = world_with(3)
    assert skip(world, rows(world)[2:]) == (Skip.SKIPPED,)
    assert ends(world) == (0, 9)
    runs = world.state.partitions[0].runs
    assert [runs.find(offset) for offset in (5, 6, 8, 9)] == [1, 2, 2, 2]

    assert offsets(world.commit(batch(count=2))) == [9]

    assert places(world) == [(0, 3), (3, 6), (9, 11)]
    world.check_replay()


def test_runs_of_inlined_objects_are_never_skipped() -> None:
    world = world_with(1)
    run = Run(0, 0, 3, 3, 1, 5, 1, 0)
    world.apply(WalCommitted(1, 9, 3, (run,), ()), BatchesInlined(1, 9, b"abc"))
    before = rows(world)
    assert skip(world, before[:1], before[1:]) == (Skip.SKIPPED, Skip.INLINED)
    assert rows(world) == before[1:]
    assert skip(world, before[1:]) == (Skip.INLINED,)


def test_nothing_is_left() -> None:
    world = world_with(2)
    assert skip(world, rows(world)) == (Skip.SKIPPED,)
    assert (places(world), ends(world)) == ([], (6, 6))
    assert offsets(world.commit(batch(count=2))) == [6]
    assert (places(world), ends(world)) == ([(6, 8)], (6, 8))
    world.check_replay()


def test_holes_meet() -> None:
    world = world_with(4)
    before = rows(world)
    skip(world, before[1:2])
    skip(world, before[2:3])
    assert places(world) == [(0, 3), (9, 12)]
    assert skip(world, before[:1]) == (Skip.SKIPPED,)
    assert (places(world), ends(world)) == ([(9, 12)], (9, 12))


def test_a_stretch_over_a_hole() -> None:
    world = world_with(4)
    before = rows(world)
    skip(world, before[1:2])
    assert skip(world, rows(world)) == (Skip.SKIPPED,)
    assert ends(world) == (12, 12)


def test_producers_keep_their_sequences() -> None:
    world = World()
    world.commit(batch(first=0, count=3, producer=7))
    world.commit(batch(first=3, count=3, producer=7))
    skip(world, rows(world)[1:])
    assert offsets(world.commit(batch(first=3, count=3, producer=7))) == [3]  # a duplicate
    assert offsets(world.commit(batch(first=6, count=1, producer=7))) == [6]


def test_only_live_and_unchanged_runs_are_skipped() -> None:
    world = world_with(6)
    before = rows(world)
    publish(world, unit(before[1:3]))
    merged = rows(world)

    assert skip(world, before[1:2], before[2:4], before[4:5]) == (
        Skip.CHANGED,
        Skip.CHANGED,
        Skip.SKIPPED,
    )
    other = merged[1]._replace(check=merged[1].check ^ 1)
    assert skip(world, [other]) == (Skip.CHANGED,)
    assert skip(world, merged[1:2], merged[1:2]) == (Skip.SKIPPED, Skip.CHANGED)


def test_a_deleted_topic_and_an_ended_command() -> None:
    world = world_with(2)
    seen = rows(world)
    world.apply(GatewayRegistered(2, -5, "repair", "", (), "0", 0), writer=0)
    world.apply(GatewayExpired(2))
    answer = SkipRuns(2, (Unreadable(0, tuple(seen)),)).decide(world.view()).answer
    assert answer == (Skip.CHANGED,)
    world.apply(TopicDeleted(TOPIC))
    assert skip(world, seen) == (Skip.NO_PARTITION,)


def test_a_merge_under_way_is_dropped() -> None:
    world = world_with(4)
    planned = [unit(rows(world)[:2]), unit(rows(world)[2:], attempt=2)]
    skip(world, rows(world)[1:2])
    assert publish(world, *planned) == (Publication.CHANGED, Publication.PUBLISHED)
    assert places(world) == [(0, 3), (6, 12)]


def test_a_merge_next_to_a_hole_is_published() -> None:
    world = world_with(6)
    skip(world, rows(world)[2:3])
    skip(world, rows(world)[-1:])
    before, behind = rows(world)[:2], rows(world)[2:]
    assert publish(world, unit(before), unit(behind, attempt=2)) == (Publication.PUBLISHED,) * 2
    assert places(world) == [(0, 6), (9, 15)]
    assert skip(world, rows(world)[1:]) == (Skip.SKIPPED,)
    assert (places(world), ends(world)) == ([(0, 6)], (0, 18))


def test_retention_and_deletion_pass_over_holes() -> None:
    world = world_with(5)
    skip(world, rows(world)[1:3])
    world.apply(*MoveLogStarts(((0, 5),)).decide(world.view()).events)
    assert (places(world), ends(world)) == ([(9, 12), (12, 15)], (5, 15))
    world.apply(LogStartsMoved(((0, 15),)))
    assert places(world) == []
    assert offsets(world.commit(batch())) == [15]
    world.apply(TopicDeleted(TOPIC))
    assert sorted(world.state.objects.dead) == list(range(6))
    world.check_replay()


def test_objects_of_skipped_runs_are_collected_once_a_copy_of_the_log_knows() -> None:
    """The level is that of a release that keeps no skipped runs."""
    world = world_with(1, KEPT_SKIPS - 1)
    skip(world, rows(world))
    assert not world.state.objects.dead
    skip(world, rows(world, 1), partition=1)
    died_ms = world.state.log_time_ms
    assert collectable(world.state, 0, died_ms) == []
    assert collectable(world.state, 0, died_ms + 1) == [0]
    world.apply(*ForgetObjects((0,)).decide(world.view()).events)
    assert not len(world.state.objects)
    world.check_replay()


@pytest.mark.parametrize(("base", "end"), [(1, 3), (0, 4), (3, 3), (3, 9), (6, 3), (6, 12)])
def test_the_fold_refuses_skips_that_are_no_stretch(base: int, end: int) -> None:
    world = world_with(4)
    skip(world, rows(world)[2:3])
    with pytest.raises(StateBroken):
        world.apply(RunsSkipped(1, (SkippedStretch(0, base, end),)))


def test_a_snapshot_of_the_release_before() -> None:
    """That release knew no holes, and its format was 3."""
    world = world_with(3, FIRST)
    data = world.state.encode()
    older = data.replace(b"\xa6format\x04", b"\xa6format\x03")
    assert older != data
    assert ClusterState.decode(older).encode() == data


class Holes(RuleBasedStateMachine):
    """Compares a partition's runs with a plain list of rows."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.model: list[RunRow] = []
        self.kept: list[RunRow] = []
        self.floor = self.log_start = self.next_offset = self.attempts = 0

    def _stretch(self, start: int, count: int) -> list[RunRow]:
        at = start % len(self.model) if self.model else 0
        return self.model[at : at + count]

    @rule(count=st.integers(1, 5))
    def commit(self, count: int) -> None:
        assert offsets(self.world.commit(batch(count=count))) == [self.next_offset]
        self.next_offset += count
        self.model.append(rows(self.world)[-1])

    @rule(start=st.integers(0, 50), count=st.integers(1, 4), is_stale=st.booleans())
    def skip(self, start: int, count: int, is_stale: bool) -> None:
        if not (asked := self._stretch(start, count)):
            return
        if is_stale:
            asked[0] = asked[0]._replace(next_offset=asked[0].next_offset + 1)
            assert skip(self.world, asked) == (Skip.CHANGED,)
            return
        assert skip(self.world, asked) == (Skip.SKIPPED,)
        self.floor = self.floor if self.kept else self.log_start
        self.kept = sorted([*self.kept, *asked])
        is_first = asked[0] == self.model[0]
        self.model = [each for each in self.model if each not in asked]
        if is_first:
            first = self.model[0].base_offset if self.model else self.next_offset
            self.log_start = max(self.log_start, first)

    @rule(start=st.integers(0, 50), count=st.integers(1, 4))
    def merge(self, start: int, count: int) -> None:
        asked = self._stretch(start, count)
        pairs = pairwise(asked)
        if not asked or any(one.next_offset != other.base_offset for one, other in pairs):
            return
        self.attempts += 1
        wanted = unit(asked, attempt=self.attempts)
        assert publish(self.world, wanted) == (Publication.PUBLISHED,)
        at = self.model.index(asked[0])
        self.model[at : at + len(asked)] = [rows(self.world)[at]]

    @rule(start=st.integers(0, 50), count=st.integers(1, 3), back=st.booleans())
    def end_skip(self, start: int, count: int, back: bool) -> None:
        if not self.kept:
            return
        at = start % len(self.kept)
        asked = self.kept[at : at + count]
        # A proposal names only neighbouring runs.
        apart = [i for i, (one, two) in enumerate(pairwise(asked)) if one[1] != two[0]]
        asked = asked[: apart[0] + 1] if apart else asked
        assert end_skip(self.world, asked, back=back) == (Ending.ENDED,)
        self.kept = [each for each in self.kept if each not in asked]
        if back:
            self.model = sorted([*self.model, *asked])
            if self.model[0] == asked[0]:
                self.log_start = min(self.log_start, max(self.floor, asked[0].base_offset))

    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        floor = self.floor if self.kept else self.log_start
        offset = round(floor + share * (self.next_offset - floor))
        self.world.apply(LogStartsMoved(((0, offset),)))
        self.floor = offset
        self.log_start = max(self.log_start, offset)
        self.kept = [each for each in self.kept if each.next_offset > offset]
        self.model = [each for each in self.model if each.next_offset > offset]

    @invariant()
    def is_as_the_model_says(self) -> None:
        assert rows(self.world) == self.model
        assert list(self.world.state.partitions[0].kept or ()) == self.kept
        assert list(self.world.state.partitions[0].rows()) == sorted([*self.model, *self.kept])
        used = {each.object_number for each in (*self.model, *self.kept)}
        assert used.isdisjoint(self.world.state.objects.dead)
        assert ends(self.world) == (self.log_start, self.next_offset)
        partition = self.world.state.partitions[0]
        assert partition.size_bytes == sum(each.length for each in self.model)
        gaps = sum(one.next_offset != other.base_offset for one, other in pairwise(self.model))
        encoded = cast("list[list[object]]", partition.runs.encode(is_wide=False))
        assert sum(len(each) for each in encoded[3:]) == gaps
        for offset in range(self.log_start, self.next_offset + 1):
            behind = [at for at, each in enumerate(self.model) if each.next_offset > offset]
            assert partition.runs.find(offset) == (behind[0] if behind else len(self.model))

    def teardown(self) -> None:
        self.world.check_replay()


TestHoles = pytest.mark.slow(Holes.TestCase)
TestHoles.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
