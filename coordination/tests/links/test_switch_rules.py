"""Switches of mirrored topics: accepted proposals, and the state after the fold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.mirror_world import MIRRORED, OWN, PRODUCER, SOURCE, World, batch, topic
from tidegate_coordination.events.cluster import Endpoint, GatewayExpired, GatewayRegistered
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.events.metadata_versions import LINKS, SWITCHES
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.migration.mirrors import (
    LinkRefusal,
    MirrorTopics,
    RemoveLink,
    SetLink,
)
from tidegate_coordination.rules.migration.switches import (
    MAX_WAVE_PARTITIONS,
    FenceTopics,
    FinishSwitches,
    LiftFence,
    ReachFence,
    ReopenSource,
    SwitchTopics,
)
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.mirrored_batches import TRANSACTIONAL
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import DeleteTopics, Refused, TopicKey
from tidegate_coordination.state.migration.switches import Switched
from tidegate_coordination.state.records.objects import WalName

FENCE = FenceTopics("src", ((MIRRORED, "1048588"),))


def linked() -> World:
    return World(SWITCHES).linked()


def fenced() -> World:
    """Return a world with a fenced topic.

    Its only gateway has answered all batches to the topic, and the copy's partition 0 ends at
    offset 10.
    """
    world = linked()
    world.write(batch(0, 0, 10), producer=PRODUCER, epoch=1)
    assert world.propose(FENCE) == 1
    world.propose(ReachFence(1))
    return world


def ends(*offsets: int) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    return ((MIRRORED, offsets),)


def switched() -> World:
    world = fenced()
    assert world.propose(SwitchTopics(1, ends(10, 0))) == ""
    return world


def epochs(world: World, first: int, second: int) -> tuple[tuple[int, int], ...]:
    """Leader epochs of the source."""
    numbers = world.state.topics.by_id[MIRRORED].partition_numbers
    return tuple(zip(numbers, (first, second), strict=True))


@pytest.mark.parametrize("second", [-1, 0, 4])
def test_a_newer_epoch_of_the_source_begins_where_the_topic_is_switched(second: int) -> None:
    """Since the source elected another leader, it has got no batch."""
    world = fenced()
    assert world.partition().leader_epoch == 0
    version = world.state.topics.by_id[MIRRORED].version
    assert world.propose(SwitchTopics(1, ends(10, 0), epochs=epochs(world, 7, second))) == ""
    assert world.partition().leader_epoch == 7
    assert (world.partition().epoch_at(9), world.partition().epoch_at(10)) == (0, 7)
    assert world.partition(1).leader_epoch == max(second, 0)
    assert world.state.topics.by_id[MIRRORED].version > version


def test_an_older_epoch_of_the_source_changes_nothing() -> None:
    world = linked()
    world.write(batch(0, 0, 10, epoch=5), producer=PRODUCER, epoch=1)
    assert world.propose(FENCE) == 1
    world.propose(ReachFence(1))
    assert world.propose(SwitchTopics(1, ends(10, 0), epochs=epochs(world, 4, -1))) == ""
    assert world.partition().leader_epoch == 5


def produce(world: World, sequence: int) -> BatchOutcome:
    """Write one record of the source's producer as a client would."""
    row = BatchFacts(MIRRORED, 0, 0, 100, 1, 7, 0, PRODUCER, 1, sequence, sequence)
    world.counter += 1
    outcome: BatchOutcome
    [outcome] = world.propose(CommitWal(WalName(1, world.counter - 1), 9, [row]))
    return outcome


# -- fences ----------------------------------------------------------------------------------------


