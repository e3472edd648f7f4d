"""Links and mirrored partitions: accepted proposals, and the state after the fold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.worlds.mirror_world import (
    BATCH_BYTES,
    MIRRORED,
    OWN,
    PRODUCER,
    SOURCE,
    World,
    batch,
    topic,
)
from tidegate_coordination.events.cluster import RUN_FINAL, RunsSkipped, SkippedStretch, SkipsEnded
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.events.metadata_versions import KEPT_SKIPS, LINKS
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.configs import Change, Operation, ResourceChange, SetConfigs
from tidegate_coordination.rules.configs import ConfigRefusal as C
from tidegate_coordination.rules.housekeeping import MoveLogStarts
from tidegate_coordination.rules.migration.mirrors import (
    ANY_END,
    LinkRefusal,
    MirrorTopics,
    PlaceMirrors,
    Placing,
    RemoveLink,
    SetLink,
)
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome, Refusal
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion, DeletionRefusal
from tidegate_coordination.rules.records.mirrored_batches import (
    ABORT,
    COMMIT,
    TRANSACTIONAL,
    MirroredBatch,
)
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import (
    CreatePartitions,
    DeleteTopics,
    Growth,
    Refused,
    TopicKey,
    TopicRefusal,
)
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.state.records.epochs import EpochStart
from tidegate_coordination.state.records.objects import WalName


def refusals(outcomes: Sequence[BatchOutcome]) -> list[Refusal | None]:
    return [each.refusal for each in outcomes]


# -- links -----------------------------------------------------------------------------------------


def test_a_link_is_refused_below_its_level() -> None:
    world = World(LINKS - 1)
    assert world.propose(SetLink("src", SOURCE, "h:1", ())) is LinkRefusal.NOT_YET


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a" * 64, "a b"])
def test_a_link_needs_a_plain_name(name: str) -> None:
    assert World().propose(SetLink(name, SOURCE, "h:1", ())) is LinkRefusal.NAME


def test_a_link_is_replaced_only_on_purpose_and_by_one_to_the_same_source() -> None:
    world = World().linked()
    assert world.propose(SetLink("src", SOURCE, "h:2", ())) is LinkRefusal.EXISTS
    other = SetLink("src", "another", "h:2", (), replaces=True)
    assert world.propose(other) is LinkRefusal.OTHER_SOURCE
    assert world.propose(SetLink("src", SOURCE, "h:2", ("x",), replaces=True)) is None
    assert world.state.links.by_name["src"].bootstrap_servers == "h:2"


def test_a_cluster_does_not_mirror_itself() -> None:
    world = World()
    assert world.propose(SetLink("src", world.state.cluster_id, "h", ())) is LinkRefusal.OWN_CLUSTER


def test_a_link_with_topics_is_removed_with_them_or_not_at_all() -> None:
    world = World().linked()
    assert world.propose(RemoveLink("other")) is LinkRefusal.UNKNOWN
    assert world.propose(RemoveLink("src")) is LinkRefusal.HAS_TOPICS
    assert world.propose(RemoveLink("src", deletes_topics=True)) == ["m"]
    assert MIRRORED not in world.state.topics.by_id
    assert not world.state.links


def test_topics_are_made_as_the_source_has_them_and_follow_it() -> None:
    world = World().linked()
    made = world.state.topics.by_id[MIRRORED]
    assert (made.name, len(made.partition_numbers), made.replication_factor) == ("m", 2, 3)
    wanted = topic(3, **{"retention.ms": "5", "unknown.here": "x"})
    assert world.propose(MirrorTopics("src", (wanted,))) == []
    assert len(made.partition_numbers) == 3
    assert made.configs == {"retention.ms": "5"}
    before = world.position
    assert world.propose(MirrorTopics("src", (wanted,))) == []
    assert world.position == before


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (LinkedTopic(b"n" * 16, "own", 1, 1, {}), "taken"),
        (LinkedTopic(OWN, "x", 1, 1, {}), "topic id"),
        (LinkedTopic(b"n" * 16, "x/y", 1, 1, {}), "x/y"),
        (LinkedTopic(b"n" * 16, "x", 0, 1, {}), "0 partitions"),
        (LinkedTopic(b"n" * 16, "x", 1, 1, {"retention.ms": "?"}), "retention.ms"),
        (topic(1), "fewer partitions"),
    ],
)
def test_a_topic_that_cannot_be_mirrored_is_named_with_the_reason(
    wanted: LinkedTopic, reason: str
) -> None:
    world = World().linked()
    good = LinkedTopic(b"g" * 16, "good", 1, 1, {})
    [refused] = world.propose(MirrorTopics("src", (wanted, good)))
    assert refused.name == wanted.name
    assert reason in refused.text
    assert "good" in world.state.topics.by_name


def test_two_new_topics_of_one_name_are_not_both_made() -> None:
    world = World().linked()
    twice = (LinkedTopic(b"1" * 16, "a.b", 1, 1, {}), LinkedTopic(b"2" * 16, "a_b", 1, 1, {}))
    [refused] = world.propose(MirrorTopics("src", twice))
    assert refused.name == "a_b"


# -- batches ---------------------------------------------------------------------------------------


def test_batches_keep_their_offsets_and_gaps() -> None:
    world = World().linked()
    outcomes = world.write(batch(0, 0, 10), batch(10, 15, 20), batch(20, 20, 21))
    assert [each.base_offset for each in outcomes] == [0, 15, 20]
    partition = world.partition()
    assert (partition.next_offset, len(partition.runs)) == (21, 1)
    run = partition.runs[0]
    assert (run.base_offset, run.next_offset, run.length) == (0, 21, 3 * BATCH_BYTES)
    assert run.flags == RUN_FINAL


def test_a_batch_after_another_end_is_refused_and_so_are_those_behind_it() -> None:
    world = World().linked()
    world.write(batch(0, 0, 10))
    late = world.write(batch(5, 10, 12), batch(12, 12, 13))
    assert refusals(late) == [Refusal.MISPLACED] * 2
    early = world.write(batch(20, 20, 30))
    assert refusals(early) == [Refusal.MISPLACED]
    assert world.partition().next_offset == 10


def test_two_mirrors_write_a_batch_once() -> None:
    world = World().linked()
    twice = world.write_together([[batch(0, 0, 10)], [batch(0, 0, 10), batch(10, 10, 11)]])
    assert [refusals(each) for each in twice] == [[None], [Refusal.MISPLACED, None]]
    assert world.partition().next_offset == 11


@pytest.mark.parametrize(
    "wrong", [batch(0, 5, 5), batch(0, 5, 3), batch(0, 0, 1 << 63), batch(1, 0, 5)]
)
def test_a_batch_that_makes_no_sense_is_refused(wrong: MirroredBatch) -> None:
    world = World().linked()
    assert refusals(world.write(wrong)) == [Refusal.MISPLACED]


def test_a_client_cannot_write_to_a_mirrored_topic() -> None:
    world = World().linked()
    row = World.facts(0, batch(0, 0, 1))
    assert refusals(world.propose(CommitWal(WalName(1, 0), 9, [row]))) == [Refusal.MIRRORED]


def test_a_mirrored_batch_is_not_written_to_another_topic() -> None:
    world = World().linked()
    row = World.facts(0, batch(0, 0, 1))._replace(topic_id=b"x" * 16)
    commit = CommitWal(WalName(1, 0), 9, [row], mirrored={0: batch(0, 0, 1)})
    assert refusals(world.propose(commit)) == [Refusal.MISPLACED]


def test_producers_continue_from_the_source() -> None:
    world = World().linked()
    world.write(*[batch(at, at, at + 1) for at in range(9)], producer=PRODUCER, epoch=3)
    known = world.partition().producers[PRODUCER]
    assert known.epoch == 3
    assert [each.base_offset for each in known.batches] == [4, 5, 6, 7, 8]
    assert known.expected_sequence() == 9


def test_leader_epochs_come_with_the_batches() -> None:
    world = World().linked()
    world.write_together(
        [[batch(0, 0, 5, epoch=4)], [batch(5, 5, 6, epoch=4), batch(6, 6, 9, epoch=7)]]
    )
    assert world.partition().epochs == (EpochStart(4, 0), EpochStart(7, 6))


def test_transactions_of_the_source_are_followed() -> None:
    world = World().linked()
    world.write(batch(0, 0, 2, TRANSACTIONAL), batch(2, 2, 3, TRANSACTIONAL), producer=PRODUCER)
    assert world.partition().last_stable_offset == 0
    world.write(batch(3, 3, 4, TRANSACTIONAL), producer=PRODUCER + 1)
    world.write(batch(4, 4, 5, ABORT), producer=PRODUCER)
    assert world.partition().last_stable_offset == 3
    world.write(batch(5, 5, 6, COMMIT), producer=PRODUCER + 1)
    partition = world.partition()
    assert partition.last_stable_offset == 6
    assert partition.open is None
    assert partition.aborted is not None
    assert [tuple(row) for row in partition.aborted.between(0, 6)] == [(PRODUCER, 0, 4, 3)]


def test_each_aborted_transaction_of_one_object_is_found() -> None:
    """When the fold begins with an end, the partition's next offset may lie beyond that end."""
    world = World().linked()
    steps = [TRANSACTIONAL, ABORT] * 3
    world.write(*[batch(at, at, at + 1, kind) for at, kind in enumerate(steps)], producer=PRODUCER)
    aborted = world.partition().aborted
    assert aborted is not None
    assert [aborted.named(at, at + 1) for at in range(6)] == [
        [(start, PRODUCER)] for start in (0, 0, 2, 2, 4, 4)
    ]


