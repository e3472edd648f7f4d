"""One partition as the leader of a classic cluster keeps it.  Pure: no clock, no waiting.

Batches are stored as bytes with their final base offset and leader epoch.  An append has two steps,
as in Kafka: batch_checks.py looks at the batch and at the settings of that moment, then append()
gives it a place.  Time may pass between the two, and the settings may change meanwhile.

    log start <= high watermark <= end offset; last stable offset <= high watermark

The end may lie beyond the last batch, and batches need not touch: compaction leaves gaps.
faults.py makes them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from crc32c import crc32c

from tidegate_protocol.batches import (
    CRC_POSITION,
    CRC_START,
    HEADER,
    LOG_APPEND_TIME,
    BatchHeader,
    read_header,
    set_base_offset,
    set_log_append_time,
)
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.records import decode_records

from ..refusals import Refused
from ..topic_settings import TopicSettings
from .batch_checks import SoundBatch, check_size_and_crc
from .epoch_history import EpochHistory
from .producer_states import AbortedTransaction, ProducerStates

LOG_END: Final = "log end"
WATERMARK: Final = "high watermark"
COMMITTED: Final = "committed"
"""Up to where a read goes: of a replica, of a consumer, of a consumer of committed records."""

_INDEX_INTERVAL_BYTES: Final = 4096
_MAX_DECOMPRESSED_BYTES: Final = 1 << 28


class StoredBatch(NamedTuple):
    """A batch in the log."""

    header: BatchHeader
    raw: bytes


class Appended(NamedTuple):
    """Where a batch lies.  timestamp_ms: for the answer; -1 on a topic with CreateTime."""

    first_offset: int
    last_offset: int
    timestamp_ms: int
    is_repeat: bool = False


class Read(NamedTuple):
    """The result of a read.

    records: whole batches, the last one perhaps cut.  aborted: None where Kafka sends null.
    """

    records: bytes
    aborted: tuple[AbortedTransaction, ...] | None = None


class FoundTime(NamedTuple):
    """A record that ListOffsets found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class ModelLog:
    """The log of one partition at its leader."""

    def __init__(self, leader_epoch: int = 0) -> None:
        self.batches: list[StoredBatch] = []
        self.log_start = 0
        self.high_watermark = 0
        self.end_offset = 0
        self.epochs = EpochHistory()
        self.producers = ProducerStates()
        self.begin_epoch(leader_epoch)

    @property
    def leader_epoch(self) -> int:
        """The epoch that appended batches get."""
        return self._leader_epoch

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a leader's epoch at the end of the log."""
        self._leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.end_offset)
        self.epoch_start = self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records stop.

        If the log start has passed the beginning of the first open transaction, this is the base
        offset of the batch that contains the log start.
        """
        unstable = self.producers.first_unstable_offset()
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        if unstable >= self.log_start:
            return unstable
        first = self._index_of(self.log_start)
        return self.batches[first].header.base_offset if self.batches[first:] else self.log_start

    def raise_high_watermark(self, offset: int) -> None:
        """Let consumers read up to an offset; it never falls here."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))
        self.producers.on_high_watermark(self.high_watermark)

    # -- append -----------------------------------------------------------------------------------

    def append(
        self,
        batch: SoundBatch,
        settings: TopicSettings,
        now_ms: int,
        *,
        is_verified: bool = True,
        starts_at_zero: bool = False,
    ) -> Appended:
        """Append a client's batch; the high watermark stays.

        is_verified, starts_at_zero: of a transactional batch; see ProducerStates.check().

        A repeat of one of a producer's last five batches is not stored: its first offset is
        returned.

        Raises:
          Refused: RECORD_LIST_TOO_LARGE, or the producer's state contradicts the batch.
        """
        if len(batch.raw) > settings.segment_bytes:
            message = "larger than a segment"
            raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE, message, tells_log_start=False)
        if batch.header.producer_id >= 0:
            repeated = self.producers.duplicate_of(batch.header)
            if repeated is not None:
                _, _, first, last, timestamp_ms = repeated
                return Appended(first, last, timestamp_ms, is_repeat=True)
            self.producers.check(
                batch.header, is_verified=is_verified, starts_at_zero=starts_at_zero
            )
        header = self._store(self._placed(batch, settings, now_ms))
        if header.producer_id >= 0:
            self.producers.add(header)
        timestamp_ms = now_ms if settings.uses_append_time else -1
        return Appended(header.base_offset, header.last_offset, timestamp_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        settings: TopicSettings,
        now_ms: int,
    ) -> int:
        """End a producer's transaction, and return the marker's offset.

        A producer without an open transaction gets a marker, too, as in Kafka.

        Raises:
          Refused: INVALID_PRODUCER_EPOCH, or MESSAGE_TOO_LARGE: a fence keeps markers out, too.
        """
        raw = control_batch(
            base_offset=0,
            leader_epoch=-1,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )
        check_size_and_crc(raw, settings)
        self.producers.check_marker(producer_id, producer_epoch)
        sound = SoundBatch(raw, read_header(raw), now_ms)
        header = self._store(self._placed(sound, settings, now_ms))
        self.producers.add_marker(header, committed=committed)
        return header.base_offset

    def _placed(self, batch: SoundBatch, settings: TopicSettings, now_ms: int) -> bytes:
        """Return the batch's bytes as the log keeps them."""
        raw = bytearray(batch.raw)
        set_base_offset(raw, 0, base_offset=self.end_offset, leader_epoch=self._leader_epoch)
        if settings.uses_append_time:
            set_log_append_time(raw, 0, size=len(raw), timestamp_ms=now_ms)
            return bytes(raw)
        header = read_header(raw)
        right = header._replace(
            attributes=header.attributes & ~LOG_APPEND_TIME, max_timestamp=batch.max_timestamp
        )
        if right != header:  # Kafka corrects the header, and its CRC
            HEADER.pack_into(raw, 0, *right)
            with memoryview(raw) as view:
                crc = crc32c(view[CRC_START:])
            raw[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")
        return bytes(raw)

    def _store(self, raw: bytes) -> BatchHeader:
        header = read_header(raw)
        self.epochs.assign(header.leader_epoch, header.base_offset)
        self.batches.append(StoredBatch(header, raw))
        self.end_offset = header.last_offset + 1
        return header

    # -- read -------------------------------------------------------------------------------------

    def limit(self, isolation: str) -> int:
        """Return where a read of this isolation stops."""
        if isolation == LOG_END:
            return self.end_offset
        return self.last_stable_offset if isolation == COMMITTED else self.high_watermark

    def read(self, offset: int, max_bytes: int, isolation: str, *, whole_first: bool) -> Read:
        """Return the bytes from the batch that holds the offset, or from the next one, on.

        whole_first: the first batch may be larger than max_bytes.  Without it, nothing is returned
        if the first batch does not fit.  The last batch may be cut by max_bytes.

        Raises:
          Refused: OFFSET_OUT_OF_RANGE.
        """
        if not self.log_start <= offset <= self.end_offset:
            message = f"offset {offset}, the log has {self.log_start} to {self.end_offset}"
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        nothing = Read(b"", () if isolation == COMMITTED else None)
        limit = self.limit(isolation)
        if offset >= limit:
            return nothing
        first = self._index_of(offset)
        if first == len(self.batches):
            return Read(b"")
        readable = self.batches[first : self._index_of(limit)]
        if whole_first:
            max_bytes = max(max_bytes, len(self.batches[first].raw))
        elif 0 < max_bytes < len(self.batches[first].raw):
            return Read(b"")
        records = _joined(readable, max_bytes)
        if isolation != COMMITTED:
            return Read(records)
        end_offset = self._index_end(first, len(records))
        return Read(records, tuple(self.producers.aborted_between(offset, end_offset)))

    def _index_of(self, offset: int) -> int:
        """Return the place of the first batch that ends at the offset or after it."""
        return bisect_left(self.batches, offset, key=_last_offset)

    def _index_end(self, first: int, size_bytes: int) -> int:
        """Return an offset at or after the end of a read, as Kafka's sparse index finds it."""
        start = sum(len(each.raw) for each in self.batches[:first])
        position = unindexed = 0
        for each in self.batches:
            if unindexed > _INDEX_INTERVAL_BYTES:
                if position >= start + size_bytes:
                    return each.header.last_offset
                unindexed = 0
            unindexed += len(each.raw)
            position += len(each.raw)
        return self.end_offset

    # -- by time ----------------------------------------------------------------------------------

    def find_time(self, timestamp_ms: int) -> FoundTime | None:
        """Return the first record at or after a time; compressed records are looked into."""
        for each in self.batches:
            if each.header.max_timestamp < timestamp_ms:
                continue
            for record in decode_records(each.raw, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES):
                if record.timestamp >= timestamp_ms and record.offset >= self.log_start:
                    return FoundTime(record.offset, record.timestamp, each.header.leader_epoch)
        return None

    def find_latest_time(self) -> FoundTime | None:
        """Return the first record with the largest time stamp.

        It may lie before the log's start: Kafka also looks at records that it has not deleted yet.
        """
        if not self.batches:
            return None
        newest = max(self.batches, key=_max_timestamp)
        time_ms = newest.header.max_timestamp
        for record in decode_records(newest.raw, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES):
            if record.timestamp == time_ms:
                return FoundTime(record.offset, time_ms, newest.header.leader_epoch)
        return None


def _last_offset(batch: StoredBatch) -> int:
    return batch.header.last_offset


def _max_timestamp(batch: StoredBatch) -> int:
    return batch.header.max_timestamp


def _joined(batches: list[StoredBatch], max_bytes: int) -> bytes:
    out = bytearray()
    for each in batches:
        if len(out) >= max_bytes:
            break
        out += each.raw
    return bytes(out[:max_bytes])
