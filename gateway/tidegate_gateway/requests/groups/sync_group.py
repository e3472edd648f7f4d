"""SyncGroup: versions 0-5.

The leader's assignments are in the metadata log before any member gets its own.  From version 5 on
a request must name its protocol and the protocol's type (KIP-559).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import SyncRequest
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import sync_group as messages
from tidegate_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

from ...groups.group_manager import GroupManager
from ...groups.sync_rules import lacks_protocol
from ...network.call import Call
from .group_errors import refusal_code


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Answers SyncGroup requests."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.SYNC_GROUP
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
        """Store the leader's assignments, or wait for the member's assignment."""
        if lacks_protocol(request, call.version):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        wanted = SyncRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments=tuple(
                (each.member_id, bytes(each.assignment)) for each in request.assignments
            ),
        )
        answer = await self.groups.sync(request.group_id, wanted)
        return SyncGroupResponse(
            error_code=refusal_code(answer.refusal),
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol,
            assignment=answer.assignment,
        )
