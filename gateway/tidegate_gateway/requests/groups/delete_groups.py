"""DeleteGroups: versions 0-2."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.groups.values import Refusal
from tidegate_coordination.rules.consumer_groups.groups import Deletion
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as messages
from tidegate_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from .group_errors import refusal_code

_CODES = {
    Deletion.DELETED: ErrorCode.NONE,
    Deletion.UNKNOWN: ErrorCode.GROUP_ID_NOT_FOUND,
    Deletion.HAS_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
    Deletion.NOT_HOLDER: ErrorCode.NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """See the module's head."""

    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.DELETE_GROUPS
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Delete each group by itself."""
        results = [
            DeletableGroupResult(group_id, await self._delete(group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
        return DeleteGroupsResponse(results=results)

    async def _delete(self, group_id: str) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        answer = await self.groups.delete(group_id)
        return refusal_code(answer) if isinstance(answer, Refusal) else _CODES[answer]
