"""What the pipeline has compacted of a partition, and when.  Pure.

A tombstone goes only `delete.retention.ms` after the first round that removed all older records of
its key, so that whoever reads meanwhile learns that the key is gone (Kafka keeps that time in the
batch, KIP-534; here records stay as they are).  Each round is kept as where it ended and when.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

KEPT_CLEANINGS = 8


class Cleaning(NamedTuple):
    """A round that had everything below end_offset before it; log_time_ms: when it was done."""

    end_offset: int
    log_time_ms: int


Cleanings: TypeAlias = tuple[Cleaning, ...]
"""In order; both fields rise."""


def with_cleaning(cleanings: Cleanings, new: Cleaning) -> Cleanings:
    """Add a round.  Of too many, one gives way to the round soon after it: tombstones wait longer,
    by what the two are apart."""
    if len(cleanings) < KEPT_CLEANINGS:
        return (*cleanings, new)
    every = (*cleanings, new)
    gaps = [later.log_time_ms - each.log_time_ms for each, later in pairwise(every)]
    at = gaps.index(min(gaps))
    return every[:at] + every[at + 1 :]


def cleaned_to(cleanings: Cleanings) -> int:
    """Return the first offset that no round has reached."""
    return cleanings[-1].end_offset if cleanings else 0


def cleaned_before(cleanings: Cleanings, before_ms: int) -> int:
    """Return the first offset that no round up to that log time had reached."""
    return max((each.end_offset for each in cleanings if each.log_time_ms <= before_ms), default=0)