def test_a_fence_is_refused_below_its_level() -> None:
    world = World(LINKS).linked()
    assert "is below 6" in world.propose(FENCE)
    forwarding = SetLink("src", SOURCE, "h:1", (), replaces=True, forwards=True)
    assert world.propose(forwarding) is LinkRefusal.FORWARDS_NOT_YET


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (FenceTopics("other", ((MIRRORED, ""),)), "no such link"),
        (FenceTopics("src", ()), "one at least"),
        (FenceTopics("src", ((MIRRORED, ""), (MIRRORED, ""))), "once"),
        (FenceTopics("src", ((OWN, ""),)), "not mirrored"),
        (FenceTopics("src", ((b"?" * 16, ""),)), "not mirrored"),
        (FenceTopics("src", ((MIRRORED, "1" * 21),)), "no number"),
    ],
)
def test_a_fence_that_makes_no_sense_is_refused(proposal: FenceTopics, reason: str) -> None:
    assert reason in linked().propose(proposal)


def test_a_topic_has_one_fence() -> None:
    world = fenced()
    assert "already" in world.propose(FENCE)


def test_a_topic_with_an_open_transaction_is_not_fenced() -> None:
    world = linked()
    world.write(batch(0, 0, 1, TRANSACTIONAL), producer=PRODUCER)
    assert world.propose(FENCE) == "m-0 has an open transaction"


def test_a_wave_is_bounded() -> None:
    world = linked()
    large = LinkedTopic(b"l" * 16, "large", MAX_WAVE_PARTITIONS, 1, {})
    assert world.propose(MirrorTopics("src", (large,))) == []
    assert "up to" in world.propose(FenceTopics("src", ((MIRRORED, ""), (b"l" * 16, ""))))


def test_the_topics_of_a_fence_do_not_follow_the_fenced_source() -> None:
    world = fenced()
    wanted = topic(2, **{"max.message.bytes": "0"})
    assert world.propose(MirrorTopics("src", (wanted,))) == []
    assert world.state.topics.by_id[MIRRORED].configs == {}


# -- switching -------------------------------------------------------------------------------------


def test_nothing_is_switched_before_each_gateway_has_reached_the_fence() -> None:
    world = linked()
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(2, 2, "key2", "az1", endpoint, "0", 0), writer=0)
    world.propose(FENCE)
    world.propose(ReachFence(1))
    assert world.propose(SwitchTopics(1, ends(0, 0))) == "gateway 2 did not answer"
    world.apply(GatewayExpired(2))
    assert world.propose(SwitchTopics(1, ends(0, 0))) == ""


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (ends(11, 0), "m-0 ends at 11, and its copy at 10"),
        (ends(9, 0), "m-0 ends at 9"),
        (ends(10), "other partitions"),
        (ends(10, 0, 0), "other partitions"),
        ((), "other partitions"),
    ],
)
def test_a_copy_that_is_not_whole_is_not_switched(wrong: Any, reason: str) -> None:
    assert reason in fenced().propose(SwitchTopics(1, wrong))


def test_a_transaction_that_opened_meanwhile_stops_the_switch() -> None:
    world = fenced()
    world.write(batch(10, 10, 11, TRANSACTIONAL), producer=PRODUCER, epoch=1)
    assert "open transaction" in world.propose(SwitchTopics(1, ends(11, 0)))


def test_producers_go_on_where_the_source_ended() -> None:
    world = switched()
    assert produce(world, 5).refusal is not None
    again = produce(world, 10)
    assert (again.refusal, again.base_offset) == (None, 10)
    assert world.state.topics.by_id[MIRRORED].link == ""
    assert world.state.switches.switched[MIRRORED] == Switched("src", "1048588", (10, 0))


def test_a_late_mirror_writes_nothing_after_the_switch() -> None:
    world = switched()
    [late] = world.write(batch(10, 10, 12))
    assert late.refusal is Refusal.MISPLACED
    assert world.partition().next_offset == 10


def test_a_switch_keeps_the_commits_of_its_entry_waiting() -> None:
    writes = SwitchTopics(1, ()).writes
    assert writes & CommitWal(WalName(1, 0), 0, []).reads


