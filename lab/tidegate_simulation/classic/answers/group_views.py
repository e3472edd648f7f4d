"""DescribeGroups and ListGroups: as of Kafka 4.3, all groups classic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from tidegate_coordination.groups.values import State
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import list_groups as lg

from .. import rights
from ..broker_state import Asked
from ..model_group import ModelGroup
from .group_access import group_error, up_to_date

_TYPE: Final = "classic"
_FIRST_DESCRIBE_WITH_NOT_FOUND: Final = 6


async def answer_describe_groups(
    asked: Asked, request: sg.DescribeGroupsRequest
) -> sg.DescribeGroupsResponse:
    """Show groups and their members; the groups without the right come first, as in Kafka."""
    await trio.lowlevel.checkpoint()
    described = [_described(asked, each) for each in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = asked.broker.cluster.rights.operations(
                    asked.principal, rights.GROUP, group.group_id
                )
    described.sort(key=lambda each: each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return sg.DescribeGroupsResponse(groups=described)


def _described(asked: Asked, group_id: str) -> sg.DescribedGroup:
    code = group_error(asked, group_id, rights.DESCRIBE)
    if code:
        return sg.DescribedGroup(code, group_id=group_id)
    group = up_to_date(asked.broker, group_id)
    if group is None:
        return _not_found(asked, group_id)
    seen = group.machine.describe()
    return sg.DescribedGroup(
        group_id=group_id,
        group_state=seen.state.value,
        protocol_type=seen.protocol_type,
        protocol_data=seen.protocol,
        members=[
            sg.DescribedGroupMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata,
                each.assignment,
            )
            for each in seen.members
        ],
    )


def _not_found(asked: Asked, group_id: str) -> sg.DescribedGroup:
    group = sg.DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    if asked.version >= _FIRST_DESCRIBE_WITH_NOT_FOUND:
        group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        group.error_message = f"Group {group_id} not found."
    return group


async def answer_list_groups(asked: Asked, request: lg.ListGroupsRequest) -> lg.ListGroupsResponse:
    """List the groups that this broker coordinates; none while one of them is loading."""
    await trio.lowlevel.checkpoint()
    own = list(_own_groups(asked))
    if any(each.is_loading for each in own):
        return lg.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    listed: list[lg.ListedGroup] = []
    for group in own:
        group.run_timers(asked.broker.now())
        machine = group.machine
        row = lg.ListedGroup(group.group_id, machine.protocol_type, machine.state.value, _TYPE)
        if _may_list(asked, group.group_id) and _passes(row, request):
            listed.append(row)
    return lg.ListGroupsResponse(groups=listed)


def _own_groups(asked: Asked) -> Iterator[ModelGroup]:
    cluster = asked.broker.cluster
    for group_id, group in cluster.groups.items():
        if cluster.coordinator_of(group_id) == asked.broker.node_id:
            yield group


def _may_list(asked: Asked, group_id: str) -> bool:
    """Return whether the client may see a group; it sees all if it may DESCRIBE the cluster."""
    if asked.may(rights.DESCRIBE, rights.CLUSTER):
        return True
    return asked.may(rights.DESCRIBE, rights.GROUP, group_id)


def _passes(row: lg.ListedGroup, request: lg.ListGroupsRequest) -> bool:
    """Return whether a group passes the filters; an empty filter lets every group pass."""
    states = {each.strip().lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    if types and row.group_type not in types:
        return False
    return not states or row.group_state.lower() in states
