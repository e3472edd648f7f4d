"""Validates the records of every produced batch, as Kafka's LogValidator does.

A walk (tidegate_protocol.record_walk) finds malformed records, records without a key in a compacted
topic, and time stamps out of range.  If the header's largest time stamp is not that of the records,
or attributes are set that only a broker may set, the gateway rewrites the header and its CRC.  If
compression.type names another codec than the batch has, it compresses the records with that codec.

Batches that cost little are walked in the event loop (accept_nowait), others in threads that
clients share fairly.  A refusal that names records is also made in a thread.
`record.validation=header` walks only if a topic's settings need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_protocol.batch_walk import recompressed, walk_batch
from tidegate_protocol.batches import CODEC_MASK, HEADER_BYTES, TRANSACTIONAL, with_header
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.record_walk import IS_COMPILED, RecordWalk
from tidegate_protocol.records import BatchHeader, Record, decode_records

from ..network.transport import Buffer
from ..work.client import Client
from ..work.fair_pool import FairPool, PoolBusy, ShouldStop
from .refusals import MAX_RECORD_ERRORS, BatchRefused

MAX_RECORDS: Final = 2_000_000
"""The most records of one batch: some seconds of work where the walk is not compiled."""
NO_LIMIT: Final = 2**63 - 1
CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
# Two limits on a decompressed batch hold together.  The first is a setting, or else GROWTH_OF_LIMIT
# times the topic's max.message.bytes.  The second is FREE_BYTES plus GROWTH_OF_BATCH times the
# batch's size, since small batches seldom grow as much.
GROWTH_OF_LIMIT: Final = 64
FREE_BYTES: Final = 16 << 20
GROWTH_OF_BATCH: Final = 1_000
# The largest batches to walk in the event loop; this takes some 20 ms at most for any records.
LOOP_BYTES: Final = (8 << 20) if IS_COMPILED else (32 << 10)
WALKED_BYTES_A_ROW: Final = (64 << 10) if IS_COMPILED else 1024
"""Bytes that are walked while a handler makes a row of an answer (turns.py)."""
LOOP_COMPRESSED_BYTES: Final = 16 << 10
LOOP_DECOMPRESSED_BYTES: Final = (512 << 10) if IS_COMPILED else (64 << 10)
AS_SENT: Final = "producer"
"""compression.type: batches keep their codec."""
Accepted: TypeAlias = tuple[Buffer, BatchHeader, int]
"""A batch as it is to be stored, its header, and how many bytes were walked in the event loop."""
_LOOK: Final = 1_000
"""Records that are read between two looks whether a request still waits."""
# The attributes that a client may set; only a broker may set the others.
_CLIENTS: Final = CODEC_MASK | TRANSACTIONAL


class _Looked(NamedTuple):
    """The result of a look at a batch: the header to store, and the batch if recompressed."""

    header: BatchHeader
    batch: Buffer | None


@dataclass(frozen=True, slots=True)
class RecordChecks:
    """See the module's head.

    always: walk even if the topic's settings do not need it.  now_ms: wall clock.  max_bytes: the
    limit on a batch's decompressed records; 0 for GROWTH_OF_LIMIT times max.message.bytes.
    """

    always: bool
    pool: FairPool
    now_ms: Callable[[], int]
    max_bytes: int = 0

    def accept_nowait(
        self, settings: TopicSettings, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> Accepted | None:
        """Return the batch to store; None if accept() must look at it.

        Raises:
          BatchRefused: records are not walked, and the header's time stamp breaks a rule.
        """
        codec = header.attributes & CODEC_MASK
        if settings.compression_type != AS_SENT and CODECS[settings.compression_type] != codec:
            return None
        if not (self.always or self._is_walked(settings)):
            _check_header_time(settings, header, now_ms)
            return (*_stored(batch, header, header.max_timestamp), 0)
        if codec or len(batch) > LOOP_BYTES:
            return self._accept_costly(settings, batch, header, now_ms)
        # The same as walk_batch(), but with fewer calls, since this runs for every batch.
        walk = RecordWalk(header.record_count, header.base_timestamp)
        try:
            walk.feed(batch[HEADER_BYTES:])
            walk.finish()
        except InvalidBatch:
            return None
        if not _is_clean(settings, header, walk, now_ms):
            return None
        if walk.max_timestamp != header.max_timestamp or header.attributes:
            batch, header = _stored(batch, header, walk.max_timestamp)
        return batch, header, walk.size_bytes

    def _accept_costly(
        self, settings: TopicSettings, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> Accepted | None:
        """See accept_nowait; for a compressed or large batch."""
        if len(batch) > LOOP_COMPRESSED_BYTES or header.record_count > MAX_RECORDS:
            return None
        room = min(LOOP_DECOMPRESSED_BYTES, self._room(settings, len(batch)))
        try:
            walk = walk_batch(batch, header, max_bytes=room)
        except InvalidBatch:
            return None
        if not _is_clean(settings, header, walk, now_ms):
            return None
        return (*_stored(batch, header, walk.max_timestamp), walk.size_bytes)

    async def accept(
        self, settings: TopicSettings, batch: memoryview, header: BatchHeader, client: Client
    ) -> Accepted:
        """Return the batch to store.

        Raises:
          BatchRefused: a record breaks a rule of its topic, or no thread is free.
          CloseConnection: the client is gone.
        """
        now_ms = self.now_ms()
        accepted = self.accept_nowait(settings, batch, header, now_ms)
        if accepted is not None:
            return accepted
        room = self._room(settings, len(batch))

        def work(should_stop: ShouldStop) -> _Looked:
            return looked_at(settings, batch, header, now_ms, room, should_stop)

        try:
            looked = await self.pool.run(client, work, len(batch))
        except PoolBusy as busy:
            raise BatchRefused(ErrorCode.NOT_ENOUGH_REPLICAS, str(busy)) from None
        if looked.batch is not None:
            return looked.batch, looked.header, 0
        # The header is written here and not in the thread: the thread may outlive the request, and
        # the batch's memory may then have other bytes.
        return (*_stored(batch, header, looked.header.max_timestamp), 0)

    @staticmethod
    def _is_walked(settings: TopicSettings) -> bool:
        """Return whether the topic's settings need a walk."""
        return settings.is_compacted or settings.timestamp_before_max_ms != NO_LIMIT

    def _room(self, settings: TopicSettings, size_bytes: int) -> int:
        """Return the limit on the size of a batch's decompressed records."""
        most = self.max_bytes or GROWTH_OF_LIMIT * settings.max_message_bytes
        return min(most, FREE_BYTES + GROWTH_OF_BATCH * size_bytes)


