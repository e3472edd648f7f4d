"""The guard of OffsetFetch: DESCRIBE of each group, and of each topic of its offsets."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

from ...security.guard import Ask, Caller, Guarding, parted

_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_SEVERAL_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_GROUP_ERROR_SINCE: Final = 2
_NO_OFFSET: Final = -1


def guard_offset_fetch(caller: Caller, request: OffsetFetchRequest) -> Guarding:
    """See the module's head."""
    if caller.version < _SEVERAL_SINCE:
        return (yield from _of_one(caller, request))
    return (yield from _of_several(caller, request))


def _of_one(caller: Caller, request: OffsetFetchRequest) -> Guarding:
    if not caller.may_group(Operation.DESCRIBE, request.group_id):
        if caller.version >= _GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=_GROUP)
        topics = [_no_offsets(each, _GROUP) for each in request.topics or ()]
        return OffsetFetchResponse(topics=topics)
    if request.topics is None:
        response: OffsetFetchResponse = yield request
        response.topics, _ = yield from parted(
            response.topics, lambda each: caller.sees_topic(each.name)
        )
        return response
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.DESCRIBE, each.name)
    )
    response = OffsetFetchResponse()
    if request.topics or not denied:
        response = yield request
    if not response.error_code:
        response.topics += [_no_offsets(each, _TOPIC) for each in denied]
    return response


def _no_offsets(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(index, _NO_OFFSET, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _of_several(caller: Caller, request: OffsetFetchRequest) -> Guarding:
    groups, refused = yield from parted(
        request.groups, lambda each: caller.may_group(Operation.DESCRIBE, each.group_id)
    )
    by_id = caller.version >= _TOPIC_IDS_SINCE
    if by_id and any(_has_unknown_id(caller, each) for each in groups):
        yield Ask.CATCH_UP
    denied: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in groups:
        if group.topics is not None:
            group.topics, out = yield from parted(
                group.topics, lambda each: _may_see(caller, each, by_id=by_id)
            )
            # A group that is named twice gets one answer.
            denied.setdefault(group.group_id, out)
    request.groups = groups
    response = OffsetFetchResponse()
    if groups:
        response = yield request
    asked_all = {each.group_id for each in groups if each.topics is None}
    for answer in response.groups:
        if answer.group_id in asked_all:
            answer.topics, _ = yield from parted(
                answer.topics, lambda each: _is_shown(caller, each, by_id=by_id)
            )
        if not answer.error_code:
            out = denied.get(answer.group_id, [])
            answer.topics += [_no_offsets_of(caller, each, by_id=by_id) for each in out]
    response.groups += [
        OffsetFetchResponseGroup(each.group_id, error_code=_GROUP) for each in refused
    ]
    return response


def _has_unknown_id(caller: Caller, group: OffsetFetchRequestGroup) -> bool:
    return any(caller.name_of(each.topic_id) is None for each in group.topics or ())


def _may_see(caller: Caller, topic: OffsetFetchRequestTopics, *, by_id: bool) -> bool:
    name = caller.name_of(topic.topic_id) if by_id else topic.name
    return name is not None and caller.may_topic(Operation.DESCRIBE, name)


def _is_shown(caller: Caller, topic: OffsetFetchResponseTopics, *, by_id: bool) -> bool:
    name = caller.name_of(topic.topic_id) if by_id else topic.name
    return name is not None and caller.sees_topic(name)


def _no_offsets_of(
    caller: Caller, topic: OffsetFetchRequestTopics, *, by_id: bool
) -> OffsetFetchResponseTopics:
    is_unknown = by_id and caller.name_of(topic.topic_id) is None
    code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else _TOPIC
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [
            OffsetFetchResponsePartitions(index, _NO_OFFSET, error_code=code)
            for index in topic.partition_indexes
        ],
    )
