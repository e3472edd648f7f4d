"""LeaveGroup: versions 0-5.

If the group becomes empty, this is in the metadata log before the answer, so the group can be
deleted at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import MemberIdentity, Refusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import leave_group as messages
from tidegate_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from .group_errors import refusal_code

SEVERAL_SINCE = 3


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Answers LeaveGroup requests."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.LEAVE_GROUP
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Remove members."""
        leaving = [
            MemberIdentity(each.member_id, each.group_instance_id) for each in request.members
        ]
        if call.version < SEVERAL_SINCE:
            leaving = [MemberIdentity(request.member_id)]
        answers = await self.groups.leave(request.group_id, leaving)
        if isinstance(answers, Refusal):
            return LeaveGroupResponse(error_code=refusal_code(answers))
        if call.version < SEVERAL_SINCE:
            return LeaveGroupResponse(error_code=refusal_code(answers[0]))
        members = [
            MemberResponse(each.member_id, each.instance_id, refusal_code(refusal))
            for each, refusal in zip(leaving, answers, strict=True)
        ]
        return LeaveGroupResponse(members=members)
