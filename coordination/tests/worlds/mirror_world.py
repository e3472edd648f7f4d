"""A cluster with a link, for tests of the rules: proposals are decided, tried, and folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate_coordination.events.cluster import (
    Endpoint,
    Event,
    GatewayRegistered,
    MetadataVersionSet,
    ProducerIdsReserved,
    TopicCreated,
)
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.events.metadata_versions import LINKS
from tidegate_coordination.rules.migration.mirrors import MirrorTopics, SetLink
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome
from tidegate_coordination.rules.records.mirrored_batches import PLAIN, MirroredBatch
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.partitions import Partition

MIRRORED = b"m" * 16
OWN = b"o" * 16
SOURCE = "source-cluster-id-0000"
PRODUCER = 5 << 40
BATCH_BYTES = 100


class World:
    """A cluster at the level of links, with a link that mirrors topic `m` of two partitions."""

    def __init__(self, version: int = LINKS) -> None:
        self.state = ClusterState()
        self.clock_ms = 1_000_000
        self.position = 0
        self.counter = 0
        self.apply(
            GatewayRegistered(1, 1, "key", "az1", (Endpoint("PLAINTEXT", "h", 1),), "0", 0),
            MetadataVersionSet(version),
            writer=0,
        )
        self.apply(TopicCreated(OWN, "own", 1, 1, {}), ProducerIdsReserved(0, 100))

    def linked(self) -> World:
        assert self.propose(SetLink("src", SOURCE, "h:1", (".*",))) is None
        assert self.propose(MirrorTopics("src", (topic(),))) == []
        return self

    def apply(self, *events: Event, writer: int = 1) -> None:
        Trial(self.state).check(events)
        self.position += 1
        payload = encode_entry(b"n", writer, self.clock_ms, encode_events(events))
        self.state.apply(self.position, decode_entry(payload, self.position))
        assert ClusterState.decode(self.state.encode()).encode() == self.state.encode()

    def view(self) -> View:
        return View(self.state, 1, self.clock_ms, self.state.log_time_after(1, self.clock_ms))

    def propose(self, proposal: Any) -> Any:
        decided = proposal.decide(self.view())
        if decided.events:
            self.apply(*decided.events)
        return decided.answer

    def partition(self, index: int = 0) -> Partition:
        numbers = self.state.topics.by_id[MIRRORED].partition_numbers
        return self.state.partitions[numbers[index]]

    def write(self, *batches: MirroredBatch, **facts: int) -> list[BatchOutcome]:
        """Commit one object; each batch takes BATCH_BYTES."""
        return self.write_together([batches], **facts)[0]

    def write_together(
        self, objects: Sequence[Sequence[MirroredBatch]], **facts: int
    ) -> list[list[BatchOutcome]]:
        """Commit several objects in one entry."""
        view = self.view()
        events: list[Event] = []
        answers: list[list[BatchOutcome]] = []
        for batches in objects:
            decided = self.commit(batches, **facts).decide(view)
            events += decided.events
            answers.append(decided.answer)
        self.apply(*events)
        return answers

    def commit(self, batches: Sequence[MirroredBatch], **facts: int) -> CommitWal:
        rows = [self.facts(at, each, **facts) for at, each in enumerate(batches)]
        mirrored = {row.position: each for row, each in zip(rows, batches, strict=True)}
        self.counter += 1
        return CommitWal(WalName(1, self.counter - 1), 1000, rows, mirrored=mirrored)

    @staticmethod
    def facts(
        at: int, batch: MirroredBatch, *, producer: int = -1, epoch: int = 0, sequence: int = 0
    ) -> BatchFacts:
        count = batch.next_offset - batch.base_offset
        first = sequence + batch.base_offset if producer >= 0 else -1
        place = (MIRRORED, 0, at * BATCH_BYTES, BATCH_BYTES)
        return BatchFacts(*place, count, 7, 0, producer, epoch, first, first + count - 1)


def topic(partitions: int = 2, **configs: str) -> LinkedTopic:
    return LinkedTopic(MIRRORED, "m", partitions, 3, configs)


def batch(after: int, base: int, end: int, kind: int = PLAIN, epoch: int = 0) -> MirroredBatch:
    return MirroredBatch(after, base, end, epoch, kind)