def looked_at(
    settings: TopicSettings,
    batch: memoryview,
    header: BatchHeader,
    now_ms: int,
    max_bytes: int,
    should_stop: ShouldStop,
) -> _Looked:
    """Look at a batch without changing it.

    Raises:
      BatchRefused: see RecordChecks.accept.
    """
    if header.record_count > MAX_RECORDS:
        text = f"{header.record_count} records are more than {MAX_RECORDS}"
        raise BatchRefused(ErrorCode.INVALID_RECORD, text)
    codec = CODECS.get(settings.compression_type, header.codec)
    try:
        walk = walk_batch(batch, header, max_bytes=max_bytes, should_stop=should_stop)
        if not _is_clean(settings, header, walk, now_ms):
            raise _refusal(settings, batch, header, max_bytes, now_ms, should_stop)
        header = _true_header(header, walk.max_timestamp)
        if codec == header.codec:
            return _Looked(header, None)
        level = _level(settings, codec)
        made, header = recompressed(
            batch, header, codec=codec, level=level, max_bytes=max_bytes, should_stop=should_stop
        )
    except InvalidBatch as invalid:
        raise BatchRefused(ErrorCode.INVALID_RECORD, str(invalid)) from invalid
    return _Looked(header, made)


def _check_header_time(settings: TopicSettings, header: BatchHeader, now_ms: int) -> None:
    """Check the largest time stamp according to the header."""
    latest_ms = now_ms + settings.timestamp_after_max_ms
    if header.max_timestamp > latest_ms and not settings.timestamp_type_is_append:
        raise BatchRefused(
            ErrorCode.INVALID_TIMESTAMP,
            f"the time stamp {header.max_timestamp} is more than"
            f" message.timestamp.after.max.ms={settings.timestamp_after_max_ms} ahead",
        )


