"""Targets: WAL objects, runs read back for a fetch, entries and snapshots of the metadata log."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

from crc32c import crc32c

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import restores as rev
from tidegate_coordination.events.entries import (
    CHECKED_FORMAT,
    ENTRY_FORMAT,
    Entry,
    UnreadableEntry,
    decode_entry,
    encode_entry,
    encode_events,
    entry_nonce,
)
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.log.metadata_log import LogCorrupt
from tidegate_coordination.log.snapshots import frame_chunks, unframe_chunks
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch.prepared_runs import CorruptRun, prepare_run
from tidegate_protocol.batches import CRC_POSITION, CRC_START, read_header, walk
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import build_batch
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.runs import run_check
from tidegate_storage.objects.wal import OpenWal
from tidegate_storage.objects.wal_format import HEADER, TRAILER, WalIdentity, header_bytes
from tidegate_storage.objects.wal_reader import read_wal

from .record_targets import NOW_MS, some_batches, some_records
from .some_events import TOPIC_ID, some_entries, some_events

MAX_PARTITIONS: Final = 1000
_ENTRY_BYTES: Final = 60
# The trial takes neither: a restore folds TimelineOpened by itself, and a release may not know the
# level of a MetadataVersionSet.
_NEVER_TRIED: Final = frozenset({rev.TimelineOpened, ev.MetadataVersionSet})
_SLICE_CRC: Final = 56


def some_wal(rng: Random, slices: int) -> bytes:
    """Return a WAL object."""
    wal = OpenWal()
    for number in range(slices):
        batch = build_batch(some_records(rng, rng.choice((1, 2))))
        wal.append(rng.randbytes(1) * 16, number, batch, 2, NOW_MS, number)
    identity = WalIdentity(rng.choice((0, 1, 2**31 - 1)), 7, number_of(rng))
    source_of = rng.choice((None, _some_source))
    return bytes(wal.seal(identity, source_of=source_of).body)


def _some_source(token: object) -> tuple[int, int]:
    assert isinstance(token, int)
    return 7, token // 2


def number_of(rng: Random) -> int:
    """Return a number with few or many bits."""
    return rng.getrandbits(rng.choice((1, 8, 31, 62)))


class WalTarget:
    """Input: a WAL object."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 64
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [some_wal(rng, count) for count in (0, 1, 1, 2, 3, 8) for _ in range(4)]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target: the trailer's CRC, and before it the place of the footer."""
        trailer = len(data) - TRAILER.size
        if trailer < HEADER.size or rng.random() < 0.05:
            return
        position, length, _, magic = TRAILER.unpack_from(data, trailer)
        if rng.random() < 0.5:
            length = min(length, trailer - HEADER.size)
            position = trailer - length
        if position + length > trailer:
            return
        if rng.random() < 0.5:
            _repair_slices(data, position, trailer)
        covered = (
            data[: HEADER.size] + data[position:trailer] + struct.pack(">QI", position, length)
        )
        TRAILER.pack_into(data, trailer, position, length, crc32c(bytes(covered)), magic)

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        try:
            contents = read_wal(data)
        except (CorruptObject, UnknownVersion):
            return
        total = HEADER.size
        for entry in contents.slices:
            assert entry.start_byte == total
            total += len(contents.bytes_of(entry))
        named = sum(each.length for each in contents.sources)
        assert not contents.sources or named == total - HEADER.size
        header = header_bytes(contents.identity)
        assert data.startswith(header[:10])
        assert data[12 : HEADER.size] == header[12:]


def _repair_slices(data: bytearray, footer: int, trailer: int) -> None:
    """Put the slices one after the other, and correct their CRCs."""
    position, start = footer + 4, HEADER.size
    while position + _ENTRY_BYTES <= trailer - 4:
        size = int.from_bytes(data[position + 28 : position + 32], "big")
        data[position + 20 : position + 28] = start.to_bytes(8, "big")
        crc = crc32c(bytes(data[start : start + size]))
        data[position + _SLICE_CRC : position + _ENTRY_BYTES] = crc.to_bytes(4, "big")
        start += size
        position += _ENTRY_BYTES


class RunsTarget:
    """Input: flags of the run 1 byte, number of additional records 1 byte, its bytes."""

    head_bytes = 2
    fixed_bytes = 64 * 1024
    bytes_per_byte = 64
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        batches = [each for each in some_batches(rng) if len(each) < 2000]
        runs = [b"".join(rng.sample(batches, count)) for count in (1, 1, 2, 3, 5) for _ in range(5)]
        return [bytes((rng.choice((0, 1)), 0)) + each for each in runs]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""
        if rng.random() < 0.1:
            return
        position = self.head_bytes
        while len(data) - position >= 61:
            size = read_header(data, position).size_bytes
            if not 61 <= size <= len(data) - position:
                return
            crc = crc32c(bytes(data[position + CRC_START : position + size]))
            data[position + CRC_POSITION : position + CRC_START] = crc.to_bytes(4, "big")
            position += size

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if len(data) < self.head_bytes:
            return
        region = bytearray(data[2:])
        before = bytes(region)
        row = _row(memoryview(region), data[0] & 1, data[1])
        partition = Partition(3, TOPIC_ID, 0)
        try:
            run = prepare_run(memoryview(region), row, partition, "key")
        except CorruptRun:
            assert region == before
            return
        assert len(run.starts) == len(run) + 1
        for index in range(len(run)):
            header = read_header(run.batch(index))
            assert header.base_offset == run.base_offsets[index]
            assert header.size_bytes == len(run.batch(index))


