"""Small writes in the log: committed as objects are, moved only while their runs are unchanged."""

from __future__ import annotations

import pytest

from tests.rules.test_wal_rules import TOPIC, World, batch, commit_of, offsets
from tidegate_coordination.events.cluster import (
    LogStartsMoved,
    ObjectsCollected,
    Run,
    TopicDeleted,
    WalAbandoned,
    WalCommitted,
)
from tidegate_coordination.events.inlined import BatchesInlined, InlineMoved, MovedStretch
from tidegate_coordination.events.log_moves import LogMoveBegun
from tidegate_coordination.events.metadata_versions import INLINED
from tidegate_coordination.rules.proposal import Decided
from tidegate_coordination.rules.records import inlining
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.inlining import CommitInlined, MoveInlined, Stretch
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.runs import RunRow

BODY = bytes(100)


def proposal(world: World, *batches: BatchFacts) -> CommitInlined:
    world.counter += 1
    return CommitInlined.of(commit_of(WalName(1, world.counter), batches), BODY)


def inline(world: World, *batches: BatchFacts) -> None:
    world.apply(*proposal(world, *batches).decide(world.view()).events)


def rows(world: World, number: int = 0) -> list[RunRow]:
    runs = world.state.partitions[number].runs
    return [runs[at] for at in range(len(runs))]


def moved(world: World, parents: list[RunRow], number: int = 0) -> MoveInlined:
    first, last = parents[0].base_offset, parents[-1].next_offset
    run = Run(number, 36, 20, first, last - first, 5, 9, 0)
    return MoveInlined(WalName(1, 90), 120, (Stretch(number, tuple(parents), (run,)),))


def test_it_is_committed_as_a_stored_object_is() -> None:
    world = World()
    decided = proposal(world, batch(count=2), batch(count=3, at=10)).decide(world.view())
    assert decided.answer is not None
    assert offsets(decided.answer) == [0, 2]
    committed, body = decided.events
    assert isinstance(committed, WalCommitted)
    assert body == BatchesInlined(1, 1, BODY)
    world.apply(*decided.events)
    inlined = world.state.objects.inlined
    assert inlined.body(0) == BODY
    assert (inlined.size_bytes, inlined.first_position) == (100, world.state.position)
    world.check_replay()


def test_an_object_without_an_accepted_batch_needs_no_place() -> None:
    world = World()
    world.apply(*proposal(world, batch(topic=b"x" * 16)).decide(world.view()).events)
    objects = world.state.objects
    assert not objects.inlined
    assert set(objects.dead) == {0}
    assert not objects.inlined.was_stored(0)
    world.check_replay()


def test_the_store_is_not_asked_for_objects_that_were_in_the_log_alone() -> None:
    """Their keys may hold objects of a life that the log has lost."""
    world = World()
    inline(world, batch())
    world.counter += 1
    world.commit(batch())
    world.apply(LogStartsMoved(((0, 2),)))
    objects = world.state.objects
    assert [objects.inlined.was_stored(number) for number in (0, 1)] == [False, True]
    loaded = ClusterState.decode(world.state.encode()).objects
    assert [loaded.inlined.was_stored(number) for number in (0, 1)] == [False, True]
    world.apply(ObjectsCollected((0, 1)))
    assert not objects.inlined.encode()
    world.check_replay()


def test_an_object_in_the_log_does_not_prove_that_the_store_is_reached() -> None:
    world = World()
    world.commit(batch())
    world.apply(WalAbandoned(1, 20))
    world.counter = 30
    inline(world, batch())
    for state in (world.state, ClusterState.decode(world.state.encode())):
        assert state.objects.is_newest_abandoned(1)
        assert state.objects.next_proof(1) == 21
    world.counter += 1
    world.commit(batch())
    assert not world.state.objects.is_newest_abandoned(1)
    assert world.state.objects.next_proof(1) == 33
    world.check_replay()


def test_a_snapshot_has_the_places_and_not_the_bytes() -> None:
    world = World()
    inline(world, batch())
    loaded = ClusterState.decode(world.state.encode())
    assert loaded.objects.inlined.absent() == {0: world.state.position}
    assert loaded.objects.inlined.size_bytes == 100
    loaded.objects.inlined.fill(0, BODY)
    assert not loaded.objects.inlined.absent()
    assert loaded.encode() == world.state.encode()


def test_the_log_takes_none_below_the_level() -> None:
    world = World(INLINED - 1)
    assert proposal(world, batch()).decide(world.view()) == Decided((), None)


def test_the_log_takes_none_while_it_is_moved() -> None:
    world = World()
    world.apply(LogMoveBegun("move", 1))
    assert proposal(world, batch()).decide(world.view()).answer is None


def test_the_log_takes_none_above_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MAX_UNMOVED_BYTES", 199)
    world = World()
    inline(world, batch())
    assert proposal(world, batch()).decide(world.view()).answer is None


def test_runs_of_a_stored_object_take_their_place() -> None:
    world = World()
    for count in (2, 3):
        inline(world, batch(count=count))
    decided = moved(world, rows(world)).decide(world.view())
    assert decided.answer == 1
    world.apply(*decided.events)
    [row] = rows(world)
    assert (row.base_offset, row.next_offset, row.object_number, row.position) == (0, 5, 2, 36)
    assert not world.state.objects.inlined
    assert set(world.state.objects.dead) == {0, 1}
    assert world.state.partitions[0].size_bytes == 20
    world.check_replay()


def test_a_move_leaves_out_what_changed() -> None:
    world = World()
    inline(world, batch(count=2))
    inline(world, batch(count=3))
    late = moved(world, rows(world))
    world.apply(LogStartsMoved(((0, 2),)))
    decided = late.decide(world.view())
    assert decided.answer == 0
    world.apply(*decided.events)
    assert len(world.state.objects.inlined) == 1
    world.apply(*moved(world, rows(world)).decide(world.view()).events or ())
    world.check_replay()


def test_a_move_of_a_deleted_topic_moves_nothing() -> None:
    world = World()
    inline(world, batch())
    late = moved(world, rows(world))
    world.apply(TopicDeleted(TOPIC))
    assert late.decide(world.view()).answer == 0
    assert not world.state.objects.inlined


@pytest.mark.parametrize(
    "stretch",
    [
        MovedStretch(0, 0, 3, (Run(0, 36, 20, 0, 3, 5, 9, 0),)),
        MovedStretch(0, 0, 2, (Run(0, 36, 20, 0, 1, 5, 9, 0),)),
        MovedStretch(0, 0, 2, (Run(1, 36, 20, 0, 2, 5, 9, 0),)),
        MovedStretch(0, 0, 2, ()),
        MovedStretch(0, 2, 3, (Run(0, 36, 20, 2, 1, 5, 9, 0),)),
    ],
    ids=["other runs", "too short", "of another partition", "none", "of a stored object"],
)
def test_an_event_that_moves_other_runs_is_refused(stretch: MovedStretch) -> None:
    world = World()
    inline(world, batch(count=2))
    world.commit(batch())
    with pytest.raises(StateBroken):
        Trial(world.state).check([InlineMoved(1, 90, 120, (stretch,))])


def test_a_body_belongs_to_the_object_before_it() -> None:
    world = World()
    committed, body = proposal(world, batch()).decide(world.view()).events
    for events in ([body], [committed, body, body], [body, committed]):
        with pytest.raises(StateBroken):
            Trial(world.state).check(events)
    Trial(world.state).check([committed, body])
