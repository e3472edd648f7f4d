"""Forwards requests of consumer groups to the source of a link, until the groups move here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.groups.group_offsets import GROUP_KEY
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.migration.source_groups import GroupFence
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

from ..links import RunningLink
from ..units.forwarded_members import ForwardedMembers
from .coordinators import SourceForwards

STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5
CLASSIC: Final = "classic"


class GroupForwards(SourceForwards):
    """See the module's head.  members: the members of forwarded groups."""

    key_type: ClassVar[int] = GROUP_KEY
    refused: ClassVar[ErrorCode] = ErrorCode.GROUP_AUTHORIZATION_FAILED

    def __init__(self, coordinator: Coordinator, running: Mapping[str, RunningLink]) -> None:
        super().__init__(coordinator, running)
        self.members = ForwardedMembers()

    def link_of(self, key: str) -> str:
        """See SourceForwards."""
        return self._state.link_groups.link_of(key)

    def fence_of(self, key: str) -> GroupFence | None:
        """See SourceForwards."""
        return self._state.link_groups.fence_of(key)

    def _is_in(self, fence: GroupFence, key: str) -> bool:
        return key in fence.groups

    async def listed(self, request: ListGroupsRequest, max_version: int) -> list[ListedGroup]:
        """Return the forwarded groups that sources list, without sources that are down."""
        found: dict[str, ListedGroup] = {}

        def make(version: int) -> ListGroupsRequest:
            states = request.states_filter if version >= STATES_SINCE else []
            return ListGroupsRequest(states, request.types_filter if version >= TYPES_SINCE else [])

        async def ask(source: ClassicCluster, node_id: int) -> None:
            answer: ListGroupsResponse = await source.call_broker(
                node_id, "ListGroups", make, max_version=max_version
            )
            found.update({each.group_id: each for each in answer.groups})

        await self.ask_all_brokers(ask)
        return [
            each for each in found.values() if self.takes(each.group_id) and _passes(each, request)
        ]


def _passes(group: ListedGroup, request: ListGroupsRequest) -> bool:
    """Return whether a group passes the filters, which older sources do not apply.

    Older sources do not return the states of groups either, and have only classic groups.
    """
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    is_type = not types or (group.group_type or CLASSIC).lower() in types
    return is_type and (not states or group.group_state.lower() in states)
