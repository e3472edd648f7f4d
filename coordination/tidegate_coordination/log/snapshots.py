"""Snapshots in pieces: the framing that every log stores, and the only safe way to save and trim.

A saved snapshot is a list of framed chunks; the first is the head. Big-endian:

    frame   length of payload u32 | version u16 | index u32 | position u64 | crc32c u32 | payload
    head    index 0, payload = chunks after the head u32 | payload bytes of them u64 | digest u32

The CRC of a frame covers its header and payload, so a chunk out of place, or of another snapshot,
does not pass.  The digest is the CRC-32C of the CRCs of all chunks, so a lost or foreign chunk is
detected.

A snapshot counts only after it was read back with correct checksums.  The log is trimmed only below
such a snapshot, and below the oldest entry whose bytes are not in the store (decision 49).  Log
time is part of the payload, not of the frames.
"""

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import crc32c
import trio

from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    LogCorrupt,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.state.cluster import ClusterState

SNAPSHOT_VERSION: Final = 1
CHUNK_BYTES: Final = 1 << 20
_FRAME: Final = struct.Struct(">IHIQ")
_LENGTH_BYTES: Final = 4
_CRC: Final = struct.Struct(">I")
_HEAD: Final = struct.Struct(">IQI")
_PAYLOAD_AT: Final = _FRAME.size + _CRC.size


class _Chunk(NamedTuple):
    payload: bytes
    position: int
    crc: int


def frame_chunks(position: int, payload_chunks: Sequence[bytes]) -> list[bytes]:
    """Frame a snapshot for storing; the result has one element more than `payload_chunks`."""
    frames = [
        _frame(position, index, payload) for index, payload in enumerate(payload_chunks, start=1)
    ]
    total_bytes = sum(len(payload) for payload in payload_chunks)
    digest = _digest([_crc_of(frame) for frame in frames])
    return [_frame(position, 0, _HEAD.pack(len(frames), total_bytes, digest)), *frames]


def split_frames(joined: bytes) -> list[bytes]:
    """Split frames that follow one another; `unframe_chunks` checks that they are whole."""
    frames: list[bytes] = []
    at = 0
    while at < len(joined):
        end = at + _PAYLOAD_AT + int.from_bytes(joined[at : at + _LENGTH_BYTES])
        frames.append(joined[at:end])
        at = end
    return frames


def unframe_chunks(framed: Sequence[bytes]) -> Snapshot:
    """The reverse of `frame_chunks`.

    Raises:
        LogCorrupt: a chunk is missing, damaged, out of place, or of a version not known here.
    """
    if not framed:
        raise LogCorrupt("a snapshot has no chunks at all")
    head, *rest = (_unframe(index, frame) for index, frame in enumerate(framed))
    count, total_bytes, digest = _unpack_head(head)
    _check(len(rest) == count, head, f"has {len(rest)} chunks instead of {count}")
    _check(all(each.position == head.position for each in rest), head, "has a foreign chunk")
    _check(_digest([each.crc for each in rest]) == digest, head, "fails its digest")
    chunks = [each.payload for each in rest]
    _check(sum(map(len, chunks)) == total_bytes, head, f"is not {total_bytes} bytes long")
    return Snapshot(head.position, chunks)


async def load_newest(
    list_complete: Callable[[], Awaitable[list[tuple[int, int]]]],
    load: Callable[[int, int], Awaitable[Snapshot]],
) -> Snapshot | None:
    """Return the newest whole snapshot; None if there is no snapshot at all.

    Args:
        list_complete: (id, position) of all completed snapshots, the newest first.
        load: reads a snapshot; raises LogCorrupt if it is damaged.

    Raises:
        LogCorrupt: all snapshots are damaged.
    """
    while True:
        listed = await list_complete()
        damage: LogCorrupt | None = None
        for snapshot, position in listed:
            try:
                return await load(snapshot, position)
            except LogCorrupt as error:
                damage = damage or error
        # A snapshot that was dropped for newer ones while it was read is not damaged.
        if listed == await list_complete():
            if damage:
                raise damage
            return None


def unframe_at(position: int, framed: Sequence[bytes]) -> Snapshot:
    """Unframe the stored snapshot of a position.

    Raises:
        LogCorrupt: as `unframe_chunks`, or the snapshot is of another position.
    """
    snapshot = unframe_chunks(framed)
    if snapshot.position != position:
        raise LogCorrupt(f"the snapshot at {position} says it is at {snapshot.position}")
    return snapshot


def chunks_after_head(framed_head: bytes) -> int:
    """Return how many chunks belong to a snapshot, from its first one.

    Raises:
        LogCorrupt: as `unframe_chunks`.
    """
    return _unpack_head(_unframe(0, framed_head))[0]


def check_chunk(index: int, framed: bytes) -> bytes:
    """Return a framed chunk unchanged, once its own checksum agrees.

    Raises:
        LogCorrupt: as `unframe_chunks`.
    """
    _unframe(index, framed)
    return framed


def _unpack_head(head: _Chunk) -> tuple[int, int, int]:
    """Chunks after the head, bytes in them, digest."""
    if len(head.payload) != _HEAD.size:
        raise LogCorrupt(f"the head of the snapshot at {head.position} has the wrong size")
    count, total_bytes, digest = _HEAD.unpack(head.payload)
    return count, total_bytes, digest


