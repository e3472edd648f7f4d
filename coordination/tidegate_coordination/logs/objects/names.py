"""The layout of a log of objects: names, and the frame around their content.

    format.json                                       which layout this is
    entries/POSITION                                  one entry each; creating it is the append
    boundaries/COUNTDOWN                              one for each rise of the trim boundary
    snapshots/POSITION-NUMBER-NONCE                   head of a complete snapshot, created last
    chunks/POSITION-NUMBER-NONCE/INDEX                its chunks

Numbers have leading zeros, so that lists are in their order. Boundaries count down: the first one
listed is the newest.

Entries and boundaries are framed, big-endian, so that damage and misplacement are detected:

    magic "TdOL" | version u16 | kind u16 | number u64 | payload bytes u32 | crc32c u32 | payload

The number is an entry's position, or which rise of the boundary it is; a boundary's payload is its
position, u64. The CRC covers all before it, and the payload.
"""

import secrets
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import crc32c

from tidegate_coordination.log.metadata_log import LogCorrupt

FORMAT: Final = 1
FORMAT_NAME: Final = "format.json"
ENTRIES: Final = "entries/"
BOUNDARIES: Final = "boundaries/"
SNAPSHOTS: Final = "snapshots/"
CHUNKS: Final = "chunks/"
SNAPSHOTS_KEPT: Final = 2

_MAGIC: Final = b"TdOL"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHQI")
_CRC: Final = struct.Struct(">I")
_POSITION: Final = struct.Struct(">Q")
_PAYLOAD_AT: Final = _HEADER.size + _CRC.size
_COUNTDOWN_FROM: Final = 10**12


class Kind(IntEnum):
    ENTRY = 1
    BOUNDARY = 2


class SnapshotId(NamedTuple):
    """Ordered as in a LIST: of two at one position, the later one has the higher number."""

    position: int
    number: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.position:020}-{self.number:06}-{self.nonce}"


def random_nonce() -> str:
    """Return a text that no other writer was given."""
    return secrets.token_hex(8)


def entry_name(position: int) -> str:
    return f"{ENTRIES}{position:020}"


def boundary_name(rise: int) -> str:
    return f"{BOUNDARIES}{_COUNTDOWN_FROM - rise:012}"


def snapshot_name(snapshot: SnapshotId) -> str:
    return f"{SNAPSHOTS}{snapshot}"


def chunk_name(snapshot: SnapshotId, index: int) -> str:
    return f"{CHUNKS}{snapshot}/{index:06}"


def entry_position(name: str) -> int:
    """The reverse of `entry_name`.

    Raises:
        LogCorrupt: it is the name of something else.
    """
    return _number_in(name, ENTRIES)


def boundary_rise(name: str) -> int:
    """The reverse of `boundary_name`.

    Raises:
        LogCorrupt: it is the name of something else.
    """
    return _COUNTDOWN_FROM - _number_in(name, BOUNDARIES)


def snapshot_id(name: str) -> SnapshotId:
    """The snapshot that an object belongs to, by the name of its head or a chunk.

    Raises:
        LogCorrupt: it is the name of something else.
    """
    parts = name.split("/")[1].split("-")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        raise _foreign(name)
    return SnapshotId(int(parts[0]), int(parts[1]), parts[2])


def oldest_kept(complete: Sequence[SnapshotId]) -> SnapshotId | None:
    """Return the first snapshot to keep: all names that sort before it may be deleted.

    The earlier names are of older snapshots, and of chunks whose save was cut short. Chunks above
    the returned snapshot may be of a save under way.
    """
    newest = sorted(complete)[-SNAPSHOTS_KEPT:]
    return newest[0] if newest else None


def frame(kind: Kind, number: int, payload: bytes) -> bytes:
    header = _HEADER.pack(_MAGIC, _VERSION, kind, number, len(payload))
    crc = crc32c.crc32c(payload, crc32c.crc32c(header))
    return b"".join((header, _CRC.pack(crc), payload))


def unframe(kind: Kind, number: int, framed: bytes) -> bytes:
    """The payload, checked.

    Raises:
        LogCorrupt: damaged, misplaced, or of a version that is not known here.
    """
    what = f"{kind.name.lower()} {number} of the log of objects"
    if len(framed) < _PAYLOAD_AT:
        raise LogCorrupt(f"{what} is cut short")
    header, payload = framed[: _HEADER.size], framed[_PAYLOAD_AT:]
    magic, version, own_kind, own_number, length = _HEADER.unpack(header)
    (crc,) = _CRC.unpack_from(framed, _HEADER.size)
    if length != len(payload) or crc32c.crc32c(payload, crc32c.crc32c(header)) != crc:
        raise LogCorrupt(f"{what} fails its checksum")
    if magic != _MAGIC or own_kind != kind or own_number != number:
        raise LogCorrupt(f"{what} holds something else")
    if version != _VERSION:
        raise LogCorrupt(
            f"{what} has version {version}; this release reads {_VERSION}: start a newer one"
        )
    return payload


def frame_boundary(rise: int, position: int) -> bytes:
    return frame(Kind.BOUNDARY, rise, _POSITION.pack(position))


def unframe_boundary(rise: int, framed: bytes) -> int:
    """The position, checked as by `unframe`."""
    payload = unframe(Kind.BOUNDARY, rise, framed)
    if len(payload) != _POSITION.size:
        raise LogCorrupt(f"boundary {rise} of the log of objects has the wrong size")
    position: int = _POSITION.unpack(payload)[0]
    return position


def _number_in(name: str, folder: str) -> int:
    number = name.removeprefix(folder)
    if not number.isdecimal():
        raise _foreign(name)
    return int(number)


def _foreign(name: str) -> LogCorrupt:
    return LogCorrupt(f"{name} was not written by Tidegate: move it out of the metadata log")
