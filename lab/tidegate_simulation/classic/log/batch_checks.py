"""The checks that a leader makes of a batch before it looks at the log, in Kafka's order.  Pure.

The order can be seen from outside: a batch with a wrong CRC is CORRUPT_MESSAGE on an open topic
and MESSAGE_TOO_LARGE on one with max.message.bytes=0.  That is how a fence is probed.

Compressed records that cannot be read are accepted unchecked, because the simulator may invent
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate_protocol.batches import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    crc_matches,
    read_header,
)
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.primitives import Buffer
from tidegate_protocol.records import Record, decode_records

from ..refusals import Refused
from ..topic_settings import TopicSettings

_SMALLEST_LENGTH: Final = 14  # of a record of magic 0 without key and value
_FIRST_VERSION_WITH_ZSTD: Final = 7
_NO_TIMESTAMP: Final = -1
_MAX_DECOMPRESSED_BYTES: Final = 1 << 28


class SoundBatch(NamedTuple):
    """A batch that passed the checks.  max_timestamp: that of its records."""

    raw: bytes
    header: BatchHeader
    max_timestamp: int


def transactional_head(records: Buffer | None) -> BatchHeader | None:
    """Return the header of the first batch of a partition if it is transactional.

    Raises:
      Refused: CORRUPT_MESSAGE; Kafka fails the whole request, since it looks for this first.
    """
    first = next(_batches(bytes(records or b"")), b"")
    header = read_header(first) if len(first) >= HEADER_BYTES else None
    return header if header is not None and header.is_transactional else None


def one_batch(records: Buffer | None, version: int) -> bytes:
    """Return the one batch of a partition in a Produce request of this version.

    Raises:
      Refused: INVALID_RECORD, CORRUPT_MESSAGE or UNSUPPORTED_COMPRESSION_TYPE.
    """
    batches = _batches(bytes(records or b""))
    first = next(batches, None)
    if first is None:
        raise _invalid("no record batch")
    if first[MAGIC_POSITION] != MAGIC:
        raise _invalid("only record batches of magic 2")
    if len(first) < HEADER_BYTES:
        raise _corrupt("a batch shorter than its header")
    if version < _FIRST_VERSION_WITH_ZSTD and read_header(first).codec == Codec.ZSTD:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in version {version}")
    if next(batches, None) is not None:
        raise _invalid("more than one record batch")
    return first


def _batches(data: bytes) -> Iterator[bytes]:
    """Yield the whole batches; bytes after them that are less than a batch are ignored."""
    while len(data) >= LENGTH_OVERHEAD:
        length = int.from_bytes(data[8:LENGTH_OVERHEAD], "big", signed=True)
        if length < _SMALLEST_LENGTH:
            raise _corrupt(f"a batch of length {length}")
        if len(data) <= MAGIC_POSITION:
            return
        if data[MAGIC_POSITION] > MAGIC:
            raise _corrupt(f"magic {data[MAGIC_POSITION]}")
        size = LENGTH_OVERHEAD + length
        if size > len(data):
            return
        yield data[:size]
        data = data[size:]


def check_client_batch(raw: bytes, settings: TopicSettings, now_ms: int) -> SoundBatch:
    """Check a client's batch of magic 2.

    Raises:
      Refused: with the code of the first check that fails.
    """
    header = read_header(raw)
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset}")
    check_size_and_crc(raw, settings)
    _check_header(header)
    return SoundBatch(raw, header, _check_records(raw, header, settings, now_ms))


def check_size_and_crc(raw: bytes, settings: TopicSettings) -> None:
    """Check the size of a batch, then its CRC.

    Raises:
      Refused: MESSAGE_TOO_LARGE or CORRUPT_MESSAGE.
    """
    if len(raw) > settings.max_message_bytes:
        message = f"{len(raw)} bytes, at most {settings.max_message_bytes}"
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, message, tells_log_start=False)
    if not crc_matches(memoryview(raw), 0, read_header(raw)):
        raise _corrupt("wrong CRC")


def _check_header(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        raise _invalid(f"{header.record_count} records, last delta {header.last_offset_delta}")
    if header.is_control:
        raise _invalid("a client's control batch")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"sequence {header.base_sequence}")


def _check_records(raw: bytes, header: BatchHeader, settings: TopicSettings, now_ms: int) -> int:
    """Check each record, and return the largest time stamp."""
    try:
        records = list(decode_records(raw, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES))
    except InvalidBatch as error:
        if header.codec:
            return header.max_timestamp
        raise _invalid(str(error)) from error
    if settings.is_compacted:
        without_key = [place for place, each in enumerate(records) if each.key is None]
        if without_key:
            raise _bad_records(ErrorCode.INVALID_RECORD, without_key)
    out_of_time = [
        place
        for place, each in enumerate(records)
        if not _has_good_time(each, header, settings, now_ms)
    ]
    if out_of_time:
        raise _bad_records(ErrorCode.INVALID_TIMESTAMP, out_of_time)
    return max(each.timestamp for each in records)


def _has_good_time(
    record: Record, header: BatchHeader, settings: TopicSettings, now_ms: int
) -> bool:
    """On a topic with CreateTime, Kafka checks the time alone, not the batch's kind of time."""
    if not settings.uses_append_time and record.timestamp != _NO_TIMESTAMP:
        age_ms = now_ms - record.timestamp
        return age_ms <= settings.before_max_ms and -age_ms <= settings.after_max_ms
    return not header.is_log_append_time


def _bad_records(code: ErrorCode, places: list[int]) -> Refused:
    return Refused(code, "records were rejected", bad_records=places)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> Refused:
    return Refused(ErrorCode.CORRUPT_MESSAGE, message, tells_log_start=False)
