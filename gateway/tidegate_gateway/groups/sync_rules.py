"""The rules that a SyncGroup request must keep."""

from __future__ import annotations

from typing import Final

from tidegate_protocol.messages.sync_group import SyncGroupRequest

PROTOCOL_NAMED_SINCE: Final = 5


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether a request must name its protocol and the protocol's type, and does not
    (KIP-559).
    """
    if version < PROTOCOL_NAMED_SINCE:
        return False
    return request.protocol_type is None or request.protocol_name is None
