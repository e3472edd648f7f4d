"""Groups at their coordinator: which requests a broker refuses, and the group as it is now."""

from __future__ import annotations

from tidegate_protocol.error_codes import ErrorCode

from .. import rights
from ..broker_state import Asked, BrokerState
from ..model_group import ModelGroup


def group_error(asked: Asked, group_id: str, operation: str) -> ErrorCode:
    """Return the error of a request for a group that must be coordinated here."""
    if not asked.may(operation, rights.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return coordinator_error(asked, group_id)


def coordinator_error(asked: Asked, group_id: str) -> ErrorCode:
    """Return the error of a group that this broker does not coordinate, or not yet."""
    cluster = asked.broker.cluster
    if cluster.coordinator_of(group_id) != asked.broker.node_id:
        return ErrorCode.NOT_COORDINATOR
    group = cluster.groups.get(group_id)
    if group is not None and group.is_loading:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NONE


def member_error(asked: Asked, group_id: str) -> ErrorCode:
    """Return the error of a request of a member, whose group must have a name."""
    if not asked.may(rights.READ, rights.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return coordinator_error(asked, group_id) if group_id else ErrorCode.INVALID_GROUP_ID


def up_to_date(broker: BrokerState, group_id: str) -> ModelGroup | None:
    """Return a group as it is now; None for an unknown one."""
    group = broker.cluster.groups.get(group_id)
    if group is not None:
        group.run_timers(broker.now())
    return group
