"""An entry of the metadata log: the events of many proposals, decided together.

Layout (msgpack array): format version, nonce, writer's incarnation, writer's clock in ms, events,
writer's uptime in ms.  The nonce tells a writer whether the entry that holds a position is its own
(an append whose answer was lost is repeated with the same bytes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

import msgspec

from . import events as ev
from . import group_events as gev
from . import log_move_events as lev

ENTRY_FORMAT = 1

AnyEvent = Union[  # noqa: UP007 - msgspec reads the union at run time
    ev.ClusterCreated,
    ev.GatewayRegistered,
    ev.GatewayRenewed,
    ev.GatewayDraining,
    ev.GatewayResumed,
    ev.GatewayDrained,
    ev.GatewayExpired,
    ev.ClaimTaken,
    ev.ClaimReleased,
    ev.TimelineOpened,
    ev.FormerLivesFound,
    ev.SalvageEnded,
    ev.TopicCreated,
    ev.PartitionsAdded,
    ev.TopicDeleted,
    ev.ConfigsSet,
    ev.WalCommitted,
    ev.WalAbandoned,
    ev.LogStartsMoved,
    ev.ObjectsCollected,
    ev.SegmentsPublished,
    ev.PartitionsCleaned,
    ev.PipelineReported,
    ev.RunsSkipped,
    ev.ProducerIdsReserved,
    ev.ProducersExpired,
    ev.Proposed,
    lev.LogMoveBegun,
    lev.LogMoveOffered,
    lev.LogMoveAnswered,
    lev.LogMoved,
    lev.LogMoveCancelled,
    gev.GroupChanged,
    gev.OffsetsCommitted,
    gev.OffsetsDeleted,
    gev.GroupDeleted,
]


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One entry; writer 0 stands for a gateway that is not registered yet.

    clock_ms: the wall clock, which may leap.  uptime_ms: a clock of the writer's own that only runs
    on, from any beginning; -1 where it is not known.
    """

    format: int
    nonce: bytes
    writer: int
    clock_ms: int
    events: tuple[AnyEvent, ...]
    uptime_ms: int = -1


class _Head(msgspec.Struct, array_like=True, frozen=True):
    format: int
    nonce: bytes


class UnreadableEntry(Exception):
    """The entry is damaged or was written by a newer release.  Stop: skipping it would fork."""


# The last for arrays in arrays in arrays, where a field is not looked at.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)
_head_decoder = msgspec.msgpack.Decoder(_Head)


def encode_events(events: Sequence[ev.Event]) -> list[msgspec.Raw]:
    """Encode each event by itself, so that an entry's size is known while it fills."""
    return [msgspec.Raw(_encoder.encode(each)) for each in events]


def encode_entry(
    nonce: bytes,
    writer: int,
    clock_ms: int,
    events: Sequence[msgspec.Raw],
    uptime_ms: int = -1,
) -> bytes:
    """Join encoded events to an entry."""
    return _encoder.encode((ENTRY_FORMAT, nonce, writer, clock_ms, tuple(events), uptime_ms))


def decode_entry(payload: bytes, position: int) -> Entry:
    """Read an entry back.

    Raises:
      UnreadableEntry: with the position, and what to do.
    """
    try:
        head = _head_decoder.decode(payload)
        if head.format != ENTRY_FORMAT:
            raise UnreadableEntry(
                f"metadata log entry {position} has format {head.format}; this release reads"
                f" {ENTRY_FORMAT}. Run a newer release of Tidegate"
            )
        return _decoder.decode(payload)
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(
            f"metadata log entry {position} cannot be read ({error}). It is damaged, or holds an"
            " event of a newer release; run a newer release, or restore the log"
        ) from error


def authored(entry: Entry) -> Iterator[tuple[int, AnyEvent]]:
    """Yield each event with the incarnation whose proposal it comes of."""
    author = entry.writer
    for event in entry.events:
        if isinstance(event, ev.Proposed):
            author = event.incarnation
        yield author, event


def entry_nonce(payload: bytes) -> bytes:
    """Return the nonce of an entry of any format this release or a newer one wrote."""
    try:
        return _head_decoder.decode(payload).nonce
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(f"not an entry of the metadata log: {error}") from error
