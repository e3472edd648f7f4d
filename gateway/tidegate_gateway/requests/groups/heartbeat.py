"""Heartbeat: versions 0-4."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import MemberIdentity
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import heartbeat as messages
from tidegate_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

from ...groups.group_manager import GroupManager
from ...network.call import Call
from .group_errors import refusal_code


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Answers Heartbeat requests."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.HEARTBEAT
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
        """Restart the session timer of a member."""
        member = MemberIdentity(request.member_id, request.group_instance_id)
        refusal = await self.groups.heartbeat(request.group_id, member, request.generation_id)
        return HeartbeatResponse(error_code=refusal_code(refusal))
