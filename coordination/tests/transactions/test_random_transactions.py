"""Random steps of clients of both versions, several to an entry, beside a naive model.

The model knows only the answers that clients got.  From that follow the last stable offsets, the
aborted transactions that readers must know, and the offsets that groups have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.worlds.transaction_world import GROUP, NEW, OLD, TOPIC, TransactionWorld, batch, row
from tidegate_coordination.events.cluster import Segment, SegmentsOfPartition, SegmentsPublished
from tidegate_coordination.events.fields import LAST_EPOCH
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, DeleteOffsets
from tidegate_coordination.rules.housekeeping import MoveLogStarts
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.producer_ids import ExpireProducers
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD
from tidegate_coordination.rules.transactions.ending import AbortTimedOut, EndAnswer
from tidegate_coordination.rules.transactions.expiring import ExpireTransactionalIds
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.staging import StageOffsets
from tidegate_coordination.state.records.partitions import Partition

NAMES = ("x", "y", "z")
PARTITIONS = range(3)
NOBODY = EndAnswer(None, -1, -1)
ENTRIES = 100
_UNFIT = (
    Refusal.UNKNOWN_TRANSACTIONAL_ID,
    Refusal.STALE_PRODUCER_EPOCH,
    Refusal.NOT_IN_TRANSACTION,
    Refusal.TRANSACTION_TOO_LARGE,
)

Told = Callable[[Any], None]
Aborted = tuple[int, int, int]
"""Producer id, first offset, offset of the marker."""


@dataclass
class Open:
    """first: by partition; -1 for one without data.  staged: offset and age by partition."""

    first: dict[int, int] = field(default_factory=dict[int, int])
    staged: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])


class Model:
    """The naive model: transactions, ends and offsets as plain dictionaries."""

    def __init__(self) -> None:
        self.present: dict[str, EndAnswer] = {}
        self.open: dict[str, Open] = {}
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.starts = dict.fromkeys(PARTITIONS, 0)
        self.aborted: dict[int, set[Aborted]] = {each: set() for each in PARTITIONS}
        self.offsets: dict[int, tuple[int, int]] = {}
        self._age = 0

    def opened(self, name: str) -> Open:
        return self.open.setdefault(name, Open())

    def age(self) -> int:
        self._age += 1
        return self._age

    def ended(self, name: str, *, committed: bool) -> None:
        """End what is open with a marker in each partition."""
        producer_id = self.present[name].producer_id
        transaction = self.open.pop(name, Open())
        for partition, first in transaction.first.items():
            if first >= 0 and not committed:
                self.aborted[partition].add((producer_id, first, self.ends[partition]))
            self.ends[partition] += 1
        for partition, staged in transaction.staged.items():
            if committed and staged[1] > self.offsets.get(partition, (0, 0))[1]:
                self.offsets[partition] = staged

    def written(self, name: str, batches: Sequence[BatchFacts], answer: Any) -> None:
        outcomes: list[BatchOutcome] = answer
        for each, outcome in zip(batches, outcomes, strict=True):
            index = each.partition
            if each.flags & MAY_ADD and outcome.refusal not in _UNFIT:
                self.opened(name).first.setdefault(index, -1)
            if outcome.refusal is None and outcome.base_offset == self.ends[index]:
                if each.flags and self.opened(name).first.get(index, -1) < 0:
                    self.opened(name).first[index] = outcome.base_offset
                self.ends[index] += each.record_count

    def stable(self, partition: int) -> int:
        firsts = (each.first.get(partition, -1) for each in self.open.values())
        end = self.ends[partition]
        lowest = min((first for first in firsts if first >= 0), default=end)
        return end if lowest == end else max(lowest, self.starts[partition])


class Walk:
    """Steps of clients; some have an old epoch, and some EndTxn was noted long ago."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = TransactionWorld()
        self.model = Model()
        self.indexes: dict[tuple[int, int], set[Aborted]] = {}  # by partition and base offset
        self._known: dict[str, list[EndAnswer]] = {each: [] for each in NAMES}
        self._sequences: dict[tuple[int, int, int], int] = {}
        self._late: list[tuple[Proposal[Any], Told]] = []

    def entry(self) -> None:
        """Put as many steps into one entry as may share it."""
        steps: list[tuple[Proposal[Any], Told]] = []
        written: set[str] = set()
        for _ in range(self.rng.randint(1, 4)):
            step = self._step()
            if step is None or step[0].reads & written:
                break
            written |= step[0].writes
            steps.append(step)
        answers = self.world.propose(*(proposal for proposal, _ in steps))
        for (_, told), answer in zip(steps, answers, strict=True):
            told(answer)
        self.world.clock_ms += self.rng.choice((1, 10, 20_000))

    def _step(self) -> tuple[Proposal[Any], Told] | None:
        name = self.rng.choice(NAMES)
        who = self._who(name)
        draw = self.rng.random()
        if who is NOBODY or draw < 0.08:
            return self._init(name, who)
        if draw < 0.5:
            return self._write(name, who)
        if draw < 0.6:
            return self._grow(name, who)
        if draw < 0.7:
            return self._stage(name, who)
        if draw < 0.75:
            return self._commit_offset()
        if draw < 0.8:
            return self._time_out(name)
        if draw < 0.84:
            return self._delete_records()
        if draw < 0.87:
            return self._expire()
        if draw < 0.89:
            return self._delete_offset()
        return self._end(name, who)

    def _who(self, name: str) -> EndAnswer:
        known = self._known[name]
        if not known:
            return NOBODY
        return self.rng.choice(known[-3:]) if self.rng.random() < 0.2 else known[-1]

    def _spare(self) -> int:
        self.world.spare_id += 1
        return self.world.spare_id

    def _learn(self, name: str, answer: EndAnswer) -> bool:
        """Note the present producer id and epoch; return whether they changed."""
        is_new = answer != self.model.present.get(name)
        self.model.present[name] = answer
        if is_new:
            self._known[name].append(answer)
        return is_new

    def _init(self, name: str, who: EndAnswer) -> tuple[Proposal[Any], Told]:
        names_own = who is not NOBODY and self.rng.random() < 0.5
        expected = (who.producer_id, who.epoch) if names_own else (-1, -1)

        def told(answer: EndAnswer) -> None:
            if answer.refusal is None:
                if name in self.model.open and answer != self.model.present[name]:
                    self.model.ended(name, committed=False)
                self._learn(name, answer)

        return InitialiseTransactionalId(name, 60_000, *expected, self._spare()), told

    def _write(self, name: str, who: EndAnswer) -> tuple[Proposal[Any], Told]:
        flags = self.rng.choice((NEW, NEW, OLD, 0))
        who = who if flags else EndAnswer(None, -1, -1)
        batches = [self._batch(who, index, flags) for index in self.rng.sample(PARTITIONS, 2)]
        return (
            self.world.commit_wal(*batches),
            lambda answer: self._wrote(name, batches, answer),
        )

    def _batch(self, who: EndAnswer, index: int, flags: int) -> BatchFacts:
        sequence = self._sequences.get((who.producer_id, who.epoch, index), 0)
        wrong = self.rng.choice((-1, 2)) if self.rng.random() < 0.1 else 0
        return batch(who, max(sequence + wrong, 0), index, flags=flags)

    def _wrote(self, name: str, batches: Sequence[BatchFacts], answer: Any) -> None:
        for each, outcome in zip(batches, answer, strict=True):
            key = (each.producer_id, each.producer_epoch, each.partition)
            if outcome.refusal is None and each.producer_id >= 0:
                following = each.last_sequence + 1
                self._sequences[key] = max(following, self._sequences.get(key, 0))
        self.model.written(name, batches, answer)

    def _grow(self, name: str, who: EndAnswer) -> tuple[Proposal[Any], Told]:
        indexes = self.rng.sample(PARTITIONS, self.rng.randint(1, 2))

        def told(refusal: Any) -> None:
            if refusal is None:
                for index in indexes:
                    self.model.opened(name).first.setdefault(index, -1)

        places = tuple((TOPIC, index) for index in indexes)
        return GrowTransaction(name, who.producer_id, who.epoch, places), told

    def _stage(self, name: str, who: EndAnswer) -> tuple[Proposal[Any], Told]:
        index, offset, age = self.rng.choice(PARTITIONS), self.rng.randrange(100), self.model.age()

        def told(answer: Any) -> None:
            if answer == [True]:
                self.model.opened(name).staged[index] = (offset, age)

        offsets = (row(offset, index),)
        proposal = StageOffsets(GROUP, 1, -1, offsets, name, who.producer_id, who.epoch, True)
        return proposal, told

    def _commit_offset(self) -> tuple[Proposal[Any], Told]:
        index, offset, age = self.rng.choice(PARTITIONS), self.rng.randrange(100), self.model.age()

        def told(answer: Any) -> None:
            assert answer == [True]
            self.model.offsets[index] = (offset, age)

        return CommitOffsets(GROUP, 1, -1, (row(offset, index),)), told

    def _delete_offset(self) -> tuple[Proposal[Any], Told]:
        index = self.rng.choice(PARTITIONS)

        def told(answer: Any) -> None:
            if answer == [True]:
                self.model.offsets.pop(index, None)
                for each in self.model.open.values():
                    each.staged.pop(index, None)

        return DeleteOffsets(GROUP, ((TOPIC, index),)), told

    def _time_out(self, name: str) -> tuple[Proposal[Any], Told]:
        def told(answer: EndAnswer) -> None:
            if answer.refusal is None:
                self.model.ended(name, committed=False)
                self.model.present[name] = answer  # no client gets it

        return AbortTimedOut(name, self._spare()), told

    def _delete_records(self) -> tuple[Proposal[Any], Told]:
        index = self.rng.choice(PARTITIONS)
        offset = self.rng.randint(self.model.starts[index], self.model.ends[index])

        def told(_answer: Any) -> None:
            self.model.starts[index] = self.world.partition(index).log_start

        return MoveLogStarts(((self.world.partition(index).number, offset),)), told

    def _expire(self) -> tuple[Proposal[Any], Told]:
        """Forget ids that were not used for a while; check() sees that no open transaction is
        forgotten.
        """
        if self.rng.random() < 0.5:
            return ExpireProducers(30_000), lambda _: None
        return ExpireTransactionalIds(30_000), lambda _: None

    def _end(self, name: str, who: EndAnswer) -> tuple[Proposal[Any], Told]:
        committed, bumps = self.rng.random() < 0.6, self.rng.random() < 0.7
        proposal = self.world.end_proposal(who, name, committed=committed, bumps=bumps)
        self._spare()  # the spare id that the proposal took
        meant = self.model.open.get(name)

        def told(answer: EndAnswer) -> None:
            if answer.refusal is None:
                is_retry = bumps and answer == self.model.present[name]
                if name in self.model.open and not is_retry:
                    assert bumps or self.model.open[name] is meant
                    self.model.ended(name, committed=committed)
                self._learn(name, answer)

        if self.rng.random() < 0.1:
            self._late.append((proposal, told))
        if self._late and self.rng.random() < 0.1:
            return self.rng.choice(self._late)
        return proposal, told

    # -- the pipeline ----------------------------------------------------------------------------

    def merge(self) -> None:
        """Put some settled runs of a partition into a segment, with its index."""
        index = self.rng.choice(PARTITIONS)
        partition = self.world.partition(index)
        runs = [partition.runs[at] for at in range(len(partition.runs))]
        settled = [each for each in runs if each.next_offset <= partition.last_stable_offset]
        start = self.rng.randrange(len(settled)) if settled else 0
        parents = settled[start : start + self.rng.randint(1, 5)]
        if not parents:
            return
        base, end = parents[0].base_offset, parents[-1].next_offset
        known = partition.aborted.between(base, end) if partition.aborted else []
        names = {(each.producer_id, each.first, each.last) for each in known}
        for each in parents:
            names |= self.indexes.pop((index, each.base_offset), set())
        self.indexes[index, base] = names
        segment = Segment(self.world.position, 10, 1, 5, base, end, 1, 7)
        event = SegmentsOfPartition(partition.number, base, end, (segment,), 0, 0)
        self.world.apply(SegmentsPublished(1, (event,)))

    # -- what must hold --------------------------------------------------------------------------

    def check(self) -> None:
        for index in PARTITIONS:
            partition = self.world.partition(index)
            assert partition.next_offset == self.model.ends[index]
            assert partition.log_start == self.model.starts[index]
            assert partition.last_stable_offset == self.model.stable(index)
            low = partition.log_start
            for _ in range(4):
                high = partition.last_stable_offset
                start = self.rng.randint(low, max(low, high))
                end = self.rng.randint(start, max(start, high))
                assert self._named(partition, index, start, end) == self._due(index, start, end)
        for name in NAMES:
            is_open = self.world.state.transactions.open_of(name) is not None
            assert is_open == (name in self.model.open)
        group = self.world.state.groups.get(GROUP)
        for index in PARTITIONS:
            found = group.offset(TOPIC, index) if group is not None else None
            offset = found.offset if found is not None else None
            assert offset == self.model.offsets.get(index, (None, 0))[0]
            pending = any(index in each.staged for each in self.model.open.values())
            assert self.world.state.transactions.is_pending(GROUP, (TOPIC, index)) == pending

    def _due(self, index: int, start: int, end: int) -> set[Aborted]:
        """The aborted transactions that concern records in [start, end)."""
        if start == end:
            return set()
        return {each for each in self.model.aborted[index] if each[2] >= start and each[1] < end}

    def _named(self, partition: Partition, index: int, start: int, end: int) -> set[Aborted]:
        """Return the aborted transactions that a fetch finds: in state and segments' indexes."""
        return set(self._found(partition, index, start, end)) if start < end else set()

    def _found(self, partition: Partition, index: int, start: int, end: int) -> Iterator[Aborted]:
        for known in partition.aborted.between(start, end) if partition.aborted else ():
            yield known.producer_id, known.first, known.last
        runs = partition.runs
        for at in range(runs.find(start), len(runs)):
            if runs[at].base_offset < end:
                for each in self.indexes.get((index, runs[at].base_offset), ()):
                    if each[2] >= start and each[1] < end:
                        yield each


@pytest.mark.parametrize("seed", range(20))
def test_random_steps_agree_with_a_naive_model(seed: int) -> None:
    walk = Walk(seed)
    if seed % 3 == 0:  # epochs run out soon
        walk.world.init()
        walk.world.set_epoch(LAST_EPOCH - 3)
    for _ in range(ENTRIES):
        walk.entry()
        if walk.rng.random() < 0.2:
            walk.merge()
        walk.check()
    for name in sorted(walk.model.open):
        walk.model.ended(name, committed=False)
    walk.world.apply(TimelineOpened(2, 100, 10**6, "r"), writer=0)
    walk.check()
