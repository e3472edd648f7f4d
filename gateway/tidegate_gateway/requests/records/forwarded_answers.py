"""Makes the answer to a client from the source's answer about a forwarded batch.  Pure."""

from __future__ import annotations

from typing import Final

from tidegate_protocol.error_codes import ErrorCode, is_retriable
from tidegate_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidegate_protocol.plain_produce import TOPIC_IDS_FROM, TopicKey

from .produce_answers import refuse

FENCED_TEXT: Final = "the source of the topic takes no writes now"


def parts_by_place(
    response: ProduceResponse, version: int
) -> dict[tuple[TopicKey, int], PartitionProduceResponse]:
    """Return the answers by topic name and partition, or by topic id in versions with ids."""
    return {
        (_key(topic, version), part.index): part
        for topic in response.responses
        for part in topic.partition_responses
    }


def _key(topic: TopicProduceResponse, version: int) -> TopicKey:
    return topic.topic_id if version >= TOPIC_IDS_FROM else topic.name


def code_for_client(code: int, size_bytes: int, max_message_bytes: int, version: int) -> int:
    """Return the error code that the client gets.

    If a batch is within the topic's limit, MESSAGE_TOO_LARGE means that the topic is being
    switched: then the source's limit is 0.  With this error a client would split the batch, and
    fail.

    size_bytes: of the batch.  max_message_bytes: of its topic.  version: of the client's request.
    """
    if code == ErrorCode.MESSAGE_TOO_LARGE and size_bytes <= max_message_bytes:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code == ErrorCode.UNKNOWN_TOPIC_ID and version < TOPIC_IDS_FROM:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return code


def may_come_again(code: int) -> bool:
    """Return whether the client may send the batch again, after later ones."""
    return is_retriable(code)


def write_answer(answer: PartitionProduceResponse, theirs: PartitionProduceResponse) -> None:
    """Fill in the source's answer for an accepted batch."""
    answer.base_offset = theirs.base_offset
    answer.log_append_time_ms = theirs.log_append_time_ms
    answer.log_start_offset = theirs.log_start_offset


def write_error(
    answer: PartitionProduceResponse, theirs: PartitionProduceResponse, code: int
) -> None:
    """Fill in an error of the source.  code: see code_for_client."""
    text = theirs.error_message if code == theirs.error_code else FENCED_TEXT
    known = ErrorCode(code) if code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR
    refuse(answer, known, text or "")
    answer.error_code = code
    answer.log_start_offset = theirs.log_start_offset
    answer.record_errors = theirs.record_errors


_CODES: Final = frozenset(ErrorCode)