def _level(settings: TopicSettings, codec: int) -> int | None:
    levels = {
        Codec.GZIP: settings.gzip_level,
        Codec.LZ4: settings.lz4_level,
        Codec.ZSTD: settings.zstd_level,
    }
    return levels.get(Codec(codec))


def _is_clean(settings: TopicSettings, header: BatchHeader, walk: RecordWalk, now_ms: int) -> bool:
    """Return whether no record breaks a rule."""
    if walk.next_offset != 2 * header.record_count:
        return False
    if walk.keyless and settings.is_compacted:
        return False
    if settings.timestamp_type_is_append:
        return True
    return (
        walk.max_timestamp <= now_ms + settings.timestamp_after_max_ms
        and walk.oldest >= now_ms - settings.timestamp_before_max_ms
    )


def _true_header(header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Return the header with correct values.

    If the topic has LogAppendTime at the commit, the commit sets the time.
    """
    attributes = header.attributes & _CLIENTS
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return header
    return header._replace(attributes=attributes, max_timestamp=max_timestamp)


def _stored(
    batch: memoryview, header: BatchHeader, max_timestamp: int
) -> tuple[memoryview, BatchHeader]:
    true = _true_header(header, max_timestamp)
    return (batch, header) if true is header else with_header(batch, true)


def _refusal(
    settings: TopicSettings,
    batch: memoryview,
    header: BatchHeader,
    max_bytes: int,
    now_ms: int,
    should_stop: ShouldStop,
) -> BatchRefused:
    """Return the error that names the wrong records, up to the limit of an answer."""
    # with the attribute, decode_records() would give all records the header's time
    if header.is_log_append_time:
        batch, _ = with_header(batch.toreadonly(), _true_header(header, -1))
    wrong = _Wrong(settings, now_ms)
    for index, record in enumerate(decode_records(batch, max_decompressed_bytes=max_bytes)):
        wrong.look(index, record)
        if len(wrong.errors) >= MAX_RECORD_ERRORS or (not index % _LOOK and should_stop()):
            break
    return wrong.refusal()


@dataclass(slots=True)
class _Wrong:
    """The errors of a batch's records."""

    settings: TopicSettings
    now_ms: int
    errors: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    is_untimely: bool = False

    def look(self, index: int, record: Record) -> None:
        """Note the error of a record."""
        if record.offset != index:
            text = f"record {index} has offset delta {record.offset}"
            raise BatchRefused(ErrorCode.INVALID_RECORD, text)
        if self.settings.is_compacted and record.key is None:
            self.errors.append((index, "Compacted topic cannot accept message without key."))
        elif not self.settings.timestamp_type_is_append and record.timestamp != -1:
            self._look_at_time(index, record.timestamp)

    def _look_at_time(self, index: int, timestamp: int) -> None:
        oldest = self.now_ms - self.settings.timestamp_before_max_ms
        newest = self.now_ms + self.settings.timestamp_after_max_ms
        if not oldest <= timestamp <= newest:
            text = f"time stamp {timestamp} is out of range [{oldest}, {newest}]"
            self.errors.append((index, text))
            self.is_untimely = True

    def refusal(self) -> BatchRefused:
        """Return the error of the batch."""
        code = ErrorCode.INVALID_TIMESTAMP if self.is_untimely else ErrorCode.INVALID_RECORD
        return BatchRefused(code, "One or more records have been rejected", self.errors)