def test_a_marker_of_a_later_epoch_fences_the_producer_of_the_source() -> None:
    world = World().linked()
    world.write(batch(0, 0, 1, TRANSACTIONAL), producer=PRODUCER, epoch=1)
    world.write(batch(1, 1, 2, COMMIT), producer=PRODUCER, epoch=2)
    known = world.partition().producers[PRODUCER]
    assert (known.epoch, known.batches) == (2, ())


# -- bounds ----------------------------------------------------------------------------------------


def place(after: int, log_start: int, next_offset: int) -> PlaceMirrors:
    return PlaceMirrors("src", [Placing(MIRRORED, 0, after, log_start, next_offset)])


def test_an_empty_copy_begins_where_the_source_does() -> None:
    world = World().linked()
    assert world.propose(place(0, 500, 500)) == [True]
    assert refusals(world.write(batch(500, 500, 510))) == [None]
    partition = world.partition()
    assert (partition.log_start, partition.next_offset, len(partition.runs)) == (500, 510, 1)


def test_a_copy_that_the_sources_retention_overtook_begins_anew() -> None:
    world = World().linked()
    world.write(batch(0, 0, 10))
    assert world.propose(place(10, 20, 20)) == [True]
    assert len(world.partition().runs) == 0
    assert refusals(world.write(batch(20, 20, 21))) == [None]


