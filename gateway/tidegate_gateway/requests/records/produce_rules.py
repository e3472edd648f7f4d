"""The rules for produced batches: plain code that both produce paths call.

produce.py answers a refused batch with its error.  produce_fast_path.py leaves a request with a
refused batch to produce.py.  record_checks.py looks at the records.
"""

from __future__ import annotations

from typing import Final, cast

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events.metadata_versions import TRANSACTIONS
from tidegate_coordination.rules.looked_up import mirrored_text
from tidegate_coordination.rules.records import transactional_batches as flags
from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic, TopicTable
from tidegate_protocol.batches import HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL, read_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.messages.produce import PartitionProduceData, ProduceRequest
from tidegate_protocol.plain_produce import TOPIC_IDS_FROM, TopicKey
from tidegate_protocol.records import BatchHeader, check_batch

from ...network.call import Rights
from ...produce.refusals import BatchRefused
from ...topics.internal_topics import INTERNAL_TOPICS

ZSTD_FROM: Final = 7
ZSTD: Final = 4
NO_ANSWER: Final = 0
ANSWERED_ACKS: Final = (-1, 1)
VALID_ACKS: Final = (NO_ANSWER, *ANSWERED_ACKS)
# From this version on a batch adds its partition to its transaction (KIP-890).
MAY_ADD_SINCE: Final = 12
NO_TRANSACTIONAL_ID: Final = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "a transactional batch needs a request with a transactional id",
)
MARKED: Final = (
    ErrorCode.INVALID_TIMESTAMP,
    "a producer may not mark a batch with LogAppendTime",
)
_REASON_CODES: Final = {
    InvalidReason.CORRUPT: ErrorCode.CORRUPT_MESSAGE,
    InvalidReason.INVALID_RECORD: ErrorCode.INVALID_RECORD,
}


def request_error(acks: int) -> tuple[ErrorCode, str] | None:
    """Return the error that all batches of a request get; None for a valid request."""
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; use -1, 0 or 1"
    return None


def drop_repeated_partitions(request: ProduceRequest) -> None:
    """Drop all batches of a partition but the last one."""
    named: set[tuple[str, bytes, int]] = set()
    for topic in reversed(request.topic_data):
        kept: list[PartitionProduceData] = []
        for data in reversed(topic.partition_data):
            before = len(named)
            named.add((topic.name, topic.topic_id, data.index))
            if len(named) > before:
                kept.append(data)
        topic.partition_data = kept[::-1]
    request.topic_data = [each for each in request.topic_data if each.partition_data]


def allows_transactions(state: ClusterState) -> bool:
    """Return whether transactional batches may be written at all."""
    return state.metadata_version >= TRANSACTIONS


def transactional_flags(transactional_id: str | None, version: int) -> int:
    """Return the flags of a request's transactional batches (see BatchFacts); 0 if none is allowed.

    version: of the request.
    """
    if transactional_id is None:
        return 0
    return flags.TRANSACTIONAL | (flags.MAY_ADD if version >= MAY_ADD_SINCE else 0)


def transactional_producers(request: ProduceRequest) -> set[tuple[int, int]]:
    """Return (producer id, epoch) of a request's transactional batches that have a header."""
    found: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = cast("memoryview | None", data.records)  # a decoded field has no other type
            if records is not None and len(records) >= HEADER_BYTES:
                header = read_header(records)
                if header.attributes & TRANSACTIONAL:
                    found.add((header.producer_id, header.producer_epoch))
    return found


def partition_numbers(topics: TopicTable, request: ProduceRequest) -> set[int]:
    """Return the numbers of a request's partitions that the replica knows.

    The request has topic names: callers use this only for versions before topic ids.
    """
    found: set[int] = set()
    for each in request.topic_data:
        topic = topics.by_name.get(each.name)
        numbers = topic.partition_numbers if topic is not None else ()
        found |= {numbers[p.index] for p in each.partition_data if 0 <= p.index < len(numbers)}
    return found


def find_topic(topics: TopicTable, key: TopicKey) -> Topic | None:
    """Return the topic of a request; None if the replica does not know it."""
    return topics.by_shown_id.get(key) if isinstance(key, bytes) else topics.by_name.get(key)


def may_write(rights: Rights, topic: str) -> bool:
    """Return whether a client may write to a topic."""
    return rights.may(Operation.WRITE, ResourceType.TOPIC, topic)


def known_topic(topic: Topic | None, partition: int, version: int) -> Topic:
    """Return the topic if it has the partition and is not an internal topic.

    Raises:
      BatchRefused
    """
    if topic is None or not 0 <= partition < len(topic.partition_numbers):
        by_id = topic is None and version >= TOPIC_IDS_FROM
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise BatchRefused(unknown, "")
    if topic.name in INTERNAL_TOPICS:
        raise BatchRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is internal")
    return topic


def writable_topic(topic: Topic | None, partition: int, version: int) -> Topic:
    """Return the topic if a client may write to its partition here.

    Raises:
      BatchRefused
    """
    found = known_topic(topic, partition, version)
    if found.link:
        raise BatchRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, mirrored_text(found))
    return found


def is_writable(topic: Topic, partition: int, version: int) -> bool:
    """Return whether writable_topic() returns the topic."""
    try:
        writable_topic(topic, partition, version)
    except BatchRefused:
        return False
    return True


def forwardable_header(
    batch: memoryview | None, topic: Topic, version: int, *, may_be_transactional: bool
) -> BatchHeader:
    """Return the header of a batch that may be forwarded to the source of its topic.

    The source checks the batch by the topic's settings.  This only checks for errors that would
    make the source close the connection, which other clients share.  may_be_transactional: the
    request's transactional id is at the same source.

    Raises:
      BatchRefused
    """
    if batch is None:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "the partition has no records")
    try:
        header = check_batch(batch)
    except InvalidBatch as invalid:
        raise BatchRefused(_REASON_CODES[invalid.reason], str(invalid)) from invalid
    if version < ZSTD_FROM and header.codec == ZSTD:
        raise BatchRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "")
    if header.attributes & TRANSACTIONAL and not may_be_transactional:
        # A transaction cannot span two clusters.
        raise BatchRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, mirrored_text(topic))
    return header


def accepted_header(
    batch: memoryview | None,
    settings: TopicSettings,
    version: int,
    *,
    may_be_transactional: bool = False,
) -> BatchHeader:
    """Return the header of a batch if the topic accepts it, by the header alone.

    version: of the request.  may_be_transactional: the request has a transactional id.

    Raises:
      BatchRefused
    """
    if batch is None:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "the partition has no records")
    size_bytes = len(batch)
    if size_bytes > settings.max_message_bytes:
        raise BatchRefused(ErrorCode.MESSAGE_TOO_LARGE, "")
    try:
        header = check_batch(batch)
    except InvalidBatch as invalid:
        raise BatchRefused(_REASON_CODES[invalid.reason], str(invalid)) from invalid
    attributes = header.attributes
    if attributes & TRANSACTIONAL and not may_be_transactional:
        raise BatchRefused(*NO_TRANSACTIONAL_ID)
    if version < ZSTD_FROM and header.codec == ZSTD:
        raise BatchRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "")
    if size_bytes > settings.segment_bytes:
        raise BatchRefused(ErrorCode.RECORD_LIST_TOO_LARGE, "")
    if attributes & LOG_APPEND_TIME and settings.timestamp_type_is_append:
        raise BatchRefused(*MARKED)
    return header
