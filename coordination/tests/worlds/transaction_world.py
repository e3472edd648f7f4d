"""A state with transactions, and entries put through it as the coordinator does."""

from __future__ import annotations

from typing import Any

from tidegate_coordination.events.cluster import (
    ClaimTaken,
    Endpoint,
    Event,
    GatewayRegistered,
    MetadataVersionSet,
    TopicCreated,
)
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import FIRST, NEWEST
from tidegate_coordination.events.transactions import TransactionalIdInitialised
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, OffsetToCommit
from tidegate_coordination.rules.proposal import Proposal, View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD, TRANSACTIONAL
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.transactions.ending import EndAnswer, EndTransaction
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.staging import StageOffsets
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.transactions.rows import TransactionalId

TOPIC = b"t" * 16
GROUP = "g"
FIRST_ID = 1_000
NEW = TRANSACTIONAL | MAY_ADD
OLD = TRANSACTIONAL


class TransactionWorld:
    """See the module's head.  Every event is tried as the coordinator tries it."""

    def __init__(self, version: int = NEWEST) -> None:
        self.state = ClusterState()
        self.clock_ms = 1_000_000
        self.writer = 1
        self.position = 0
        self.counter = 0
        self.spare_id = FIRST_ID
        self.apply(
            GatewayRegistered(1, 1, "key", "az1", (Endpoint("PLAINTEXT", "h", 1),), "0", 0),
            *([MetadataVersionSet(version)] if version > FIRST else []),
            writer=0,
        )
        self.apply(TopicCreated(TOPIC, "t", 3, 1, {}), ClaimTaken(f"group/{GROUP}", 1, 1))

    def apply(self, *events: Event, writer: int | None = None) -> None:
        """Append an entry and fold it.  A replica that began with a snapshot must agree, and the
        entry must not change a snapshot under way.
        """
        self.position += 1
        writer = self.writer if writer is None else writer
        encoded = encode_events(events)
        payload = encode_entry(b"n", writer, self.clock_ms, encoded, position=self.position)
        entry = decode_entry(payload, self.position)
        before = self.state.encode()
        replica = ClusterState.decode(before)
        with self.state.frozen() as frozen:
            for each in (self.state, replica):
                each.apply(self.position, entry)
            assert b"".join(frozen.pieces()) == before
        data = self.state.encode()
        assert replica.encode() == data
        assert ClusterState.decode(data).encode() == data

    def view(self) -> View:
        log_time_ms = self.state.log_time_after(self.writer, self.clock_ms)
        return View(self.state, self.writer, self.clock_ms, log_time_ms)

    def propose(self, *proposals: Proposal[Any]) -> list[Any]:
        """Decide proposals for one entry, and fold it."""
        view, trial = self.view(), Trial(self.state)
        events: list[Event] = []
        answers: list[Any] = []
        for each in proposals:
            assert not each.reads & view.written, "it may not share the entry"
            decided = each.decide(view)
            trial.check(decided.events)
            events += decided.events
            answers.append(decided.answer)
            view.written |= each.writes if decided.events else frozenset[str]()
        if events:
            self.apply(*events)
        return answers

    def init(self, name: str = "x", *, expected: tuple[int, int] = (-1, -1)) -> EndAnswer:
        self.spare_id += 1
        proposal = InitialiseTransactionalId(name, 60_000, *expected, self.spare_id)
        [answer] = self.propose(proposal)
        assert isinstance(answer, EndAnswer)
        return answer

    def commit_wal(self, *batches: BatchFacts) -> CommitWal:
        self.counter += 1
        return CommitWal(WalName(self.writer, self.counter - 1), 1_000, batches)

    def write(self, *batches: BatchFacts) -> list[BatchOutcome]:
        [outcomes] = self.propose(self.commit_wal(*batches))
        return list(outcomes)

    def end_proposal(
        self, who: EndAnswer, name: str = "x", *, committed: bool = True, bumps: bool = True
    ) -> EndTransaction:
        row = self.state.transactions.get(name)
        began = row.began if row is not None and row.is_open else -1
        return EndTransaction(
            name, who.producer_id, who.epoch, committed, bumps, began, self.spare_id + 1
        )

    def end(
        self, who: EndAnswer, name: str = "x", *, committed: bool = True, bumps: bool = True
    ) -> EndAnswer:
        [answer] = self.propose(self.end_proposal(who, name, committed=committed, bumps=bumps))
        assert isinstance(answer, EndAnswer)
        return answer

    def grow(self, who: EndAnswer, *partitions: int, groups: tuple[str, ...] = ()) -> Any:
        named = tuple((TOPIC, each) for each in partitions)
        return self.propose(GrowTransaction("x", who.producer_id, who.epoch, named, groups))[0]

    def stage(self, who: EndAnswer, offset: int, *, may_add: bool = True, name: str = "x") -> Any:
        proposal = StageOffsets(
            GROUP, 1, -1, (row(offset),), name, who.producer_id, who.epoch, may_add
        )
        return self.propose(proposal)[0]

    def commit_offset(self, offset: int, *, partition: int = 0) -> None:
        self.propose(CommitOffsets(GROUP, 1, -1, (row(offset, partition),)))

    @property
    def offset(self) -> int | None:
        group = self.state.groups.get(GROUP)
        found = group.offset(TOPIC, 0) if group is not None else None
        return found.offset if found is not None else None

    def id(self, name: str = "x") -> TransactionalId:
        found = self.state.transactions.get(name)
        assert found is not None
        return found

    def partition(self, index: int = 0) -> Partition:
        return self.state.partitions[self.state.topics.get(TOPIC).partition_numbers[index]]

    def set_epoch(self, epoch: int) -> EndAnswer:
        """Give the id a later epoch, as if many transactions had ended."""
        last = self.id()
        event = TransactionalIdInitialised("x", last.producer_id, epoch, -1, -1, last.timeout_ms)
        self.apply(event)
        return EndAnswer(None, last.producer_id, epoch)


def row(offset: int, partition: int = 0) -> OffsetToCommit:
    return OffsetToCommit(TOPIC, partition, offset, -1, "")


def batch(
    who: EndAnswer, sequence: int, partition: int = 0, *, count: int = 1, flags: int = NEW
) -> BatchFacts:
    """A batch; count: its records."""
    last = sequence + count - 1
    return BatchFacts(
        TOPIC,
        partition,
        100 * partition + sequence,
        100,
        count,
        1,
        7,
        who.producer_id,
        who.epoch,
        sequence,
        last,
        flags,
    )
