"""Each cluster gives out producer ids of its own range, and counts no other ids."""

from __future__ import annotations

from random import Random

import pytest

from tests.state.test_limits import gateway_on
from tests.worlds.near_limits import moved_up
from tidegate_coordination.backup.salvage_rules import PRODUCER_ID_GAP, EndSalvage, SequenceIndex
from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import restores as rev
from tidegate_coordination.events.entries import ENTRY_FORMAT, Entry
from tidegate_coordination.events.metadata_versions import NEWEST, OWN_PRODUCER_IDS
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.proposal import Decided, Proposal, View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.columns import MAX_INT64
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.producer_ids import (
    FIRST_IDS,
    ProducerIdTable,
    drawn_first_id,
)

TOPIC = b"t" * 16
RANGE = 1 << 40


class Cluster:
    """A cluster of one gateway, without a log."""

    def __init__(self, cluster_id: str = "c" * 22, version: int = NEWEST) -> None:
        self.state = ClusterState()
        self.writer = 0
        register = Register(1, "k", "az", (), "0", cluster_id, highest_version=version)
        self.writer = self.do(register)
        self.do(CreateTopics([NewTopic(TOPIC, "t")]))

    def do(self, proposal: Proposal[object]) -> int:
        decided: Decided[object] = proposal.decide(
            View(self.state, self.writer, 1_000_000, self.state.log_time_ms)
        )
        self.apply(*decided.events)
        return decided.answer if isinstance(decided.answer, int) else 0

    def apply(self, *events: ev.Event) -> None:
        entry = Entry(ENTRY_FORMAT, b"", self.writer, 1_000_000, tuple(events))
        self.state.apply(self.state.position + 1, entry)

    def write(self, counter: int, producer: int) -> None:
        facts = BatchFacts(TOPIC, 0, 60, 100, 1, 1, 7, producer, 0, 0, 0)
        self.do(CommitWal(WalName(1, counter), 99, [facts]))


def test_a_new_cluster_draws_its_range() -> None:
    rng = Random(1)
    drawn = {drawn_first_id(rng.randbytes(16).hex()) for _ in range(1000)}
    assert len(drawn) > 990
    assert all(each in FIRST_IDS and each for each in drawn)
    assert FIRST_IDS[-1] + RANGE < MAX_INT64
    one = Cluster()
    first = one.do(ReserveProducerIds(1000))
    assert first == drawn_first_id("c" * 22)
    assert first in one.state.producer_ids.own
    again = ClusterState.decode(one.state.encode())
    assert again.producer_ids.own == one.state.producer_ids.own == range(first, first + RANGE)


def test_a_range_of_an_older_level_stays_at_zero() -> None:
    one = Cluster(version=OWN_PRODUCER_IDS - 1)
    one.apply(ev.MetadataVersionSet(NEWEST))
    assert one.do(ReserveProducerIds(1000)) == 0
    assert one.state.producer_ids.own == range(RANGE)


async def test_the_range_ends_with_a_sentence() -> None:
    cluster = Cluster()
    end = cluster.state.producer_ids.own.stop
    state = moved_up(cluster.state, next_producer_id=end - 1001)
    async with gateway_on(state) as one:
        assert await one.propose(ReserveProducerIds(1000)) == end - 1001
        with pytest.raises(ProposalFailed, match="producer ids have run out"):
            await one.propose(ReserveProducerIds(1000))


@pytest.mark.parametrize("version", [OWN_PRODUCER_IDS - 1, NEWEST])
@pytest.mark.parametrize("made_up", [MAX_INT64, RANGE * 5 + 7, 12])
def test_a_made_up_id_moves_nothing(version: int, made_up: int) -> None:
    """Such an id once made a restored cluster assign ids that no answer can hold."""
    cluster = Cluster(version=version)
    given = cluster.do(ReserveProducerIds(1000)) + 999
    before = cluster.state.producer_ids.own
    cluster.write(0, given)
    cluster.write(1, made_up)
    ids = cluster.state.producer_ids
    first = ids.next_id + PRODUCER_ID_GAP
    cluster.writer = 0
    cluster.apply(rev.TimelineOpened(2, 100_002, first, "r"))
    highest = cluster.state.partitions.highest_producer_id(ids.was_given)
    assert highest == (given if made_up >= RANGE or made_up not in before else max(given, made_up))
    cluster.do(EndSalvage("r", MAX_INT64 + PRODUCER_ID_GAP))  # whatever bound the proposal gives
    assert ids.own == before
    assert first <= ids.next_id <= first + PRODUCER_ID_GAP


def test_salvage_counts_only_ids_that_were_given_out() -> None:
    table = ProducerIdTable()
    table.fold_begun(RANGE * 3)
    table.fold_skipped(RANGE * 3 + 500)
    index = SequenceIndex(table.was_given)
    for producer in (5, RANGE * 3 + 499, RANGE * 3 + 500, RANGE * 4, MAX_INT64):
        index.add(1, [BatchFacts(TOPIC, 0, 0, 1, 1, 1, 1, producer, 0, 0, 0)])
    assert index.next_producer_id == RANGE * 3 + 500