def test_a_switched_topic_does_not_come_back_as_a_copy() -> None:
    world = switched()
    assert world.propose(MirrorTopics("src", (topic(3),))) == []
    assert len(world.state.topics.by_id[MIRRORED].partition_numbers) == 2
    [refused] = world.propose(DeleteTopics([TopicKey("m")]))
    assert isinstance(refused, Refused)
    assert "tidegate link finish src" in refused.text
    assert world.propose(FinishSwitches("src")) == ["m"]
    world.propose(DeleteTopics([TopicKey("m")]))
    assert world.propose(MirrorTopics("src", (topic(),))) == []
    assert MIRRORED not in world.state.topics.by_id


# -- lifting ---------------------------------------------------------------------------------------


def test_a_lifted_fence_switches_nothing_and_stands_until_the_source_is_open() -> None:
    world = fenced()
    assert world.propose(LiftFence(1, "too slow")) is True
    assert world.propose(LiftFence(1, "again")) is False
    assert "lifted" in world.propose(SwitchTopics(1, ends(10, 0)))
    assert "already" in world.propose(FENCE)
    world.propose(ReopenSource(1))
    assert world.state.switches.fence_of(MIRRORED) is None
    assert world.propose(FENCE) == 2


def test_a_topic_rests_if_another_gateway_had_its_source_take_writes() -> None:
    """The gateway that lifted the fence may be about to reopen the source, too.

    That would undo the next fence.
    """
    world = fenced()
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(2, 2, "key2", "az1", endpoint, "0", 0), writer=0)
    assert world.propose(LiftFence(1, "too slow")) is True
    view = world.view()
    view.writer = 2
    world.apply(*ReopenSource(1).decide(view).events)
    assert "was given up: wait 60 s" in world.propose(FENCE)


def test_the_fence_of_a_source_is_no_config_of_its_topic() -> None:
    world = linked()
    for value in ("70000", "0"):
        world.propose(MirrorTopics("src", (topic(2, **{"max.message.bytes": value}),)))
    assert world.state.topics.by_id[MIRRORED].configs == {"max.message.bytes": "70000"}


def test_a_switched_fence_is_not_lifted_and_an_open_one_not_forgotten() -> None:
    world = fenced()
    world.propose(ReopenSource(1))
    assert world.state.switches.fence_of(MIRRORED) is not None
    assert switched().propose(LiftFence(1, "late")) is False


# -- the end ---------------------------------------------------------------------------------------


def test_a_link_with_unfinished_switches_is_not_removed() -> None:
    world = fenced()
    assert world.propose(RemoveLink("src", deletes_topics=True)) is LinkRefusal.SWITCHING
    world.propose(LiftFence(1, "the source is gone"))
    assert world.propose(RemoveLink("src", deletes_topics=True)) == ["m"]
    world = switched()
    assert world.propose(RemoveLink("src", deletes_topics=True)) is LinkRefusal.SWITCHED
    assert "was not switched" in world.propose(FinishSwitches("src", ("x",)))
    assert "no such link" in world.propose(FinishSwitches("other"))
    assert world.propose(FinishSwitches("src", ("m",))) == ["m"]
    assert world.propose(FinishSwitches("src")) == []
    assert world.propose(RemoveLink("src")) == []
    assert "m" in world.state.topics.by_name
    assert not world.state.switches.switched


def test_a_restored_log_holds_its_links_until_an_operator_confirms_them() -> None:
    world = fenced()
    world.apply(TimelineOpened(1, 5, 0, "r"), writer=0)
    assert world.state.switches.on_hold == {"src"}
    assert world.state.switches.fences[1].lifted == "the log was restored"
    assert "the log was restored" in str(FENCE.decide(world.view()).answer)
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(5, 1, "key", "az1", endpoint, "0", 0), writer=0)
    again = SetLink("src", SOURCE, "h:1", (".*",), replaces=True)
    world.apply(*again.decide(world.view()).events, writer=5)
    assert not world.state.switches.on_hold
