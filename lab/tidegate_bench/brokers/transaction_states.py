"""A replica of the metadata log with transactional ids, in this process, without a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from tidegate_coordination.coordinator.drafts import Draft
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import Entry, decode_entry, encode_entry, encode_events
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName

TOPIC: Final = b"t" * 16
FIRST_ID: Final = 1_000
START_MS: Final = 1_700_000_000_000
TIMEOUT_MS: Final = 60_000
RECORDS: Final = 16
BATCH_BYTES: Final = 16_384
MAX_ENTRY_BYTES: Final = 1 << 20
_IDS_AN_ENTRY: Final = 1_000
_NONCE: Final = bytes(12)


def name_of(number: int) -> str:
    """Return the name of the number-th transactional id, of 20 bytes."""
    return f"transactional-{number:06}"


class Replica:
    """The state of a cluster with one gateway and one topic."""

    def __init__(self, partitions: int) -> None:
        self.state: Final = ClusterState()
        self.last_entry_bytes = 0
        self._objects = 0
        self.apply(
            ev.ClusterCreated("c" * 22, timeline=1),
            ev.MetadataVersionSet(NEWEST),
            ev.GatewayRegistered(1, 1, "key", "zone", (), "0", 0, highest_version=NEWEST),
            ev.TopicCreated(TOPIC, "transactions", partitions, 1, {}),
            writer=0,
        )

    def entry(self, *events: ev.Event, writer: int = 1) -> Entry:
        """Return the next entry, as it comes from the log."""
        position = self.state.position + 1
        entry_format = LEVELS[self.state.metadata_version].entry_format
        payload = encode_entry(
            _NONCE,
            writer,
            START_MS + position,
            encode_events(events),
            entry_format=entry_format,
            position=position,
        )
        self.last_entry_bytes = len(payload)
        return decode_entry(payload, position)

    def apply(self, *events: ev.Event, writer: int = 1) -> None:
        """Fold one entry."""
        self.state.apply(self.state.position + 1, self.entry(*events, writer=writer))

    def initialise(self, count: int) -> None:
        """Make transactional ids; the number-th one has the producer id FIRST_ID + number."""
        for first in range(0, count, _IDS_AN_ENTRY):
            numbers = range(first, min(count, first + _IDS_AN_ENTRY))
            self.apply(*(_initialised(number) for number in numbers))

    def write(self, producer_id: int, epoch: int, numbers: Sequence[int]) -> None:
        """Begin a transaction in partitions, with one batch in each."""
        offsets = [self.state.partitions[each].next_offset for each in numbers]
        runs = tuple(
            ev.Run(number, place * BATCH_BYTES, BATCH_BYTES, offset, 1, START_MS, 1, 0)
            for place, (number, offset) in enumerate(zip(numbers, offsets, strict=True))
        )
        batches = tuple(
            ev.ProducerBatch(number, producer_id, epoch, 0, 0, offset)
            for number, offset in zip(numbers, offsets, strict=True)
        )
        size_bytes = len(numbers) * BATCH_BYTES
        committed = ev.WalCommitted(1, self.next_object(), size_bytes, runs, batches)
        first = tuple(zip(numbers, offsets, strict=True))
        self.apply(committed, tev.TransactionWritten(producer_id, first))

    def ended(
        self,
        producer_id: int,
        epoch: int,
        numbers: Sequence[int],
        earlier: int = 0,
        *,
        committed: bool,
    ) -> tev.TransactionEnded:
        """Return the end of a transaction, as EndTxn of version 2 ends it.

        earlier: ends of the same partitions before it in the entry.
        """
        partitions = self.state.partitions
        markers = tuple((each, partitions[each].next_offset + earlier) for each in numbers)
        head = (producer_id, committed, epoch + 1, producer_id, epoch + 1)
        return tev.TransactionEnded(*head, markers, START_MS, tev.CAUSE_CLIENT)

    def commit(self, batches: Sequence[BatchFacts]) -> tuple[float, float]:
        """Decide the commit of an object and fold it; return the CPU seconds of both."""
        proposal = CommitWal(
            WalName(1, self.next_object()), BATCH_BYTES * len(batches), list(batches)
        )
        return self.propose(proposal)

    def propose(self, proposal: Proposal[Any]) -> tuple[float, float]:
        """Decide a proposal and fold its entry; return the CPU seconds of both."""
        begun = time.process_time()
        clock_ms = START_MS + self.state.position
        draft: Draft[None] = Draft(
            self.state, 1, clock_ms, max_bytes=MAX_ENTRY_BYTES, may_write=True
        )
        if not draft.add(proposal, None):
            raise RuntimeError("a proposal failed")
        decided = time.process_time()
        position = self.state.position + 1
        payload = encode_entry(_NONCE, 1, clock_ms, draft.events, position=position)
        self.last_entry_bytes = len(payload)
        self.state.apply(position, decode_entry(payload, position))
        return decided - begun, time.process_time() - decided

    def next_object(self) -> int:
        """Return the counter of an object that was not committed yet."""
        self._objects += 1
        return self._objects - 1


def _initialised(number: int) -> tev.TransactionalIdInitialised:
    return tev.TransactionalIdInitialised(name_of(number), FIRST_ID + number, 0, -1, -1, TIMEOUT_MS)
