"""Commits stored WAL objects by one proposal each, and gives each batch its outcome.

If the log refuses the commit of an object as a whole, the gateway abandons the object, by an event
that rules out any later commit.  Then the gateway can refuse the object's batches with a retriable
error, and the object can be deleted as an orphan.

A late object may hold batches of clients that have disconnected, and that send these batches again
to other gateways.  Such batches are left out of the proposal, so that an outage causes few
duplicates.  If no other batches are left, the object is committed without any batch, since an
abandoned id would mean that this gateway cannot reach the store (store_way/marks.py).

A batch may be left out, its outcome may be unknown, or it may be refused so that the client sends
it again.  After this, no later batch of that client is proposed.  The reason: if the log has no
state of a producer, it accepts any first sequence.  It would then refuse the earlier batch for
ever.  In Kafka all batches of a connection have the same outcome, since they go to one leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol, TypeAlias, cast
from weakref import WeakSet

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, Failure, ProposalFailed
from tidegate_coordination.rules.records.batch_outcomes import (
    BatchFacts,
    BatchOutcome,
    Refusal,
    append_time_topics,
)
from tidegate_coordination.rules.records.inlining import CommitInlined
from tidegate_coordination.rules.records.mirrored_batches import MirroredBatch
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.records import BatchHeader, last_sequence
from tidegate_storage.objects.wal import PlacedBatch, SealedWal

from ..upkeep.upkeep import Upkeep
from .produce_times import ObjectTimes
from .wal_counters import WalCounters

_log = structlog.get_logger("tidegate.wal")

_ABANDONED = BatchOutcome(Refusal.ABANDONED, -1, -1, -1)
_CUT_OFF = BatchOutcome(Refusal.CUT_OFF, -1, -1, -1)


COMES_AGAIN: Final = frozenset({Refusal.ABANDONED, Refusal.CUT_OFF, Refusal.LATE_IN_TRANSACTION})
"""Refusals of batches that were not written, which clients send again, after later ones."""

LATE_SECONDS: Final = 5.0
"""An object that is stored within this time commits its batches, though their clients have left."""


class Client(Protocol):
    """The connection of a request."""

    def is_gone(self) -> bool:
        """Return whether the client has closed the connection, which is final."""
        ...


class BatchToken(Protocol):
    """The request that waits for a batch's commit."""

    @property
    def waiting_client(self) -> Client | None:
        """The client that waits for the outcome; None if the batch is written without a client."""
        ...

    def settle(self, outcome: BatchOutcome) -> None:
        """Handle the batch's outcome.  This must not wait and must not raise."""
        ...

    def abort(self) -> None:
        """Close the connection: the outcome is unknown, and later answers must not overtake it."""
        ...

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """Take the batch back, which was not written since its topic began to return to its source.

        This must not wait and must not raise.
        """
        ...


class MirroredToken(BatchToken, Protocol):
    """The mirror that waits for the commit of a batch, which already has its offsets."""

    @property
    def mirrored(self) -> MirroredBatch:
        """The facts of the batch that are not in BatchFacts."""
        ...

    @property
    def is_walked(self) -> bool:
        """Whether its records were walked, so that its header has their largest time stamp."""
        ...


Appended: TypeAlias = tuple[tuple[int, ...], BatchToken]
"""The open object's facts of a batch: BatchFacts from record_count on, and its token."""


OnStored: TypeAlias = Callable[[WalName, str, bytearray], None]
"""Takes the name, the key and the body of a stored object."""


def appended(header: BatchHeader, token: BatchToken, flags: int) -> Appended:
    """Return the open object's facts about a batch.  flags: see BatchFacts."""
    crc, _, _, _, timestamp, producer_id, epoch, base_sequence, record_count = header[4:]
    last = base_sequence if producer_id < 0 else last_sequence(base_sequence, record_count)
    return (record_count, timestamp, crc, producer_id, epoch, base_sequence, last, flags), token


