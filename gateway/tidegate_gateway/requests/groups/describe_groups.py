"""DescribeGroups: versions 0-6.

As in Kafka, metadata and assignments are shown of stable groups only, and a group that does not
exist is "Dead" (v6+: with GROUP_ID_NOT_FOUND, KIP-1043).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import Description, Refusal, State
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_groups as messages
from tidegate_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from ...network.turns import Turns
from .group_errors import refusal_code

NOT_FOUND_SINCE = 6
ALL_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE and DESCRIBE, as bits of Kafka's AclOperation; there are no ACLs yet."""


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    """See the module's head."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.DESCRIBE_GROUPS
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Describe each group once: the answer can be much larger than the request."""
        turns = Turns()
        described: list[DescribedGroup] = []
        group_ids = list(dict.fromkeys(request.groups))
        seen = await self.groups.describe(group_ids)
        for group_id, each in zip(group_ids, seen, strict=True):
            group = _answer(group_id, each, call.version)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = ALL_GROUP_OPERATIONS
            described.append(group)
            await turns.count(1 + len(group.members))
        return DescribeGroupsResponse(groups=described)


def _answer(group_id: str, seen: Description | Refusal | None, version: int) -> DescribedGroup:
    if isinstance(seen, Description):
        return _described(group_id, seen)
    if seen is not None:
        return DescribedGroup(
            error_code=refusal_code(seen), error_message=seen.value, group_id=group_id
        )
    group = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    if version >= NOT_FOUND_SINCE:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        group.error_message = f"Group {group_id} not found."
    return group


def _described(group_id: str, seen: Description) -> DescribedGroup:
    members = [
        DescribedGroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.metadata,
            each.assignment,
        )
        for each in seen.members
    ]
    return DescribedGroup(
        group_id=group_id,
        group_state=seen.state.value,
        protocol_type=seen.protocol_type,
        protocol_data=seen.protocol,
        members=members,
    )
