"""Checks the records of a batch, if a topic's settings require it.

- `compression.type` other than producer: records are compressed again with the topic's codec.
- a compacted topic refuses records without a key.
- `message.timestamp.before.max.ms`: the header does not hold the oldest time stamp.
- `record.validation=full`: every record is read, as Kafka does.

Records are decompressed with a bound, off the event loop, and checked one by one: a batch of a few
kilobytes can hold millions of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.records import (
    BatchHeader,
    Record,
    decode_records,
    read_header,
    rebuild_batch,
)

from ..network.transport import Buffer
from ..work.client import Client
from ..work.fair_pool import FairPool, PoolBusy
from .refusals import MAX_RECORD_ERRORS, BatchRefused

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
MAX_RECORDS: Final = 2_000_000
"""The most records of one batch that is checked: some seconds of work."""
NO_LIMIT: Final = 2**63 - 1
CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class RecordChecks:
    """See the module's head.  now_ms: wall clock."""

    always: bool
    pool: FairPool
    now_ms: Callable[[], int]

    def is_never_needed(self, settings: TopicSettings) -> bool:
        """Return whether is_needed() is False for all batches."""
        return not (
            self.always
            or settings.is_compacted
            or settings.timestamp_before_max_ms != NO_LIMIT
            or settings.compression_type in CODECS
        )

    def is_needed(self, settings: TopicSettings, header: BatchHeader) -> bool:
        """Return whether check() must be called for a batch."""
        return (
            self.always
            or settings.is_compacted
            or settings.timestamp_before_max_ms != NO_LIMIT
            or _target_codec(settings, header) != header.codec
        )

    async def check(self, settings: TopicSettings, batch: memoryview, client: Client) -> Buffer:
        """Return the batch to store.

        Raises:
          BatchRefused: a record breaks a rule of its topic, or there is no thread for it.
          CloseConnection: the client is gone.
        """
        now_ms = self.now_ms()
        try:
            return await self.pool.run(client, lambda _: checked_batch(settings, batch, now_ms))
        except PoolBusy as busy:
            raise BatchRefused(ErrorCode.NOT_ENOUGH_REPLICAS, str(busy)) from None


def checked_batch(settings: TopicSettings, batch: memoryview, now_ms: int) -> Buffer:
    """See RecordChecks.check."""
    header = read_header(batch)
    if header.record_count > MAX_RECORDS:
        text = f"{header.record_count} records are more than {MAX_RECORDS}"
        raise BatchRefused(ErrorCode.INVALID_RECORD, text)
    records = _checked(settings, batch, now_ms)
    codec = _target_codec(settings, header)
    try:
        if codec == header.codec:
            deque(records, maxlen=0)
            return batch
        return rebuild_batch(header, records, codec=codec, level=_level(settings, codec))
    except InvalidBatch as invalid:
        corrupt = invalid.reason is InvalidReason.CORRUPT
        code = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.INVALID_RECORD
        raise BatchRefused(code, str(invalid)) from invalid


def _target_codec(settings: TopicSettings, header: BatchHeader) -> int:
    return CODECS.get(settings.compression_type, header.codec)


def _level(settings: TopicSettings, codec: int) -> int | None:
    levels = {
        Codec.GZIP: settings.gzip_level,
        Codec.LZ4: settings.lz4_level,
        Codec.ZSTD: settings.zstd_level,
    }
    return levels.get(Codec(codec))


def _checked(settings: TopicSettings, batch: memoryview, now_ms: int) -> Iterator[Record]:
    """Yield the records; after the last one, or after many wrong ones, raise if any was wrong."""
    wrong = _Wrong(settings, now_ms)
    records = decode_records(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    for index, record in enumerate(records):
        wrong.look(index, record)
        yield record
    wrong.refuse()


@dataclass(slots=True)
class _Wrong:
    """The errors of a batch's records."""

    settings: TopicSettings
    now_ms: int
    keyless: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    untimely: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def look(self, index: int, record: Record) -> None:
        """Note the error of a record."""
        if record.offset != index:
            text = f"record {index} has offset delta {record.offset}"
            raise BatchRefused(ErrorCode.INVALID_RECORD, text)
        if self.settings.is_compacted and record.key is None:
            message = "Compacted topic cannot accept message without key."
            self.keyless.append((index, message))
        if not self.settings.timestamp_type_is_append and record.timestamp != -1:
            self._look_at_time(index, record.timestamp)
        if max(len(self.keyless), len(self.untimely)) >= MAX_RECORD_ERRORS:
            self.refuse()

    def _look_at_time(self, index: int, timestamp: int) -> None:
        oldest = self.now_ms - self.settings.timestamp_before_max_ms
        newest = self.now_ms + self.settings.timestamp_after_max_ms
        if not oldest <= timestamp <= newest:
            text = f"time stamp {timestamp} is out of range [{oldest}, {newest}]"
            self.untimely.append((index, text))

    def refuse(self) -> None:
        """Raise if anything is wrong."""
        text = "One or more records have been rejected"
        if self.keyless:
            raise BatchRefused(ErrorCode.INVALID_RECORD, text, self.keyless)
        if self.untimely:
            raise BatchRefused(ErrorCode.INVALID_TIMESTAMP, text, self.untimely)
