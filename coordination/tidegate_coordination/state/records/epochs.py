"""Leader epochs: where in a partition each one began.  Pure.

As in Kafka (KIP-101, KIP-320), a leader epoch names one history of writes, in which a record never
changes its offset.  Tidegate elects no leaders, so epochs change only if offsets are reassigned:
when a log is restored (decision 25).

Most partitions have no history: () is epoch 0 from offset 0 on, and costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple, TypeAlias


class EpochStart(NamedTuple):
    """The first offset of an epoch."""

    epoch: int
    offset: int


Epochs: TypeAlias = tuple[EpochStart, ...]
"""In order; both fields rise.  Offsets before the first are of epoch 0."""

NO_EPOCHS: Final[Epochs] = ()
_BEGINNING: Final = EpochStart(0, 0)


def latest(epochs: Epochs) -> int:
    """Return the present epoch."""
    return epochs[-1].epoch if epochs else 0


def epoch_at(epochs: Epochs, offset: int) -> int:
    """Return the epoch of an offset, even of one that is not written yet."""
    if not epochs:
        return 0
    at = bisect_right(epochs, offset, key=_offset)
    return epochs[at - 1].epoch if at else 0


def with_epoch(epochs: Epochs, epoch: int, offset: int) -> Epochs:
    """Return the history with a new epoch that begins at an offset, the end of the log.

    Epochs without records leave no trace, as in Kafka.
    """
    return (*(each for each in epochs if each.offset < offset), EpochStart(epoch, offset))


def end_of(epochs: Epochs, asked: int, *, log_start: int, next_offset: int) -> EpochStart | None:
    """Return the largest epoch up to the requested one, and the first offset after it.

    This is Kafka's answer to OffsetForLeaderEpoch.  None: the epoch is unknown: negative, or later
    than all.
    """
    if asked < 0 or asked > latest(epochs):
        return None
    if asked == latest(epochs):
        return EpochStart(asked, next_offset)
    starts = _from(epochs, log_start)
    higher = bisect_right(starts, asked, key=_epoch)
    reached = starts[higher - 1].epoch if higher else asked
    return EpochStart(reached, starts[higher].offset)


def _from(epochs: Epochs, log_start: int) -> Epochs:
    """Return the epochs of the remaining offsets, as if the first began at the log start.

    Kafka cuts its history in this way when the log start moves
    (LeaderEpochFileCache.truncateFromStart).  An epoch that ends below the log start would send a
    consumer to a deleted offset.
    """
    starts = epochs if epochs[0].offset == 0 else (_BEGINNING, *epochs)
    first = bisect_right(starts, log_start, key=_offset) - 1
    return (EpochStart(starts[first].epoch, log_start), *starts[first + 1 :])


def _offset(start: EpochStart) -> int:
    return start.offset


def _epoch(start: EpochStart) -> int:
    return start.epoch
