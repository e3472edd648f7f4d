"""ListGroups: versions 0-5.

Every gateway lists the groups that it serves or would serve on request; tools ask all gateways and
join the answers.  All groups of this cluster are classic.  A forwarded group is listed by the
gateway that would serve it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.groups.values import Description
from tidegate_coordination.placement.groups import chosen
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_groups as messages
from tidegate_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

from ...groups.group_manager import GroupManager
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ...network.turns import Turns

TYPE = "classic"


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Answers ListGroups requests."""

    coordinator: Coordinator
    groups: GroupManager
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.LIST_GROUPS
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
        """List the groups that pass the filters; an empty filter passes all."""
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        states = {each.lower() for each in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        turns = Turns()
        listed: list[ListedGroup] = []
        for group_id, seen in self.groups.list_groups(call.peer.listener):
            if seen is not None and _passes(seen, states, types):
                listed.append(ListedGroup(group_id, seen.protocol_type, seen.state.value, TYPE))
            await turns.count(1 + len(seen.members) if seen is not None else 1)
        among = self.groups.candidates(call.peer.listener)
        for each in await self.forwards.listed(request, call.version):
            place = chosen(each.group_id, among)
            if place is not None and place.incarnation == self.coordinator.incarnation:
                listed.append(each)
        return ListGroupsResponse(groups=listed)


def _passes(seen: Description, states: set[str], types: set[str]) -> bool:
    if types and TYPE not in types:
        return False
    return not states or seen.state.value.lower() in states
