"""Returns of switched topics to their source: what the rules accept, and what the fold makes of
it.
"""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.links.test_switch_rules import produce, switched
from tests.worlds.mirror_world import MIRRORED, SOURCE, World, batch
from tidegate_coordination.events.cluster import (
    Endpoint,
    GatewayExpired,
    GatewayRegistered,
    ProducersExpired,
)
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.events.transactions import TransactionalIdInitialised
from tidegate_coordination.rules.housekeeping import MoveLogStarts, plan_retention
from tidegate_coordination.rules.migration.mirrors import LinkRefusal, RemoveLink, SetLink
from tidegate_coordination.rules.migration.returns import (
    EndReverse,
    FenceReturn,
    NoteReversed,
    ReturnTopics,
    ReverseTopics,
)
from tidegate_coordination.rules.migration.switches import (
    FenceTopics,
    FinishSwitches,
    LiftFence,
    ReachFence,
    SwitchTopics,
)
from tidegate_coordination.rules.records.batch_outcomes import Refusal
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion, DeletionRefusal
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import (
    CreatePartitions,
    DeleteTopics,
    Growth,
    Refused,
    TopicKey,
)
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.state.records.objects import WalName


def reversing() -> World:
    """Reverse a topic that was switched at 10 and 0 and has one more record here."""
    world = switched()
    assert produce(world, 10).base_offset == 10
    forwarding = SetLink("src", SOURCE, "h:1", (".*",), replaces=True, forwards=True)
    assert world.propose(forwarding) is None
    assert world.propose(ReverseTopics("src", ("m",))) == ["m"]
    return world


def note(world: World, offset: int) -> None:
    number = world.partition().number
    world.propose(NoteReversed(((number, offset),)))


def fenced() -> World:
    world = reversing()
    assert world.propose(FenceReturn("src", ("m",))) == 2
    return world


def reached(world: World) -> tuple[int, ...]:
    return world.state.switches.switched[MIRRORED].reached


def returns(world: World, first: int = 0, second: int = 0) -> ReturnTopics:
    """Return the proposal that the topic returns.

    first, second: the leader epochs at the source of the topic's two partitions.
    """
    numbers = world.state.topics.by_id[MIRRORED].partition_numbers
    return ReturnTopics(2, tuple(zip(numbers, (first, second), strict=True)))


def is_mirrored(world: World) -> bool:
    return world.state.topics.by_id[MIRRORED].link == "src"


# -- writing back ----------------------------------------------------------------------------------


def test_a_topic_reverses_from_where_its_source_ended() -> None:
    world = reversing()
    assert reached(world) == (10, 0)
    assert world.propose(ReverseTopics("src")) == ["m"]  # a repeat of the proposal
    assert produce(world, 11).refusal is None


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (ReverseTopics("other"), "no such link"),
        (ReverseTopics("src", ("x",)), "x was not switched"),
        (EndReverse("other"), "no such link"),
        (FenceReturn("src", ("x",)), "x was not switched"),
    ],
)
def test_what_was_not_switched_does_not_go_back(
    proposal: ReverseTopics | EndReverse | FenceReturn, reason: str
) -> None:
    assert reason in str(switched().propose(proposal))


def test_a_finished_switch_does_not_go_back() -> None:
    world = switched()
    world.propose(FinishSwitches("src"))
    assert world.propose(ReverseTopics("src")) == "no topic of the link was switched"


def test_a_topic_that_lost_records_since_the_switch_does_not_go_back() -> None:
    world = switched()
    produce(world, 10)
    world.propose(MoveLogStarts(((world.partition().number, 11),)))
    assert "m-0 has lost records" in str(world.propose(ReverseTopics("src")))


def test_progress_only_rises_and_stays_within_the_partition() -> None:
    world = reversing()
    note(world, 12)
    assert reached(world) == (10, 0)
    note(world, 11)
    assert reached(world) == (11, 0)
    note(world, 10)
    assert reached(world) == (11, 0)


def test_what_is_not_yet_at_the_source_does_not_expire() -> None:
    world = reversing()
    number = world.partition().number
    settings = Mock(is_deleted_by_policy=True, retention_ms=0, retention_bytes=-1)
    world.clock_ms += 1  # records that were not walked are as old as their commit at most
    world.apply(ProducersExpired(0))
    assert plan_retention(world.state, lambda _: settings) == [(number, 10)]
    world.propose(MoveLogStarts(((number, 11),)))
    assert world.partition().log_start == 0
    note(world, 11)
    assert plan_retention(world.state, lambda _: settings) == [(number, 11)]
    world.propose(MoveLogStarts(((number, 11),)))
    assert world.partition().log_start == 11


def test_nobody_deletes_what_is_not_yet_at_the_source() -> None:
    world = reversing()
    assert world.propose(DeleteRecords([Deletion("m", 0, 11)])) == [DeletionRefusal.REVERSING]
    assert world.propose(DeleteRecords([Deletion("m", 0, 10)])) == [10]
    note(world, 11)
    assert world.propose(DeleteRecords([Deletion("m", 0, 11)])) == [11]


def test_a_topic_does_not_grow_while_it_reverses() -> None:
    world = reversing()
    [refused] = world.propose(CreatePartitions([Growth("m", 3)]))
    assert isinstance(refused, Refused)
    assert "written back to its source" in refused.text


def test_a_switch_is_not_finished_while_its_topic_reverses() -> None:
    world = reversing()
    assert "rollback src m --cancel" in str(world.propose(FinishSwitches("src", ("m", "m"))))
    assert world.propose(EndReverse("src", ("m", "m"))) == ["m"]
    assert world.propose(FinishSwitches("src")) == ["m"]