def test_the_end_of_the_source_may_lie_beyond_its_last_batch() -> None:
    world = World().linked()
    world.write(batch(0, 0, 10))
    assert world.propose(place(10, 0, 15)) == [True]
    partition = world.partition()
    assert (partition.log_start, partition.next_offset) == (0, 15)
    assert refusals(world.write(batch(15, 15, 16))) == [None]
    assert [partition.runs[at].next_offset for at in range(2)] == [10, 16]


@pytest.mark.parametrize(("log_start", "aborted"), [(20, []), (0, [(PRODUCER, 0, 19, 20)])])
def test_a_transaction_whose_marker_the_source_has_removed_is_over(
    log_start: int, aborted: list[tuple[int, int, int, int]]
) -> None:
    world = World().linked()
    world.write(batch(0, 0, 10, TRANSACTIONAL), producer=PRODUCER)
    assert world.propose(place(10, log_start, 20)) == [True]
    partition = world.partition()
    assert partition.last_stable_offset == 20
    rows = partition.aborted.between(0, 20) if partition.aborted else []
    assert [tuple(each) for each in rows] == aborted


def test_a_skipped_transaction_whose_marker_the_source_has_removed_is_over() -> None:
    """The transaction is over, but its skipped records may come back."""
    world = World(KEPT_SKIPS).linked()
    world.write(batch(0, 0, 10, TRANSACTIONAL), producer=PRODUCER)
    skipped = (SkippedStretch(world.partition().number, 0, 10),)
    world.apply(RunsSkipped(1, skipped))
    assert world.propose(place(10, 10, 20)) == [True]
    world.apply(SkipsEnded(1, skipped, are_back=True))
    partition = world.partition()
    assert (partition.log_start, len(partition.runs)) == (0, 1)
    assert partition.aborted is not None
    assert partition.aborted.named(0, 10) == [(0, PRODUCER)]


