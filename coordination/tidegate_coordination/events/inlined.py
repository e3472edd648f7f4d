"""Events of small writes, whose bytes travel in the entry that commits them; see decision 49."""

from __future__ import annotations

import msgspec

from .cluster import Event, Run
from .fields import UInt32
from .metadata_versions import INLINED


class BatchesInlined(Event, frozen=True, tag=65):
    """The entry holds the body of the WAL object that the event before this one committed.

    The event before it in the entry is the object's WalCommitted.  The object is not in the store.
    The body is empty if no batch was accepted.
    """

    level = INLINED

    incarnation: int
    counter: int
    body: bytes


class MovedStretch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The runs of a partition in [base_offset, next_offset) give way to runs of a stored object."""

    partition: int
    base_offset: int
    next_offset: int
    runs: tuple[Run, ...]


class InlineMoved(Event, frozen=True, tag=66):
    """A WAL object was stored that holds the batches of inlined objects: its runs replace theirs.

    Stretches do not overlap.  The runs of a stretch follow one another without a gap.
    """

    level = INLINED

    incarnation: int
    counter: int
    size_bytes: UInt32
    stretches: tuple[MovedStretch, ...]