def test_an_ended_reverse_says_why_and_knows_where_the_source_ends() -> None:
    world = reversing()
    note(world, 11)
    assert world.propose(EndReverse("src", ("m",), "another client")) == ["m"]
    left = world.state.switches.switched[MIRRORED]
    assert (left.ends, left.reached, left.problem) == ((11, 0), (), "another client")
    note(world, 11)
    assert "another client" in str(world.propose(FenceReturn("src", ("m",))))
    assert world.propose(EndReverse("src")) == []
    assert world.propose(ReverseTopics("src")) == ["m"]
    assert world.state.switches.switched[MIRRORED].problem == ""


# -- returning -------------------------------------------------------------------------------------


def test_a_topic_that_returns_takes_no_more_writes_here() -> None:
    world = fenced()
    assert is_mirrored(world)
    assert produce(world, 11).refusal is Refusal.MIRRORED
    assert world.partition().next_offset == 11


def test_the_fence_of_a_return_keeps_the_commits_of_its_entry_waiting() -> None:
    assert FenceReturn("src", ()).writes & CommitWal(WalName(1, 0), 0, []).reads


def test_a_topic_returns_once_its_source_has_all_and_every_gateway_is_there() -> None:
    world = fenced()
    assert world.propose(returns(world)) == "gateway 1 did not answer"
    world.propose(ReachFence(2))
    assert "m-0 ends at 11, and is written back up to 10" in world.propose(returns(world))
    assert "lifted" in world.propose(SwitchTopics(2, ((MIRRORED, (11, 0)),)))
    note(world, 11)
    assert world.propose(returns(world)) == ""
    assert is_mirrored(world)
    assert MIRRORED not in world.state.switches.switched
    assert world.state.switches.fence_of(MIRRORED) is None
    # The source continues, and the topic can be switched again.
    [outcome] = world.write(batch(11, 11, 13), producer=-1)
    assert outcome.refusal is None
    assert world.propose(FenceTopics("src", ((MIRRORED, ""),))) == 3


def test_a_gateway_that_died_is_not_waited_for() -> None:
    world = reversing()
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(2, 2, "key2", "az1", endpoint, "0", 0), writer=0)
    world.propose(FenceReturn("src", ("m",)))
    world.propose(ReachFence(2))
    note(world, 11)
    assert world.propose(returns(world)) == "gateway 2 did not answer"
    world.apply(GatewayExpired(2))
    assert world.propose(returns(world)) == ""


def test_a_newer_epoch_of_the_source_begins_where_the_topic_returned() -> None:
    world = fenced()
    world.propose(ReachFence(2))
    note(world, 11)
    assert world.propose(returns(world, 7)) == ""
    assert world.partition().leader_epoch == 7
    assert world.partition().epoch_at(10) < 7
    assert world.partition().epoch_at(11) == 7


def test_a_source_with_an_older_epoch_cannot_follow() -> None:
    """A restored log begins a new epoch, in which batches of an older epoch would be refused."""
    world = fenced()
    world.propose(ReachFence(2))
    note(world, 11)
    own = world.partition().leader_epoch
    assert "m-0 has leader epoch" in world.propose(returns(world, own - 1))
    assert "m-0 has leader epoch" in world.propose(ReturnTopics(2, ()))
    assert is_mirrored(world)


def transaction(world: World) -> GrowTransaction:
    """Initialise a transactional id; return a proposal that adds partition 0 to its transaction."""
    started = TransactionalIdInitialised("t", 3, 0, -1, -1, 60_000)
    world.apply(started)
    return GrowTransaction("t", 3, 0, partitions=((MIRRORED, 0),))


def test_a_transaction_that_begins_in_the_same_entry_is_seen() -> None:
    world = reversing()
    grows = transaction(world)
    view = world.view()
    assert grows.decide(view).answer is None
    assert "a transaction that includes m" in str(FenceReturn("src", ("m",)).decide(view).answer)


def test_a_lifted_return_leaves_the_topic_here_and_goes_on_writing_back() -> None:
    world = fenced()
    assert world.propose(LiftFence(2, "too slow")) is True
    assert not is_mirrored(world)
    assert reached(world) == (10, 0)
    assert produce(world, 11).refusal is None
    assert "lifted" in world.propose(ReturnTopics(2, ()))
    assert world.state.switches.switched[MIRRORED].problem == "too slow"
    assert world.propose(FenceReturn("src", ("m",))) == 3


def test_a_return_needs_a_link_that_forwards_writes() -> None:
    world = switched()
    world.propose(ReverseTopics("src"))
    assert "forwards no writes" in str(world.propose(FenceReturn("src", ("m",))))


def test_a_topic_that_returns_is_neither_finished_nor_deleted_nor_loses_its_link() -> None:
    world = fenced()
    assert "is going back" in str(world.propose(FinishSwitches("src", ("m",))))
    assert isinstance(world.propose(DeleteTopics([TopicKey("m")]))[0], Refused)
    assert world.propose(RemoveLink("src", deletes_topics=True)) is LinkRefusal.SWITCHING
    assert world.propose(EndReverse("src")) == []
    assert "going back at this moment" in str(world.propose(EndReverse("src", ("m",))))
    assert "going back already" in str(world.propose(ReverseTopics("src")))


def test_a_restored_log_keeps_returning_topics_here_and_writes_nothing_back() -> None:
    world = fenced()
    note(world, 11)
    world.apply(TimelineOpened(1, 5, 0, "r"), writer=0)
    assert not is_mirrored(world)
    left = world.state.switches.switched[MIRRORED]
    assert (left.ends, left.reached) == ((11, 0), ())
    assert left.problem == "the log was restored"
    assert "the log was restored" in str(ReverseTopics("src").decide(world.view()).answer)
