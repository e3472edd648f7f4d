"""The layout of copies of the metadata log in the object store: names and bytes.  Pure.

    <cluster id>/<timeline>/backup/snapshots/<position>-<digest>/part-<number>
    <cluster id>/<timeline>/backup/snapshots/<position>-<digest>/whole.json
    <cluster id>/<timeline>/backup/entries/<first>-<last>-<digest>

Positions have 20 digits, so key order is order in the log.  A name holds the positions and a digest
of the content, so gateways that copy at the same time write the same objects, or equivalent ones.
No leader is needed, and no object is ever overwritten.

A part is a sequence of (length u32, chunk of the snapshot).  `whole.json` holds the digest of each
part and is written last: a snapshot without it does not count.  An entries object, big-endian, is:

    magic 8 | version u16 | per entry: position u64, length u32, CRC-32C of the payload u32, payload

Its name holds its SHA-256, cut to 16 characters, so that no byte can change unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import inf
from struct import Struct, error
from typing import Final, NamedTuple

import crc32c
import msgspec

from ..log.metadata_log import LogEntry

MAGIC: Final = b"TIDELOG\n"
VERSION: Final = 1
DIGEST_CHARACTERS: Final = 16
WHOLE: Final = "whole.json"
_HEAD: Final = Struct(">8sH")
_ENTRY: Final = Struct(">QII")
_LENGTH: Final = Struct(">I")


class DamagedCopy(Exception):
    """A copy is damaged.  Use another copy, or none; the text is for the operator."""


class SnapshotName(NamedTuple):
    """Names a snapshot of the entries up to `position`; sorts by `position`."""

    position: int
    digest: str


class EntriesName(NamedTuple):
    """Names a stretch of entries, both ends included; sorts by the first position."""

    first: int
    last: int
    digest: str


class WholeSnapshot(msgspec.Struct, frozen=True):
    """The content of `whole.json`; parts: (size in bytes, digest) of each.

    first_needed: position of the oldest entry that holds bytes of records, which the snapshot
    lacks; 0 if there is none.
    """

    version: int
    position: int
    parts: tuple[tuple[int, str], ...]
    first_needed: int = 0


def digest_of(body: bytes) -> str:
    """Return the digest of a body, as names hold it."""
    return sha256(body).hexdigest()[:DIGEST_CHARACTERS]


def snapshot_digest(parts: Iterable[tuple[int, str]]) -> str:
    """Return the digest of a snapshot's parts, as its name holds it."""
    return digest_of("".join(digest for _, digest in parts).encode())


def snapshots_prefix(backup_prefix: str) -> str:
    """Return where snapshots lie."""
    return f"{backup_prefix}snapshots/"


def entries_prefix(backup_prefix: str) -> str:
    """Return where entries lie."""
    return f"{backup_prefix}entries/"


def snapshot_folder(backup_prefix: str, name: SnapshotName) -> str:
    """Return the prefix of a snapshot's parts."""
    return f"{snapshots_prefix(backup_prefix)}{name.position:020}-{name.digest}/"


def part_key(folder: str, number: int) -> str:
    """Return the key of a part."""
    return f"{folder}part-{number:06}"


def entries_key(backup_prefix: str, name: EntriesName) -> str:
    """Return the key of a stretch of entries."""
    return f"{entries_prefix(backup_prefix)}{name.first:020}-{name.last:020}-{name.digest}"


def parse_snapshot_key(backup_prefix: str, key: str) -> tuple[SnapshotName, bool] | None:
    """Return the snapshot that a key belongs to, and whether the key says that it is whole.

    None: not a name of ours.
    """
    folder, _, file = key.removeprefix(snapshots_prefix(backup_prefix)).partition("/")
    position, _, digest = folder.partition("-")
    if not (position.isdecimal() and digest and file):
        return None
    return SnapshotName(int(position), digest), file == WHOLE


def parse_entries_key(backup_prefix: str, key: str) -> EntriesName | None:
    """Return the name in a key of entries_key(); None if the key has another form."""
    first, _, rest = key.removeprefix(entries_prefix(backup_prefix)).partition("-")
    last, _, digest = rest.partition("-")
    if not (first.isdecimal() and last.isdecimal() and digest):
        return None
    return EntriesName(int(first), int(last), digest)


