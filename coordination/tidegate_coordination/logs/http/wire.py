"""The bytes of the `http:` log, for both of its ends; `http-log.openapi.json` describes the calls.

Every request has a name that its client never uses again, and the answer repeats the name. So a
client never accepts an answer that a proxy mixed up, cached or cut. In headers:

    Tidegate-Log      1, the version of the contract
    Tidegate-Request  the request's name, up to 64 characters
    Tidegate-Crc32c   eight hex digits; CRC-32C of these bytes, then of the body
                        in a request   "NAME METHOD TARGET\\n", TARGET from its last /v1/ on
                        in an answer   "NAME STATUS\\n"

Entries follow one another in an answer, big-endian, as

    position u64 | length of payload u32 | crc32c of position and payload u32 | payload
"""

import struct
from collections.abc import Sequence
from typing import Final

import crc32c

from tidegate_coordination.log.metadata_log import LogCorrupt, LogEntry

VERSION: Final = "1"
VERSION_HEADER: Final = "Tidegate-Log"
NAME_HEADER: Final = "Tidegate-Request"
CRC_HEADER: Final = "Tidegate-Crc32c"
MAX_NAME_CHARS: Final = 64

ROOT: Final = "/v1/"
MAX_READ_BYTES: Final = 8 << 20  # of payload, in one answer
MAX_READ_ENTRIES: Final = 1 << 16  # in one answer
MAX_PART_BYTES: Final = 4 << 20  # of a snapshot, in one request or answer
MAX_WAIT_SECONDS: Final = 20.0  # less than the timeout of common proxies

_POSITION: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">QII")
MAX_FRAMING_BYTES: Final = _HEAD.size * MAX_READ_ENTRIES


def request_crc(name: str, method: str, target: str, body: bytes) -> str:
    below = target[target.rfind(ROOT) :] if ROOT in target else target
    return _hex_crc(f"{name} {method} {below}\n", body)


def answer_crc(name: str, status: int, body: bytes) -> str:
    return _hex_crc(f"{name} {status}\n", body)


def body_crc(body: bytes) -> str:
    return f"{crc32c.crc32c(body):08x}"


def _hex_crc(head: str, body: bytes) -> str:
    return f"{crc32c.crc32c(body, crc32c.crc32c(head.encode('latin-1'))):08x}"


def frame_entries(entries: Sequence[LogEntry]) -> bytes:
    parts: list[bytes] = []
    for position, payload in entries:
        parts += (_HEAD.pack(position, len(payload), _entry_crc(position, payload)), payload)
    return b"".join(parts)


def unframe_entries(framed: bytes, from_position: int) -> list[LogEntry]:
    """The reverse of `frame_entries`.

    Raises:
        LogCorrupt: an entry is damaged or cut short, or not the next one from `from_position` on.
    """
    entries: list[LogEntry] = []
    at = 0
    while at < len(framed):
        expected = from_position + len(entries)
        if at + _HEAD.size > len(framed):
            raise LogCorrupt(f"entry {expected} is cut short")
        position, length, crc = _HEAD.unpack_from(framed, at)
        if position != expected:
            raise LogCorrupt(f"the log gave entry {position} where {expected} belongs")
        at += _HEAD.size
        payload = framed[at : at + length]
        if len(payload) != length or _entry_crc(position, payload) != crc:
            raise LogCorrupt(f"entry {position} fails its checksum")
        entries.append(LogEntry(position, payload))
        at += length
    return entries


def _entry_crc(position: int, payload: bytes) -> int:
    return crc32c.crc32c(payload, crc32c.crc32c(_POSITION.pack(position)))
