"""DescribeGroups: versions 0-6.

As in Kafka, only stable groups are shown with metadata and assignments, and a group that does not
exist is "Dead" (v6+: with GROUP_ID_NOT_FOUND, KIP-1043).
"""

from __future__ import annotations

from collections.abc import Sequence
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
from ...migration.forward.coordinators import NotForwarded, SourceRequest
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ...network.turns import Turns
from ...security.operations import ALL_ON_GROUP
from .group_errors import refusal_code

NAME = "DescribeGroups"
NOT_FOUND_SINCE = 6


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    """Answers DescribeGroups requests."""

    groups: GroupManager
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.DESCRIBE_GROUPS
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Describe each group only once, since an answer can be much larger than its request."""
        turns = Turns()
        described: list[DescribedGroup] = []
        group_ids = list(dict.fromkeys(request.groups))
        remote: list[str] = []
        local: list[str] = []
        for group_id in group_ids:
            (remote if self.forwards.takes(group_id) else local).append(group_id)
            await turns.count()
        described += await self._all_forwarded(call, remote, request)
        seen = await self.groups.describe(local)
        for group_id, each in zip(local, seen, strict=True):
            group = _answer(group_id, each, call.version)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = ALL_ON_GROUP
            described.append(group)
            await turns.count(1 + len(group.members))
        return DescribeGroupsResponse(groups=described)

    async def _all_forwarded(
        self, call: Call, groups: Sequence[str], request: DescribeGroupsRequest
    ) -> list[DescribedGroup]:
        async def ask(group_id: str) -> DescribedGroup:
            return await self._forwarded(call, group_id, request)

        def refused(group_id: str) -> DescribedGroup:
            return DescribedGroup(ErrorCode.COORDINATOR_NOT_AVAILABLE, group_id=group_id)

        return list((await self.forwards.ask_each(groups, ask, refused)).values())

    async def _forwarded(
        self, call: Call, group_id: str, request: DescribeGroupsRequest
    ) -> DescribedGroup:
        """Return the description of a group from the source of a link."""

        def make(_: int) -> DescribeGroupsRequest:
            return DescribeGroupsRequest([group_id], request.include_authorized_operations)

        asked = SourceRequest(group_id, NAME, make, call.version, call.client_id)
        try:
            answer = await self.forwards.call(asked)
        except NotForwarded as refused:
            return DescribedGroup(error_code=refused.code, group_id=group_id)
        response: DescribeGroupsResponse = answer.response
        missing = DescribedGroup(error_code=ErrorCode.NOT_COORDINATOR, group_id=group_id)
        return next(iter(response.groups), missing)


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
