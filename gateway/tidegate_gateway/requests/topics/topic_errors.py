"""Refusals of topic and config proposals -> Kafka's error codes and texts."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.rules.configs import ConfigRefusal, ConfigRefused
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_coordination.rules.topics import Refused, TopicRefusal
from tidegate_protocol.error_codes import ErrorCode, error_text

from ...network.call import Call, Mutations

OVER_QUOTA: Final = (
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    error_text(ErrorCode.THROTTLING_QUOTA_EXCEEDED),
)

_TOPIC_CODES = {
    TopicRefusal.EXISTS: ErrorCode.TOPIC_ALREADY_EXISTS,
    TopicRefusal.ILLEGAL_NAME: ErrorCode.INVALID_TOPIC_EXCEPTION,
    TopicRefusal.PARTITION_COUNT: ErrorCode.INVALID_PARTITIONS,
    TopicRefusal.REPLICATION_FACTOR: ErrorCode.INVALID_REPLICATION_FACTOR,
    TopicRefusal.ASSIGNMENT: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    TopicRefusal.CONFIG: ErrorCode.INVALID_CONFIG,
    TopicRefusal.TOO_MUCH: ErrorCode.POLICY_VIOLATION,
    TopicRefusal.CONTRADICTION: ErrorCode.INVALID_REQUEST,
    TopicRefusal.UNKNOWN_NAME: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    TopicRefusal.UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
    TopicRefusal.CHANGED: ErrorCode.REQUEST_TIMED_OUT,
    TopicRefusal.MIRRORED: ErrorCode.POLICY_VIOLATION,
}

_CONFIG_CODES = {
    ConfigRefusal.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ConfigRefusal.INVALID_CONFIG: ErrorCode.INVALID_CONFIG,
    ConfigRefusal.INVALID_REQUEST: ErrorCode.INVALID_REQUEST,
    ConfigRefusal.CHANGED: ErrorCode.REQUEST_TIMED_OUT,
    ConfigRefusal.MIRRORED: ErrorCode.POLICY_VIOLATION,
}


def mutation_quota(call: Call, strict_since: int) -> Mutations | None:
    """Return the client's quota of created and deleted partitions; None without one.

    strict_since: from this version of the API on, topics beyond the quota are refused.
    """
    if call.cost is None:
        return None
    return call.cost.mutations(is_strict=call.version >= strict_since)


def topic_error(refused: Refused) -> tuple[ErrorCode, str]:
    """Return code and text for a client."""
    code = _TOPIC_CODES[refused.reason]
    return code, refused.text or error_text(code)


def config_error(refused: ConfigRefused | None, name: str) -> tuple[ErrorCode, str | None]:
    """Return code and text for a client; NONE without a refusal. name: the name of the resource."""
    if refused is None:
        return ErrorCode.NONE, None
    if refused.reason is ConfigRefusal.UNKNOWN_TOPIC:
        illegal = illegal_topic_name(name)
        if illegal is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, illegal
    return _CONFIG_CODES[refused.reason], refused.text


def failure_text(failure: ProposalFailed) -> str:
    """Return the text of UNKNOWN_SERVER_ERROR for a proposal that changed nothing."""
    return f"Nothing was changed: {failure}"