def _row(region: memoryview, flags: int, more: int) -> RunRow:
    """Return the row that a commit of these bytes would have made, as far as they are sound."""
    records, crcs = more, list[int]()
    try:
        for _, header in walk(region):
            records += header.last_offset_delta + 1
            crcs.append(header.crc)
    except InvalidBatch:
        pass
    check = run_check(TOPIC_ID, 0, crcs)
    return RunRow(1000, 1000 + records, 1, 0, len(region), NOW_MS, check, flags)


class EntriesTarget:
    """Input: an entry of the metadata log."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 256
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        events = some_events()
        chosen = [[each] for each in events] + [events, []]
        whole = [
            encode_entry(
                rng.randbytes(12),
                1,
                NOW_MS,
                encode_events(each),
                7_000,
                entry_format=entry_format,
                position=1,
            )
            for each in chosen
            for entry_format in (ENTRY_FORMAT, CHECKED_FORMAT)
        ]
        # No events, and an unknown uptime, make the last two bytes.
        nested = encode_entry(b"n" * 12, 1, NOW_MS, [])[:-2] + b"\x91" * 2000
        return [*whole, nested]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        try:
            entry_nonce(data)
            entry = decode_entry(data, 1)
        except UnreadableEntry:
            return
        events = encode_events(entry.events)
        again = encode_entry(
            entry.nonce,
            entry.writer,
            entry.clock_ms,
            events,
            entry.uptime_ms,
            entry_format=entry.format,
            position=1,
        )
        assert decode_entry(again, 1) == entry
        assert entry_nonce(again) == entry.nonce


class FoldTarget:
    """Input: number of preceding events 1 byte, then an entry that is folded.

    If its events pass the trial, the fold takes them, and a snapshot keeps the state.
    """

    head_bytes = 1
    fixed_bytes = 256 * 1024
    bytes_per_byte = 256
    seconds_per_kib = 0.05

    def __init__(self) -> None:
        self._before = [decode_entry(each, 1) for each in _entries()]

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [bytes((number,)) + each for number, each in enumerate(_entries())]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target: changes the preceding events."""
        if data and rng.random() < 0.3:
            data[0] = rng.randrange(len(self._before))

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        try:
            entry = decode_entry(data[1:], 1)
        except UnreadableEntry:
            return
        if any(_is_huge(each) for each in entry.events):
            return
        state = ClusterState()
        try:
            for before in self._before[: data[0]]:
                state.apply(state.position + 1, before)
        except StateBroken:
            return
        passes = _passes(state, entry)
        try:
            state.apply(state.position + 1, entry)
        except (StateBroken, ReleaseTooOld):
            assert not passes, "it passed the trial"
            return
        assert state.position == min(data[0], len(self._before)) + 1
        if passes:
            encoded = state.encode()
            assert ClusterState.decode(encoded).encode() == encoded


def _passes(state: ClusterState, entry: Entry) -> bool:
    """Return whether the trial before an append lets the events pass.

    False if the entry's writer is no live gateway, or for a kind of event that no trial takes.
    """
    kinds = set(map(type, entry.events))
    if not state.gateways.is_live(entry.writer) or not kinds.isdisjoint(_NEVER_TRIED):
        return False
    try:
        Trial(state).check(entry.events)
    except (StateBroken, LookupError, struct.error, TypeError, OverflowError):
        return False
    return True


def _is_huge(event: object) -> bool:
    """Return whether the fold would need memory for a huge number, which no rule writes."""
    count = getattr(event, "partition_count", 0)
    return count > MAX_PARTITIONS or getattr(event, "counter", 0) > MAX_PARTITIONS


def _entries() -> list[bytes]:
    return [
        encode_entry(b"n", writer, NOW_MS, encode_events([each])) for writer, each in some_entries()
    ]


class SnapshotsTarget:
    """Input: chunks of a snapshot, each after its length of 2 bytes."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 32
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [
            _packed(frame_chunks(number_of(rng), [rng.randbytes(number) for number in sizes]))
            for sizes in ((), (0,), (1,), (20, 30), (0, 1, 2), (300,) * 5)
            for _ in range(5)
        ]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target: lengths and CRCs of the frames."""
        if rng.random() < 0.2:
            return
        frames = [bytearray(each) for each in _unpacked(data)]
        for index, frame in enumerate(frames):
            if len(frame) >= 22:
                frame[0:4] = (len(frame) - 22).to_bytes(4, "big")
                frame[6:10] = index.to_bytes(4, "big")
                frame[18:22] = crc32c(bytes(frame[:18] + frame[22:])).to_bytes(4, "big")
        data[:] = _packed([bytes(each) for each in frames])

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        frames = _unpacked(data)
        try:
            snapshot = unframe_chunks(frames)
        except LogCorrupt:
            return
        assert frame_chunks(snapshot.position, snapshot.chunks) == frames


def _packed(frames: list[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(2, "big") + each for each in frames)


def _unpacked(data: bytes | bytearray) -> list[bytes]:
    frames: list[bytes] = []
    position = 0
    while position + 2 <= len(data):
        size = int.from_bytes(data[position : position + 2], "big")
        frames.append(bytes(data[position + 2 : position + 2 + size]))
        position += 2 + size
    return frames
