"""Checks of a SyncGroup request."""

from __future__ import annotations

from typing import Final

from tidegate_protocol.messages.sync_group import SyncGroupRequest

PROTOCOL_NAMED_SINCE: Final = 5


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether a request lacks a protocol name or type that it must have (KIP-559)."""
    if version < PROTOCOL_NAMED_SINCE:
        return False
    return request.protocol_type is None or request.protocol_name is None