def _frame(position: int, index: int, payload: bytes) -> bytes:
    header = _FRAME.pack(len(payload), SNAPSHOT_VERSION, index, position)
    crc = crc32c.crc32c(payload, crc32c.crc32c(header))
    return b"".join((header, _CRC.pack(crc), payload))


def _unframe(index: int, frame: bytes) -> _Chunk:
    if len(frame) < _PAYLOAD_AT:
        raise LogCorrupt(f"chunk {index} of a snapshot is cut short")
    length, version, own_index, position = _FRAME.unpack_from(frame)
    payload = bytes(memoryview(frame)[_PAYLOAD_AT:])
    crc = _crc_of(frame)
    if length != len(payload) or crc32c.crc32c(payload, crc32c.crc32c(frame[: _FRAME.size])) != crc:
        raise LogCorrupt(f"chunk {index} of a snapshot fails its checksum")
    if version != SNAPSHOT_VERSION:
        raise LogCorrupt(
            f"the snapshot at {position} has version {version}; "
            f"this release reads {SNAPSHOT_VERSION}: start a newer one"
        )
    if own_index != index:
        raise LogCorrupt(f"chunk {own_index} of the snapshot at {position} stands at {index}")
    return _Chunk(payload, position, crc)


def _crc_of(frame: bytes) -> int:
    crc: int = _CRC.unpack_from(frame, _FRAME.size)[0]
    return crc


def _digest(crcs: list[int]) -> int:
    return crc32c.crc32c(b"".join(map(_CRC.pack, crcs)))


def _check(holds: bool, head: _Chunk, complaint: str) -> None:
    if not holds:
        raise LogCorrupt(f"the snapshot at {head.position} {complaint}")


async def encode_state(state: ClusterState, *, as_copy: bool = False) -> Snapshot:
    """Encode a state as of now; other tasks run, and may change it, meanwhile."""
    chunks: list[bytes] = []
    rest = bytearray()
    with state.frozen(as_copy=as_copy) as frozen:
        for piece in frozen.pieces():
            rest += piece
            while len(rest) >= CHUNK_BYTES:
                chunks.append(bytes(rest[:CHUNK_BYTES]))
                del rest[:CHUNK_BYTES]
            await trio.lowlevel.checkpoint()
    if rest:
        chunks.append(bytes(rest))
    return Snapshot(frozen.position, chunks)


def _always() -> bool:
    return True


def _expect_not_moved(may_go_on: Callable[[], bool]) -> None:
    if not may_go_on():
        raise LogUnavailable("the metadata log is being moved: no snapshot now, and no trimming")


async def save_verified(
    log: MetadataLog,
    position: int,
    chunks: Sequence[bytes],
    *,
    may_go_on: Callable[[], bool] = _always,
) -> Snapshot:
    """Save a snapshot and read it back.

    Returns the snapshot that was read: this one, or a newer one of another gateway.

    Args:
        may_go_on: returns whether the log is still the same and no move is under way. No other task
            runs between its answer and the call of the log.

    Raises:
        LogCorrupt: the snapshot read back differs from the saved one. Trim nothing.
        LogUnavailable: the snapshot may or may not have been saved; save again later.
    """
    _expect_not_moved(may_go_on)
    await log.save_snapshot(position, chunks)
    found = await log.load_snapshot()
    _expect_not_moved(may_go_on)  # after a move it may be a snapshot of another log
    if found is None or found.position < position:
        raise LogCorrupt(f"the snapshot saved at {position} cannot be read back")
    if found.position == position and found.chunks != list(chunks):
        raise LogCorrupt(f"the snapshot at {position} reads back other than it was saved")
    return found


def _nothing(_snapshot: Snapshot) -> None:
    """Return that a snapshot needs no entry below it."""


async def trim_below_verified(
    log: MetadataLog,
    *,
    keep_entries: int = 0,
    needed_of: Callable[[Snapshot], int | None] = _nothing,
    may_go_on: Callable[[], bool] = _always,
) -> int:
    """Trim the entries that the newest snapshot covers, except the last few; the snapshot is read
    back first.

    `keep_entries` spares replicas that lag a little from loading the snapshot. `needed_of` returns
    the first position that a snapshot needs beside itself (`first_needed_of` of inlined_bodies.py),
    also if no replica needs it now: a restore may begin with the snapshot. `may_go_on`: see
    save_verified().

    Returns:
        The first position kept.

    Raises:
        LogUnavailable: there is no snapshot yet, or no answer.
        LogCorrupt: no snapshot can be read back, or the log cannot be read on from it.
    """
    snapshot = await log.load_snapshot()
    if snapshot is None:
        raise LogUnavailable("nothing is trimmed: there is no snapshot yet")
    # The log must reach up to the snapshot; a shorter log raises here.
    while isinstance(await log.read(snapshot.position + 1, max_bytes=1), Trimmed):
        newer = (
            await log.load_snapshot()
        )  # another gateway may have saved a snapshot meanwhile, and trimmed
        _expect_not_moved(may_go_on)
        if newer is None or newer.position <= snapshot.position:
            raise LogCorrupt(f"the log begins after its snapshot at {snapshot.position}")
        snapshot = newer
    first_kept = max(FIRST_POSITION, snapshot.position + 1 - keep_entries)
    needed = needed_of(snapshot)
    if needed is not None:
        first_kept = min(first_kept, needed)
    _expect_not_moved(may_go_on)
    await log.trim(first_kept)
    return first_kept