def encode_entries(entries: Sequence[LogEntry]) -> bytes:
    """Return the body of an entries object."""
    parts = [_HEAD.pack(MAGIC, VERSION)]
    for position, payload in entries:
        parts += [_ENTRY.pack(position, len(payload), crc32c.crc32c(payload)), payload]
    return b"".join(parts)


def decode_entries(name: EntriesName, body: bytes) -> list[LogEntry]:
    """Inverse of encode_entries().

    Raises:
      DamagedCopy: the body does not match its name.
    """
    what = f"the copy of entries {name.first} to {name.last}"
    if digest_of(body) != name.digest:
        raise DamagedCopy(f"{what} fails its checksum")
    try:
        entries = list(_entries(body, what))
    except error:
        raise DamagedCopy(f"{what} is cut short") from None
    if [each.position for each in entries] != list(range(name.first, name.last + 1)):
        raise DamagedCopy(f"{what} holds others")
    return entries


def _entries(body: bytes, what: str) -> Iterator[LogEntry]:
    magic, version = _HEAD.unpack_from(body)
    if magic != MAGIC or version != VERSION:
        raise DamagedCopy(f"{what} has format {version}; this release reads {VERSION}")
    at = _HEAD.size
    while at < len(body):
        position, length, crc = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        payload = body[at : at + length]
        if len(payload) != length or crc32c.crc32c(payload) != crc:
            raise DamagedCopy(f"{what}: entry {position} fails its checksum")
        yield LogEntry(position, payload)
        at += length


def join_chunks(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield parts that hold the chunks, in order; a chunk larger than max_bytes gets its own."""
    waiting: list[bytes] = []
    size_bytes = 0
    for chunk in chunks:
        if waiting and size_bytes + len(chunk) > max_bytes:
            yield b"".join(waiting)
            waiting, size_bytes = [], 0
        waiting += [_LENGTH.pack(len(chunk)), chunk]
        size_bytes += len(chunk)
    if waiting:
        yield b"".join(waiting)


def split_chunks(part: bytes) -> Iterator[bytes]:
    """Yield the chunks of a part.

    Raises:
      DamagedCopy: the part ends in the middle of a chunk.
    """
    at = 0
    while at < len(part):
        if at + _LENGTH.size > len(part):
            raise DamagedCopy("a part of a snapshot is cut short")
        (length,) = _LENGTH.unpack_from(part, at)
        at += _LENGTH.size
        if at + length > len(part):
            raise DamagedCopy("a part of a snapshot is cut short")
        yield part[at : at + length]
        at += length


def chain(names: Iterable[EntriesName], after: int) -> list[EntriesName]:
    """Choose stretches that together hold the entries from `after` + 1 on, without a gap."""
    chosen: list[EntriesName] = []
    reached = after
    best: EntriesName | None = None
    for name in sorted(names):
        if name.first > reached + 1:
            if best is None:
                break
            chosen.append(best)
            reached, best = best.last, None
            if name.first > reached + 1:
                break
        if name.last > reached and (best is None or name.last > best.last):
            best = name
    return [*chosen, best] if best is not None else chosen


def kept(snapshots: Sequence[SnapshotName], keep: int) -> list[SnapshotName]:
    """Return the snapshots at the newest `keep` positions; none if there are fewer.

    snapshots: only those that are whole.
    """
    positions = sorted({each.position for each in snapshots})
    if len(positions) < keep:
        return []
    return [each for each in snapshots if each.position >= positions[-keep]]


def obsolete(
    snapshots: Sequence[SnapshotName],
    entries: Iterable[EntriesName],
    keep: int,
    first_needed: float = inf,
) -> tuple[list[SnapshotName], list[EntriesName]]:
    """Return the copies to delete if the newest `keep` whole snapshots stay, and the entries above
    them.

    snapshots: only those that are whole.  first_needed: an entry from which on all stay, too.
    """
    stay = kept(snapshots, keep)
    if not stay:
        return [], []
    oldest_kept = min(each.position for each in stay)
    return (
        [each for each in snapshots if each.position < oldest_kept],
        [each for each in entries if each.last < min(oldest_kept + 1, first_needed)],
    )
