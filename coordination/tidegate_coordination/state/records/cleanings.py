"""The rounds of compaction of a partition, with their times.  Pure.

A tombstone is removed only `delete.retention.ms` after the first round that removed all older
records of its key, so that readers see until then that the key is deleted (Kafka keeps that time in
the batch, KIP-534; here records stay unchanged).  For each round, its end and its time are kept.

Rounds may come every minute and tombstones may have to wait for months, so not all rounds are
kept.  Of the rounds that are old enough for tombstones to be removed, the newest suffices.  Of the
younger rounds, the one that leaves the smallest gap is dropped.  A dropped round makes tombstones
wait longer, by a part of `delete.retention.ms`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

KEPT_CLEANINGS = 12


class Cleaning(NamedTuple):
    """A round that compacted everything below end_offset; log_time_ms: when it was finished."""

    end_offset: int
    log_time_ms: int


Cleanings: TypeAlias = tuple[Cleaning, ...]
"""In order; end offsets rise, and times do not fall."""


def with_cleaning(cleanings: Cleanings, new: Cleaning, retention_ms: int) -> Cleanings:
    """Add a round.  retention_ms: how long tombstones stay after a round that covered them."""
    every = (*cleanings, new)
    ripe = sum(each.log_time_ms <= new.log_time_ms - retention_ms for each in every)
    every = every[max(ripe - 1, 0) :]
    if len(every) <= KEPT_CLEANINGS:
        return every
    gaps = [
        every[at + 1].log_time_ms - every[at - 1].log_time_ms for at in range(1, len(every) - 1)
    ]
    at = gaps.index(min(gaps)) + 1
    return every[:at] + every[at + 1 :]


def cleaned_to(cleanings: Cleanings) -> int:
    """Return the first offset that no round has reached."""
    return cleanings[-1].end_offset if cleanings else 0


def cleaned_before(cleanings: Cleanings, before_ms: int) -> int:
    """Return the first offset that no round up to that log time had reached."""
    return max((each.end_offset for each in cleanings if each.log_time_ms <= before_ms), default=0)


def uncleaned_from(cleanings: Cleanings, offset: int) -> Cleanings:
    """Return the rounds, cut as if none had reached beyond an offset."""
    below = tuple(each for each in cleanings if each.end_offset <= offset)
    beyond = cleanings[len(below) :]
    if not beyond or (below and cleaned_to(below) == offset):
        return below
    return (*below, Cleaning(offset, beyond[0].log_time_ms))