class WalCommits:
    """Commits objects in the order of the calls.  Never waits.

    Args:
      is_append_time, on_stored: see wal_writer.WalWriter.
      walks_records: see wal_writer.WalSettings.
      on_end: called with each object once its batches have outcomes, or these are unknown.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        counters: WalCounters,
        upkeep: Upkeep,
        *,
        is_append_time: Callable[[Topic], bool],
        on_stored: OnStored,
        on_end: Callable[[SealedWal], None],
        walks_records: bool,
    ) -> None:
        self._coordinator = coordinator
        self._counters = counters
        self._upkeep = upkeep
        self._is_append_time = is_append_time
        self._on_stored = on_stored
        self._on_end = on_end
        self._walks_records = walks_records
        self._behind = WeakSet[Client]()
        """Clients of which a batch was left out, or comes again; until they connect again."""

    def commit(
        self,
        wal: SealedWal,
        key: str,
        mirrored: Collection[MirroredToken],
        of_object: ObjectTimes,
        instead: Callable[[], None] | None = None,
    ) -> None:
        """Propose to commit a stored object; the answer settles its batches.

        key: of the object.  mirrored: the tokens of its mirrored batches.
        instead: not None for an object that travels in the log; called if the log does not take it.
        """
        left = self._batches_left(wal, of_object)
        try:
            proposal = self._proposal(wal, mirrored, left)
            # This comes before the proposal: if another gateway decides, waiting fetches may wake
            # before the answer arrives.
            self._on_stored(proposal.name, key, wal.body)
        except Exception as error:
            # The proposal was never made, so the object cannot be committed.
            self._upkeep.note("commit a WAL object", error)
            return self.abandon(wal)

        def deliver(outcomes: list[BatchOutcome] | None) -> None:
            if outcomes is None:
                assert instead is not None, "a stored object needs no room in the log"
                return instead()
            if instead is not None:
                self._counters.inlined_objects += 1
                self._counters.inlined_bytes += len(wal.body)
                self._counters.left_batches += len(left)
            now = self._counters.committed_at = trio.current_time()
            times = self._counters.times
            times.commit.add(now - of_object.stored_at)
            times.remote.add(now - of_object.sealed_at)
            times.of_object = of_object
            self.settle(wal, _with_left(wal, left, outcomes) if left else outcomes)
            times.of_object = None

        def fail(failure: Failure) -> None:
            if not isinstance(failure, ProposalFailed):
                # The outcome is unknown: waiting producers get REQUEST_TIMED_OUT at their deadline.
                _log.error("it is not known whether a WAL object is committed", error=str(failure))
                self._all_behind(wal)
                for token in mirrored:
                    token.abort()
                return self._on_end(wal)
            if instead is not None:
                return instead()
            # The object is not committed; once its id is abandoned, the object can be deleted.
            _log.error("a WAL object could not be committed", error=str(failure))
            self.abandon(wal)

        if instead is not None:
            return self._coordinator.submit(
                CommitInlined.of(proposal, bytes(wal.body)), deliver, fail
            )
        self._counters.left_batches += len(left)
        self._counters.batches += len(wal.batches)
        self._coordinator.submit(proposal, deliver, fail)

    def _batches_left(self, wal: SealedWal, of_object: ObjectTimes) -> frozenset[int]:
        """Return the indices of the batches to leave out.

        Their clients have disconnected, or an earlier batch of theirs was left out or comes again.
        """
        is_late = trio.current_time() - of_object.sealed_at >= LATE_SECONDS
        if not is_late and not self._behind:
            return frozenset()
        clients = _clients(wal)
        if is_late:
            self._behind.update(each for each in set(clients) if each and each.is_gone())
        return frozenset(at for at, each in enumerate(clients) if each in self._behind)

    def _proposal(
        self, wal: SealedWal, mirrored: Collection[MirroredToken], left: frozenset[int]
    ) -> CommitWal:
        facts = [_facts(each) for at, each in enumerate(wal.batches) if at not in left]
        stamped = append_time_topics(self._coordinator.state, facts, self._is_append_time)
        placed = _mirrored(wal, mirrored) if mirrored else {}
        is_walked = self._walks_records and all([each.is_walked for each in mirrored])
        return CommitWal(_name(wal), len(wal.body), facts, stamped, placed, is_walked)

    def abandon(self, wal: SealedWal, *, is_cut_off: bool = False) -> None:
        """Propose an event that rules out the commit of an object, and refuse its batches.

        is_cut_off: only other gateways reach the store, so producers should use these.
        """
        self._all_behind(wal)

        def deliver(abandoned: bool) -> None:
            self.settle(wal, [_CUT_OFF if is_cut_off else _ABANDONED] * len(wal.batches))

        def fail(failure: Failure) -> None:
            deliver(abandoned=False)

        self._coordinator.submit(AbandonWal(_name(wal)), deliver, fail)

    def refuse(self, wal: SealedWal) -> None:
        """Refuse the batches of an object with a retriable error."""
        self.settle(wal, [_ABANDONED] * len(wal.batches))

    def settle(self, wal: SealedWal, outcomes: list[BatchOutcome]) -> None:
        """Give each batch its outcome; outcomes[i] belongs to the object's batch i."""
        self._counters.times.now = trio.current_time()
        for batch, outcome in zip(wal.batches, outcomes, strict=True):
            _, token = cast(Appended, batch.token)
            try:
                if outcome.refusal is None:
                    token.settle(outcome)
                elif outcome.refusal is Refusal.MIRRORED:
                    token.turned_back(batch.topic_id, _bytes_of(wal, batch))
                else:
                    self._note_behind(token, outcome.refusal)
                    token.settle(outcome)
            except Exception as error:  # an error of one client must not affect the others
                self._upkeep.note("answer a client that waits for a commit", error)
                token.abort()
        self._on_end(wal)

    def _all_behind(self, wal: SealedWal) -> None:
        self._behind.update(each for each in _clients(wal) if each)

    def _note_behind(self, token: BatchToken, refusal: Refusal) -> None:
        if refusal in COMES_AGAIN and (client := token.waiting_client):
            self._behind.add(client)


def _clients(wal: SealedWal) -> list[Client | None]:
    """Return the clients of all batches."""
    return [cast(Appended, each.token)[1].waiting_client for each in wal.batches]


def _with_left(
    wal: SealedWal, left: frozenset[int], outcomes: list[BatchOutcome]
) -> list[BatchOutcome]:
    """Return the outcomes of all batches; batches that were left out are refused."""
    rest = iter(outcomes)
    return [_ABANDONED if at in left else next(rest) for at in range(len(wal.batches))]


def _name(wal: SealedWal) -> WalName:
    return WalName(wal.identity.incarnation, wal.identity.counter)


def _bytes_of(wal: SealedWal, batch: PlacedBatch) -> bytes:
    return bytes(memoryview(wal.body)[batch.start_byte : batch.start_byte + batch.size_bytes])


def _mirrored(wal: SealedWal, tokens: Collection[MirroredToken]) -> dict[int, MirroredBatch]:
    """Return the mirrored batches of an object by their first byte."""
    theirs = {id(each) for each in tokens}
    return {
        each.start_byte: cast(MirroredToken, token).mirrored
        for each in wal.batches
        for token in [cast(Appended, each.token)[1]]
        if id(token) in theirs
    }


def _facts(batch: PlacedBatch) -> BatchFacts:
    header_facts, _ = cast(Appended, batch.token)
    return BatchFacts._make(batch[:4] + header_facts)