def test_a_log_start_moves_wherever_the_end_is() -> None:
    world = World().linked()
    world.write(batch(0, 0, 10), batch(10, 10, 20))
    assert world.propose(place(ANY_END, 10, -1)) == [True]
    assert (world.partition().log_start, world.partition().next_offset) == (10, 20)
    assert world.propose(place(ANY_END, 10, -1)) == [False]


@pytest.mark.parametrize(
    "wrong", [(9, 0, 12), (10, 0, 9), (10, 13, 12), (ANY_END, 11, -1), (11, 0, 12)]
)
def test_bounds_that_do_not_fit_are_refused(wrong: tuple[int, int, int]) -> None:
    world = World().linked()
    world.write(batch(0, 0, 10))
    assert world.propose(place(*wrong)) == [False]


def test_only_the_links_own_partitions_are_placed() -> None:
    world = World().linked()
    others = [Placing(each, at, 0, 0, 5) for each, at in ((OWN, 0), (b"?" * 16, 0), (MIRRORED, 9))]
    assert world.propose(PlaceMirrors("src", others)) == [False] * 3
    assert world.propose(PlaceMirrors("other", [Placing(MIRRORED, 0, 0, 0, 5)])) == [False]


# -- what only the mirror may do ------------------------------------------------------------------


def test_clients_change_nothing_of_a_mirrored_topic() -> None:
    world = World().linked()
    [deleted] = world.propose(DeleteTopics([TopicKey("m")]))
    [grown] = world.propose(CreatePartitions([Growth("m", 9)]))
    assert isinstance(deleted, Refused)
    assert {deleted.reason, grown.reason} == {TopicRefusal.MIRRORED}
    change = ResourceChange(2, "m", [Change("retention.ms", Operation.SET, "1")])
    [configured] = world.propose(SetConfigs([change]))
    assert configured.reason is C.MIRRORED
    assert world.propose(DeleteRecords([Deletion("m", 0, 0)])) == [DeletionRefusal.MIRRORED]


def test_retention_does_not_cut_a_mirrored_topic() -> None:
    world = World().linked()
    world.write(batch(0, 0, 10))
    world.propose(MoveLogStarts(((world.partition().number, 10),)))
    assert world.partition().log_start == 0


def test_a_mirrored_partition_is_in_no_transaction_of_this_cluster() -> None:
    world = World().linked()
    world.propose(InitialiseTransactionalId("t", 60_000, spare_id=7))
    row = world.state.transactions.get("t")
    assert row is not None
    grow = GrowTransaction("t", row.producer_id, row.epoch, ((MIRRORED, 0),))
    assert world.propose(grow) is TransactionRefusal.MIRRORED


def test_a_restore_opens_no_epoch_in_a_mirrored_partition() -> None:
    world = World().linked()
    world.write(batch(0, 0, 5, epoch=4))
    world.apply(TimelineOpened(2, 50, 1000, "r" * 32), writer=0)
    assert world.partition().epochs == (EpochStart(4, 0),)
    own = world.state.partitions[world.state.topics.by_id[OWN].partition_numbers[0]]
    assert own.leader_epoch > 0
