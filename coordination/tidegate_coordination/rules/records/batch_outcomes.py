"""The batches of a WAL object as its commit gets them, and the outcomes of the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from ...state.cluster import ClusterState
from ...state.topics import Topic


class BatchFacts(NamedTuple):
    """One batch of a stored WAL object, as its header says.

    position, length: bytes in the object.  crc: the CRC field of the header. last_sequence: the
    sequence number of the last record.
    flags: see transactional_batches.py; only from metadata.version 4 on.
    """

    topic_id: bytes
    partition: int
    position: int
    length: int
    record_count: int
    max_timestamp: int
    crc: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    flags: int = 0


class Refusal(Enum):
    """Why a batch was not committed."""

    UNKNOWN_TOPIC = "the topic or partition does not exist (any more)"
    STALE_PRODUCER_EPOCH = "a newer epoch of the producer has written"
    OUT_OF_ORDER_SEQUENCE = "the sequence number does not follow the last one"
    DUPLICATE_SEQUENCE = "it was written long ago; where is not known any more"
    ABANDONED = "the object was given up before it was committed"
    CUT_OFF = "the object was given up: the gateway does not reach the object store"
    OFFSETS_RUN_OUT = "the offsets of its records would be above the highest there is"
    UNKNOWN_TRANSACTIONAL_ID = "no transactional id has the producer id"
    NOT_IN_TRANSACTION = "the partition was not added to a transaction"
    OPEN_TRANSACTION = "the producer has a transaction open in the partition"
    TRANSACTION_TOO_LARGE = "the transaction has too many partitions"
    LATE_IN_TRANSACTION = "another transaction has begun since the batch arrived"
    MIRRORED = "the topic is mirrored from another cluster"
    MISPLACED = "the mirrored batch does not follow the partition's end"


class BatchOutcome(NamedTuple):
    """The result of one batch.

    base_offset: -1 if refused, or if only the fact of its commit is still known.
    append_time_ms: -1 unless the topic has LogAppendTime.
    """

    refusal: Refusal | None
    base_offset: int
    append_time_ms: int
    log_start_offset: int


def append_time_topics(
    state: ClusterState, batches: Iterable[BatchFacts], is_append_time: Callable[[Topic], bool]
) -> frozenset[bytes]:
    """Return the ids of the batches' topics that have LogAppendTime."""
    topics = [state.topics.by_id.get(each) for each in {each.topic_id for each in batches}]
    return frozenset(
        [each.topic_id for each in topics if each is not None and is_append_time(each)]
    )


REFUSED = {reason: BatchOutcome(reason, -1, -1, -1) for reason in Refusal}
"""The outcome of a refused batch, by reason."""
