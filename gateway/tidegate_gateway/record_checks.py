"""Looking inside a batch, where a topic's settings force it.

- `compression.type` other than producer: records are compressed again with the topic's codec.
- a compacted topic refuses records without a key.
- `message.timestamp.before.max.ms`: the header does not tell the oldest time stamp.
- `record.validation=full`: every record is read, as Kafka does.

Records are decompressed with a bound, off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

from .blocking import Blocking
from .refusals import BatchRefused
from .transport import Buffer

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
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
    blocking: Blocking
    now_ms: Callable[[], int]

    def is_needed(self, settings: TopicSettings, header: BatchHeader) -> bool:
        """Tell whether check() must be called for a batch."""
        return (
            self.always
            or settings.is_compacted
            or settings.timestamp_before_max_ms != NO_LIMIT
            or _target_codec(settings, header) != header.codec
        )

    async def check(self, settings: TopicSettings, batch: memoryview) -> Buffer:
        """Return the batch to store.

        Raises:
          BatchRefused: a record breaks a rule of its topic.
        """
        now_ms = self.now_ms()
        return await self.blocking.run(lambda: checked_batch(settings, batch, now_ms))


def checked_batch(settings: TopicSettings, batch: memoryview, now_ms: int) -> Buffer:
    """See RecordChecks.check."""
    header = read_header(batch)
    try:
        records = list(decode_records(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES))
    except InvalidBatch as invalid:
        corrupt = invalid.reason is InvalidReason.CORRUPT
        code = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.INVALID_RECORD
        raise BatchRefused(code, str(invalid)) from invalid
    _check_offsets(records)
    if settings.is_compacted:
        _check_keys(records)
    if not settings.timestamp_type_is_append:
        _check_timestamps(records, settings, now_ms)
    codec = _target_codec(settings, header)
    if codec == header.codec:
        return batch
    return rebuild_batch(header, records, codec=codec, level=_level(settings, codec))


def _target_codec(settings: TopicSettings, header: BatchHeader) -> int:
    return CODECS.get(settings.compression_type, header.codec)


def _level(settings: TopicSettings, codec: int) -> int | None:
    levels = {
        Codec.GZIP: settings.gzip_level,
        Codec.LZ4: settings.lz4_level,
        Codec.ZSTD: settings.zstd_level,
    }
    return levels.get(Codec(codec))


def _check_offsets(records: Sequence[Record]) -> None:
    for index, record in enumerate(records):
        if record.offset != index:
            raise BatchRefused(
                ErrorCode.INVALID_RECORD, f"record {index} has offset delta {record.offset}"
            )


def _check_keys(records: Sequence[Record]) -> None:
    bad = [index for index, record in enumerate(records) if record.key is None]
    if bad:
        message = "Compacted topic cannot accept message without key."
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected",
            [(index, message) for index in bad],
        )


def _check_timestamps(records: Sequence[Record], settings: TopicSettings, now_ms: int) -> None:
    oldest = now_ms - settings.timestamp_before_max_ms
    newest = now_ms + settings.timestamp_after_max_ms
    bad = [
        (index, f"time stamp {record.timestamp} is out of range [{oldest}, {newest}]")
        for index, record in enumerate(records)
        if record.timestamp != -1 and not oldest <= record.timestamp <= newest
    ]
    if bad:
        raise BatchRefused(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected", bad
        )
