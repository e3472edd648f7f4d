"""Guards of the APIs of consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    sync_group,
)

from ...groups.sync_rules import lacks_protocol
from ...security.guard import Ask, Caller, Guard, Guarding, parted
from ...security.operations import NOT_ASKED, OF_GROUP

_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_COMMIT_BY_ID_SINCE: Final = 10
_SEVERAL_KEYS_SINCE: Final = 4
_NULL_PROTOCOL_SINCE: Final = 7
# Key types of FindCoordinator.
_OF_GROUP, _OF_TRANSACTION, _OF_SHARE = range(3)


def _reading(refuse: Callable[[Any, int], Any]) -> Guard:
    """Return a guard of a member's requests: READ of the group.

    refuse: makes the answer to a request, in a version, of a client without this right.
    """

    def guard(caller: Caller, request: Any) -> Guarding:
        if not caller.may_group(Operation.READ, request.group_id):
            return refuse(request, caller.version)
        return (yield request)

    return guard


def _no_join(_request: object, version: int) -> join_group.JoinGroupResponse:
    name = None if version >= _NULL_PROTOCOL_SINCE else ""
    return join_group.JoinGroupResponse(error_code=_GROUP, protocol_name=name)


guard_join_group: Final = _reading(_no_join)
_reading_to_sync: Final = _reading(partial(sync_group.refused, error_code=_GROUP))
guard_heartbeat: Final = _reading(partial(heartbeat.refused, error_code=_GROUP))
guard_leave_group: Final = _reading(partial(leave_group.refused, error_code=_GROUP))


def guard_sync_group(caller: Caller, request: sync_group.SyncGroupRequest) -> Guarding:
    """READ of the group; as in Kafka, a request without a protocol is refused first."""
    if lacks_protocol(request, caller.version):
        return (yield request)
    return (yield from _reading_to_sync(caller, request))


def guard_find_coordinator(
    caller: Caller, request: find_coordinator.FindCoordinatorRequest
) -> Guarding:
    """DESCRIBE of each group or transactional id; CLUSTER_ACTION for those of share groups."""
    code = _GROUP if request.key_type == _OF_GROUP else _TRANSACTIONAL_ID

    def is_allowed(key: str) -> bool:
        if request.key_type == _OF_GROUP:
            return caller.may_group(Operation.DESCRIBE, key)
        if request.key_type == _OF_TRANSACTION:
            return caller.may_id(Operation.DESCRIBE, key)
        return request.key_type != _OF_SHARE or caller.may_cluster(Operation.CLUSTER_ACTION)

    if request.key_type == _OF_SHARE:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if caller.version < _SEVERAL_KEYS_SINCE:
        if is_allowed(request.key):
            return (yield request)
        return find_coordinator.refused(request, caller.version, code, error_text(code))
    request.coordinator_keys, denied = yield from parted(request.coordinator_keys, is_allowed)
    response = find_coordinator.FindCoordinatorResponse()
    if request.coordinator_keys or not denied:
        response = yield request
    without = replace(request, coordinator_keys=denied)
    refused = find_coordinator.refused(without, caller.version, code, error_text(code))
    response.coordinators += refused.coordinators
    return response


def guard_describe_groups(
    caller: Caller, request: describe_groups.DescribeGroupsRequest
) -> Guarding:
    """DESCRIBE of each group."""
    request.groups, denied = yield from parted(
        request.groups, lambda group_id: caller.may_group(Operation.DESCRIBE, group_id)
    )
    response = describe_groups.DescribeGroupsResponse()
    if request.groups or not denied:
        response = yield request
    for at, each in enumerate(response.groups):
        if each.authorized_operations != NOT_ASKED:
            bits = caller.bits(OF_GROUP, ResourceType.GROUP, each.group_id)
            each.authorized_operations = bits
        if not at % 100:
            yield Ask.PAUSE
    without = replace(request, groups=list(dict.fromkeys(denied)))
    response.groups += describe_groups.refused(without, caller.version, _GROUP).groups
    return response


def guard_list_groups(caller: Caller, request: list_groups.ListGroupsRequest) -> Guarding:
    """DESCRIBE of the cluster shows all groups; otherwise DESCRIBE of a group shows that group."""
    response: list_groups.ListGroupsResponse = yield request
    if caller.sees_cluster(Operation.DESCRIBE):
        return response
    sees = caller.rights.sees
    response.groups, _ = yield from parted(
        response.groups,
        lambda each: sees(Operation.DESCRIBE, ResourceType.GROUP, each.group_id),
    )
    return response


def guard_delete_groups(caller: Caller, request: delete_groups.DeleteGroupsRequest) -> Guarding:
    """DELETE of each group."""
    request.groups_names, denied = yield from parted(
        request.groups_names, lambda group_id: caller.may_group(Operation.DELETE, group_id)
    )
    response = delete_groups.DeleteGroupsResponse()
    if request.groups_names or not denied:
        response = yield request
    without = replace(request, groups_names=list(dict.fromkeys(denied)))
    response.results += delete_groups.refused(without, caller.version, _GROUP).results
    return response


def guard_offset_commit(caller: Caller, request: offset_commit.OffsetCommitRequest) -> Guarding:
    """READ of the group, and of each topic."""
    if not caller.may_group(Operation.READ, request.group_id):
        return offset_commit.refused(request, caller.version, _GROUP)
    by_id = caller.version >= _COMMIT_BY_ID_SINCE
    if by_id and any(caller.name_of(each.topic_id) is None for each in request.topics):
        yield Ask.CATCH_UP

    def is_allowed(topic: offset_commit.OffsetCommitRequestTopic) -> bool:
        name = caller.name_of(topic.topic_id) if by_id else topic.name
        return name is not None and caller.may_topic(Operation.READ, name)

    allowed, denied = yield from parted(request.topics, is_allowed)
    if not denied:
        return (yield request)
    response = offset_commit.OffsetCommitResponse()
    request.topics = allowed
    if allowed:
        response = yield request
    for each in denied:
        is_unknown = by_id and caller.name_of(each.topic_id) is None
        code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else _TOPIC
        refused = offset_commit.refused(replace(request, topics=[each]), caller.version, code)
        response.topics += refused.topics
    return response


def guard_offset_delete(caller: Caller, request: offset_delete.OffsetDeleteRequest) -> Guarding:
    """DELETE of the group, and READ of each topic."""
    if not caller.may_group(Operation.DELETE, request.group_id):
        return offset_delete.refused(request, caller.version, _GROUP)
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.READ, each.name)
    )
    response = offset_delete.OffsetDeleteResponse()
    if request.topics or not denied:
        response = yield request
    response.topics += [
        offset_delete.OffsetDeleteResponseTopic(
            topic.name,
            [
                offset_delete.OffsetDeleteResponsePartition(each.partition_index, _TOPIC)
                for each in topic.partitions
            ],
        )
        for topic in denied
        if not response.error_code
    ]
    return response
