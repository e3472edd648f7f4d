"""Kafka's codes for the refusals of groups."""

from __future__ import annotations

from tidegate_coordination.groups.values import Refusal
from tidegate_protocol.error_codes import ErrorCode

_CODES = {
    None: ErrorCode.NONE,
    Refusal.INVALID_GROUP_ID: ErrorCode.INVALID_GROUP_ID,
    Refusal.INVALID_SESSION_TIMEOUT: ErrorCode.INVALID_SESSION_TIMEOUT,
    Refusal.UNKNOWN_MEMBER: ErrorCode.UNKNOWN_MEMBER_ID,
    Refusal.FENCED_INSTANCE: ErrorCode.FENCED_INSTANCE_ID,
    Refusal.ILLEGAL_GENERATION: ErrorCode.ILLEGAL_GENERATION,
    Refusal.REBALANCE_IN_PROGRESS: ErrorCode.REBALANCE_IN_PROGRESS,
    Refusal.INCONSISTENT_PROTOCOL: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    Refusal.MEMBER_ID_REQUIRED: ErrorCode.MEMBER_ID_REQUIRED,
    Refusal.GROUP_FULL: ErrorCode.GROUP_MAX_SIZE_REACHED,
    # Kafka answers UNKNOWN_SERVER_ERROR.  This code names the problem, and is also fatal.
    Refusal.ASSIGNMENT_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    Refusal.NOT_COORDINATOR: ErrorCode.NOT_COORDINATOR,
    Refusal.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def refusal_code(refusal: Refusal | None) -> ErrorCode:
    """Return the code to answer; NONE for no refusal."""
    return _CODES[refusal]
