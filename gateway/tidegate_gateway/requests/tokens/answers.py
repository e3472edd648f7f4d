"""Shared answers of handlers and guards of delegation tokens.  Pure."""

from __future__ import annotations

from typing import Final

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

REQUESTER_SINCE: Final = 3
_BEFORE_THE_CONTROLLER: Final = frozenset(
    {
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
    }
)


def no_time(code: ErrorCode) -> int:
    """Return the times in a refusal: -1 if Kafka's broker refuses without its controller, or 0."""
    return -1 if code in _BEFORE_THE_CONTROLLER else 0


def owner_of(request: CreateDelegationTokenRequest, principal: str) -> str:
    """Return the owner of a requested token, as `type:name`."""
    if not request.owner_principal_name:
        return principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def refused_creation(
    request: CreateDelegationTokenRequest, principal: str, code: ErrorCode, version: int
) -> CreateDelegationTokenResponse:
    """Return the answer to a request that creates no token."""
    names = *type_and_name(owner_of(request, principal)), *requester_in(principal, version)
    time = no_time(code)
    return CreateDelegationTokenResponse(code, *names, time, time, time)


def requester_in(principal: str, version: int) -> tuple[str, str]:
    """Return the requester's type and name; ("", "") before version 3, which has none (KIP-373)."""
    return type_and_name(principal) if version >= REQUESTER_SINCE else ("", "")


def type_and_name(principal: str) -> tuple[str, str]:
    """Return the two parts of `type:name`."""
    kind, _, name = principal.partition(":")
    return kind, name
