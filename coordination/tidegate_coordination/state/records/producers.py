"""A partition's state of an idempotent producer: its epoch and last five batches."""

from __future__ import annotations

from typing import NamedTuple

KEPT_BATCHES = 5
MAX_SEQUENCE = 2**31 - 1


class KeptBatch(NamedTuple):
    """A batch by which a retry is recognised.  append_time_ms: -1 unless LogAppendTime."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    append_time_ms: int


class ProducerState(NamedTuple):
    """batches: oldest first, at most KEPT_BATCHES, of this epoch; none if it only wrote a marker.

    last_write_ms: log time.
    """

    epoch: int
    batches: tuple[KeptBatch, ...]
    last_write_ms: int

    def expected_sequence(self) -> int:
        """Return the first sequence the next batch must have (KIP-98; wraps at 2^31 - 1)."""
        if not self.batches:  # an epoch that has only written a transaction's marker
            return 0
        last = self.batches[-1].last_sequence
        return 0 if last == MAX_SEQUENCE else last + 1

    def duplicate_of(self, first_sequence: int, last_sequence: int) -> KeptBatch | None:
        """Return the kept batch that a retry with these sequences repeats."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def has_forgotten(self, first_sequence: int, last_sequence: int) -> bool:
        """Return whether a batch with these sequences lies before all kept batches.

        If the producer began at zero, such a batch was accepted, because each batch follows the one
        before it.  Near the wrap of sequence numbers, such a batch cannot be distinguished from a
        batch far ahead, and counts as the latter.
        """
        if len(self.batches) < KEPT_BATCHES:
            return False
        oldest, newest = self.batches[0].first_sequence, self.batches[-1].last_sequence
        return first_sequence <= last_sequence < oldest <= newest


def with_marker(state: ProducerState | None, epoch: int, written_ms: int) -> ProducerState:
    """Return the producer's state after the marker of its transaction, of this or a later epoch."""
    kept = state.batches if state is not None and state.epoch == epoch else ()
    return ProducerState(epoch, kept, written_ms)


def with_batch(
    state: ProducerState | None, epoch: int, batch: KeptBatch, written_ms: int
) -> ProducerState:
    """Return the producer's state after an accepted batch."""
    kept = state.batches if state is not None and state.epoch == epoch else ()
    return ProducerState(epoch, (*kept, batch)[-KEPT_BATCHES:], written_ms)
