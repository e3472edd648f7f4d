"""An entry of the metadata log: the events of many proposals, decided together.

Layout (msgpack array): format version, nonce, writer's incarnation, writer's clock in ms, events,
writer's uptime in ms.  A writer recognises its own entry at a position by the nonce (if the answer
to an append is lost, it repeats the append with the same bytes).

Format 2 ends with one field more, always as a uint 32: the CRC-32C of the entry's position (8
bytes, big-endian) and of all bytes before it, so that a misplaced entry is detected, too.
The cluster's metadata.version decides which format is written; see metadata_versions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, Union

import crc32c
import msgspec

from . import (
    cluster,
    groups,
    inlined,
    links,
    log_moves,
    pipeline,
    restores,
    security,
    transactions,
)
from .cluster import Event, Proposed, WalCommitted

ENTRY_FORMAT: Final = 1
CHECKED_FORMAT: Final = 2
_FORMATS: Final = range(ENTRY_FORMAT, CHECKED_FORMAT + 1)
_CHECK_BYTES: Final = 5
_UINT32: Final = b"\xce"  # the first byte of a four-byte number in msgpack
# The first byte of a msgpack array of seven fields, of which the last is a checksum, or of more.
_CHECKED_SHAPES: Final = range(0x97, 0xA0)

_MODULES: Final = (
    cluster,
    groups,
    inlined,
    links,
    log_moves,
    pipeline,
    restores,
    security,
    transactions,
)
EVENTS: Final[tuple[type[Event], ...]] = tuple(
    kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
    if kind is not Event
)
"""All types of events.  Each class in one of these modules is an event, so no other list names it.
"""
if TYPE_CHECKING:
    AnyEvent: TypeAlias = Event
else:
    AnyEvent = Union[EVENTS]  # noqa: UP007 - msgspec reads the union at run time


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One entry; writer 0 stands for a gateway that is not registered yet.

    clock_ms: the wall clock, which may leap.  uptime_ms: a monotonic clock of the writer, from any
      beginning; -1 if unknown.
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
    """The entry is damaged or was written by a newer release.

    Stop: a replica that skips it would fork.
    """


# RecursionError stands for deeply nested arrays, in fields that are not checked.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.msgpack.Encoder()
_room_for_check = msgspec.Raw(_UINT32 + bytes(4))
_decoder = msgspec.msgpack.Decoder(Entry)
_event_decoder = msgspec.msgpack.Decoder(AnyEvent)
_head_decoder = msgspec.msgpack.Decoder(_Head)


def encode_events(events: Sequence[Event]) -> list[msgspec.Raw]:
    """Encode each event by itself, so that an entry's size is known while it fills."""
    return [msgspec.Raw(_encoder.encode(each)) for each in events]


def check_readable(events: Sequence[Event], encoded: Sequence[msgspec.Raw]) -> None:
    """Check that replicas can read the bytes that encode_events() made of the events.  WAL commits,
    the bulk of all events, are skipped: all their fields are numbers, which their trial checks
    (state/trial/runs.py).

    Raises:
      UnreadableEntry: a field of another type than its class says.
    """
    try:
        for event, data in zip(events, encoded, strict=True):
            if type(event) is not WalCommitted:
                _event_decoder.decode(data)
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(f"an event that no replica could read: {error}") from error


def encode_entry(
    nonce: bytes,
    writer: int,
    clock_ms: int,
    events: Sequence[msgspec.Raw],
    uptime_ms: int = -1,
    *,
    entry_format: int = ENTRY_FORMAT,
    position: int = 0,
) -> bytes:
    """Join encoded events to an entry; an entry with a checksum is valid only at this position."""
    fields = (entry_format, nonce, writer, clock_ms, tuple(events), uptime_ms)
    if entry_format < CHECKED_FORMAT:
        return _encoder.encode(fields)
    body = _encoder.encode((*fields, _room_for_check))[:-_CHECK_BYTES]
    return body + _check_of(body, position)


def _check_of(body: bytes | memoryview, position: int) -> bytes:
    return _UINT32 + crc32c.crc32c(body, crc32c.crc32c(position.to_bytes(8))).to_bytes(4)


def decode_entry(payload: bytes, position: int, formats: range = _FORMATS) -> Entry:
    """Read an entry back; formats: the permitted ones (ClusterState.entry_formats).

    Raises:
      UnreadableEntry: the text gives the position, and what to do.
    """
    try:
        head = _head_decoder.decode(payload)
        if head.format not in formats:
            raise UnreadableEntry(f"metadata log entry {position} {_why_not(head, formats)}")
        if _is_checked(head, payload):
            _check(payload, position)
        return _decoder.decode(payload)
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(
            f"metadata log entry {position} cannot be read ({error}). It is damaged, or holds an"
            " event of a newer release; run a newer release, or restore the log"
        ) from error


def check_entry(payload: bytes, position: int) -> None:
    """Check that an entry with a checksum is whole, and is at the position that it was written for.
    An entry without a checksum passes.

    Raises:
      UnreadableEntry: it is damaged.
    """
    if _is_checked(_head_of(payload, position), payload):
        _check(payload, position)


def _is_checked(head: _Head, payload: bytes) -> bool:
    """Recognise the format by its number and by its shape: the number itself may be damaged."""
    return head.format >= CHECKED_FORMAT or payload[0] in _CHECKED_SHAPES


def _head_of(payload: bytes, position: int) -> _Head:
    try:
        return _head_decoder.decode(payload)
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(
            f"metadata log entry {position} is damaged: it does not begin as one ({error})"
        ) from error


def _why_not(head: _Head, formats: range) -> str:
    if head.format >= formats.stop:
        return (
            f"has format {head.format}; this release reads up to {formats[-1]}."
            " Run a newer release of Tidegate"
        )
    return (
        f"has format {head.format}, and format {formats[0]} or higher was decided on before it."
        " It is damaged: restore the log, or see `tidegate log repair`"
    )


def _check(payload: bytes, position: int) -> None:
    whole = memoryview(payload)
    if _check_of(whole[:-_CHECK_BYTES], position) != payload[-_CHECK_BYTES:]:
        raise UnreadableEntry(
            f"metadata log entry {position} fails its checksum. It is damaged, in the log or on its"
            " way from there: start again, and if it stays, see `tidegate log repair`"
        )


def authored(entry: Entry) -> Iterator[tuple[int, AnyEvent]]:
    """Yield each event with the incarnation that proposed it."""
    author = entry.writer
    for event in entry.events:
        if isinstance(event, Proposed):
            author = event.incarnation
        yield author, event


def entry_nonce(payload: bytes) -> bytes:
    """Return the nonce of an entry of any format of this release or a newer one."""
    try:
        return _head_decoder.decode(payload).nonce
    except _DECODE_ERRORS as error:
        raise UnreadableEntry(f"not an entry of the metadata log: {error}") from error
