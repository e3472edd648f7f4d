"""JoinGroup: versions 0-9.

Waits for the rebalance, as in Kafka.  Differs from Kafka: there is a limit on the protocols of all
members of a group together (GroupSettings.max_join_bytes, 512 KiB); a member beyond it gets
GROUP_MAX_SIZE_REACHED.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import JoinAnswer, JoinRequest
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import join_group as messages
from tidegate_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from .group_errors import refusal_code

REBALANCE_TIMEOUT_SINCE = 1
KNOWN_ID_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
PROTOCOL_NAME_NULLABLE_SINCE = 7


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Answers JoinGroup requests."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.JOIN_GROUP
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
        """Join, and wait."""
        wanted = self._request(call, request)
        answer = await self.groups.join(request.group_id, wanted)
        return _response(answer, call.version)

    def _request(self, call: Call, request: JoinGroupRequest) -> JoinRequest:
        rebalance_timeout_ms = request.rebalance_timeout_ms
        if call.version < REBALANCE_TIMEOUT_SINCE or rebalance_timeout_ms < 0:
            rebalance_timeout_ms = request.session_timeout_ms
        return JoinRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=call.client_id,
            client_host=f"/{call.peer.host}",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
            fresh_id=self.groups.fresh_id(),
            requires_known_id=call.version >= KNOWN_ID_SINCE,
            can_skip_assignment=call.version >= SKIP_ASSIGNMENT_SINCE,
        )


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    protocol = answer.protocol
    if protocol is None and version < PROTOCOL_NAME_NULLABLE_SINCE:
        protocol = ""
    return JoinGroupResponse(
        error_code=refusal_code(answer.refusal),
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata)
            for each in answer.members
        ],
    )
