"""DeleteGroups: versions 0-2.

As in Kafka, the group with the empty id can be deleted, too: old clients may have committed to it.
"""

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
from ...migration.forward.coordinators import NotForwarded, SourceRequest
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from .group_errors import refusal_code

NAME = "DeleteGroups"
_CODES = {
    Deletion.DELETED: ErrorCode.NONE,
    Deletion.UNKNOWN: ErrorCode.GROUP_ID_NOT_FOUND,
    Deletion.HAS_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
    Deletion.NOT_HOLDER: ErrorCode.NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Answers DeleteGroups requests."""

    groups: GroupManager
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.DELETE_GROUPS
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Delete each group separately."""
        names = list(dict.fromkeys(request.groups_names))
        remote = [each for each in names if self.forwards.takes(each)]

        async def ask(group_id: str) -> int:
            return await self._forwarded(call, group_id)

        codes = await self.forwards.ask_each(
            remote, ask, lambda _: ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        results = [
            DeletableGroupResult(each, codes[each] if each in codes else await self._delete(each))
            for each in names
        ]
        return DeleteGroupsResponse(results=results)

    async def _delete(self, group_id: str) -> ErrorCode:
        answer = await self.groups.delete(group_id)
        return refusal_code(answer) if isinstance(answer, Refusal) else _CODES[answer]

    async def _forwarded(self, call: Call, group_id: str) -> int:
        """Return the error code from the source of a link."""

        def make(_: int) -> DeleteGroupsRequest:
            return DeleteGroupsRequest([group_id])

        asked = SourceRequest(group_id, NAME, make, call.version, call.client_id, is_change=True)
        try:
            answer = await self.forwards.call(asked)
        except NotForwarded as refused:
            return refused.code
        response: DeleteGroupsResponse = answer.response
        codes = (each.error_code for each in response.results)
        return next(codes, ErrorCode.NOT_COORDINATOR)
