"""A leader's memory of the producers of one partition (KIP-98).  Pure.

Of each producer id: its epoch, its last five batches, its open transaction.  Of the partition: the
transactions that are open or whose marker lies above the high watermark, which hold back the last
stable offset, and the aborted ones, which a reader of committed records needs to know.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate_protocol.batches import BatchHeader, last_sequence
from tidegate_protocol.error_codes import ErrorCode

from ..refusals import Refused

REMEMBERED_BATCHES: Final = 5
NO_EPOCH: Final = -1
_MAX_SEQUENCE: Final = 2**31 - 1


class WrittenBatch(NamedTuple):
    """A remembered batch, by which the leader recognises a repeat."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class AbortedTransaction(NamedTuple):
    """last_offset: that of the marker.  stable_offset: the last stable offset after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


@dataclass(slots=True)
class ProducerState:
    """One producer id.

    transaction_start: the first offset of its open transaction, or None.  markers: their number.
    """

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_start: int | None = None
    markers: int = 0
    batches: deque[WrittenBatch] = field(
        default_factory=lambda: deque[WrittenBatch](maxlen=REMEMBERED_BATCHES)
    )

    @property
    def last_sequence(self) -> int:
        """The last sequence; -1 if no batch of this epoch is remembered."""
        return self.batches[-1].last_sequence if self.batches else -1

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; a new epoch starts without remembered batches."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerStates:
    """All producers of a partition."""

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []
        self._ended_above_watermark: list[tuple[int, int]] = []  # first offset, marker's offset

    def clear(self) -> None:
        """Forget everything, before the log is replayed."""
        self.by_id.clear()
        self.aborted.clear()
        self._ended_above_watermark.clear()

    @property
    def open_transactions(self) -> list[ProducerState]:
        """The producers with an open transaction, the oldest transaction first."""
        found = [each for each in self.by_id.values() if each.transaction_start is not None]
        return sorted(found, key=_start_of)

    def first_unstable_offset(self) -> int | None:
        """Return where the first transaction begins that is open, or lacks a replicated marker."""
        starts = [first for first, _ in self._ended_above_watermark]
        starts += [_start_of(each) for each in self.open_transactions[:1]]
        return min(starts, default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the ended transactions whose marker is replicated."""
        self._ended_above_watermark = [
            each for each in self._ended_above_watermark if each[1] >= high_watermark
        ]

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has an open transaction of this epoch."""
        state = self.by_id.get(producer_id)
        return state is not None and state.epoch == epoch and state.transaction_start is not None

    def guard(self, producer_id: int) -> int:
        """Return a number that changes when a transaction of the producer ends."""
        state = self.by_id.get(producer_id)
        return state.markers if state is not None else 0

    # -- data batches -----------------------------------------------------------------------------

    def duplicate_of(self, header: BatchHeader) -> WrittenBatch | None:
        """Return the remembered batch that this one repeats."""
        state = self.by_id.get(header.producer_id)
        if state is None or state.epoch != header.producer_epoch:
            return None
        wanted = header.base_sequence, _last_sequence(header)
        return next((each for each in state.batches if each[:2] == wanted), None)

    def check(self, header: BatchHeader, *, is_verified: bool, starts_at_zero: bool) -> None:
        """Check a client's batch that is no repeat.

        is_verified: the transaction's coordinator knows that this partition takes part.
        starts_at_zero: a transactional producer without batches here must begin with sequence 0,
        as since Produce 12; else it may begin anywhere, like an idempotent one.

        Raises:
          Refused: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        state = self.by_id.get(header.producer_id) or ProducerState(header.producer_id)
        if header.producer_epoch < state.epoch:
            message = f"epoch {header.producer_epoch} is below {state.epoch}"
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        is_open = state.transaction_start is not None and state.epoch == header.producer_epoch
        if header.is_transactional and not is_open:
            if not is_verified:
                raise Refused(ErrorCode.INVALID_TXN_STATE, "not part of an ongoing transaction")
            if starts_at_zero and not state.batches and header.base_sequence:
                raise _out_of_order(header.base_sequence, "nothing")
        _check_sequence(state, header)
        if state.transaction_start is not None and not header.is_transactional:
            message = "a batch outside the producer's open transaction"
            raise Refused(ErrorCode.INVALID_TXN_STATE, message)

    def add(self, header: BatchHeader) -> None:
        """Take a data batch that was appended; the header has its final offsets."""
        state = self.by_id.setdefault(header.producer_id, ProducerState(header.producer_id))
        state.set_epoch(header.producer_epoch)
        written = WrittenBatch(
            header.base_sequence,
            _last_sequence(header),
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        state.batches.append(written)
        state.last_timestamp_ms = header.max_timestamp
        if header.is_transactional and state.transaction_start is None:
            state.transaction_start = header.base_offset

    # -- markers ----------------------------------------------------------------------------------

    def check_marker(self, producer_id: int, producer_epoch: int) -> None:
        """Check a marker that ends a transaction.

        Raises:
          Refused: INVALID_PRODUCER_EPOCH; the producer has a newer epoch.
        """
        state = self.by_id.get(producer_id)
        if state is not None and producer_epoch < state.epoch:
            message = f"a marker of epoch {producer_epoch}, the producer has {state.epoch}"
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, message)

    def add_marker(self, header: BatchHeader, *, committed: bool) -> None:
        """Take a marker that was appended.  Without an open transaction it changes the epoch."""
        state = self.by_id.setdefault(header.producer_id, ProducerState(header.producer_id))
        state.set_epoch(header.producer_epoch)
        state.coordinator_epoch = 0
        state.markers += 1
        state.last_timestamp_ms = header.max_timestamp
        start, state.transaction_start = state.transaction_start, None
        if start is None:
            return
        marker = header.base_offset
        self._ended_above_watermark.append((start, marker))
        if not committed:
            still_open = self.open_transactions
            stable = _start_of(still_open[0]) if still_open else marker + 1
            self.aborted.append(AbortedTransaction(header.producer_id, start, marker, stable))

    def aborted_between(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read from first_offset to end_offset meets."""
        found: list[AbortedTransaction] = []
        for each in self.aborted:
            if each.last_offset >= first_offset and each.first_offset < end_offset:
                found.append(each)
            if each.stable_offset >= end_offset:
                break
        return found


def _start_of(state: ProducerState) -> int:
    return -1 if state.transaction_start is None else state.transaction_start


def _last_sequence(header: BatchHeader) -> int:
    return last_sequence(header.base_sequence, header.last_offset_delta + 1)


def _check_sequence(state: ProducerState, header: BatchHeader) -> None:
    """Check that a new epoch begins with sequence 0, and that other batches have the next sequence.

    The sequence after 2^31 - 1 is 0.  A producer without a known epoch may begin with any sequence.
    """
    first = header.base_sequence
    if header.producer_epoch != state.epoch:
        is_next = first == 0 or state.epoch == NO_EPOCH
    else:
        last = state.last_sequence
        is_next = first == last + 1 or (first == 0 and last == _MAX_SEQUENCE)
    if not is_next:
        raise _out_of_order(first, state.last_sequence)


def _out_of_order(sequence: int, after: object) -> Refused:
    return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence} after {after}")
