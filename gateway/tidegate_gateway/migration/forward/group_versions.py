"""Converts requests and answers about groups between a client's and a source's versions.  Pure.

A source may be older than the client.  Older requests have topic names instead of ids (OffsetCommit
and OffsetFetch below 10), one group (OffsetFetch below 8), or one member (LeaveGroup below 3).
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.state.topics import TopicTable
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from tidegate_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidegate_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidegate_protocol.primitives import ZERO_UUID

from .coordinators import SourceAnswer

TOPIC_IDS_SINCE: Final = 10
GROUPS_SINCE: Final = 8
STABLE_SINCE: Final = 7
MEMBERS_SINCE: Final = 3


def commit_request(
    request: OffsetCommitRequest, version: int, topics: TopicTable
) -> OffsetCommitRequest:
    """Return an OffsetCommit in the source's version."""
    if version >= TOPIC_IDS_SINCE:
        return request
    rows = [
        OffsetCommitRequestTopic(name, partitions=each.partitions)
        for each in request.topics
        if (name := _name(each, topics))
    ]
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        rows,
    )


def commit_response(
    request: OffsetCommitRequest, answer: SourceAnswer, topics: TopicTable
) -> OffsetCommitResponse:
    """Return the answer, and add topic ids if it has none, since the client may expect these."""
    response: OffsetCommitResponse = answer.response
    if answer.version >= TOPIC_IDS_SINCE:
        return response
    for each in response.topics:
        each.topic_id = _id_of(each.name, topics)
    for wanted in request.topics:
        if not _name(wanted, topics):
            code = ErrorCode.UNKNOWN_TOPIC_ID
            rows = [
                OffsetCommitResponsePartition(each.partition_index, code)
                for each in wanted.partitions
            ]
            response.topics.append(OffsetCommitResponseTopic("", wanted.topic_id, rows))
    return response


def fetch_request(
    group: OffsetFetchRequestGroup, version: int, topics: TopicTable, *, require_stable: bool
) -> OffsetFetchRequest:
    """Return an OffsetFetch for one group in the source's version."""
    rows = group.topics
    if version < TOPIC_IDS_SINCE and rows is not None:
        rows = [
            OffsetFetchRequestTopics(name, partition_indexes=each.partition_indexes)
            for each in rows
            if (name := _name(each, topics))
        ]
    if version >= GROUPS_SINCE:
        wanted = OffsetFetchRequestGroup(
            group.group_id, group.member_id, group.member_epoch, topics=rows
        )
        return OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
    older = None
    if rows is not None:
        older = [OffsetFetchRequestTopic(each.name, each.partition_indexes) for each in rows]
    is_stable = require_stable and version >= STABLE_SINCE
    return OffsetFetchRequest(group.group_id, older, require_stable=is_stable)


def fetch_response(
    wanted: OffsetFetchRequestGroup, answer: SourceAnswer, topics: TopicTable
) -> OffsetFetchResponseGroup:
    """Return the answer for a group, with both names and ids of its topics if known."""
    found = _group_of(wanted.group_id, answer)
    if answer.version >= TOPIC_IDS_SINCE:
        for each in found.topics:
            each.name = _name(each, topics)
        return found
    for each in found.topics:
        each.topic_id = _id_of(each.name, topics)
    for topic in wanted.topics or ():
        if not _name(topic, topics):
            code = ErrorCode.UNKNOWN_TOPIC_ID
            rows = [
                OffsetFetchResponsePartitions(index, -1, -1, "", code)
                for index in topic.partition_indexes
            ]
            found.topics.append(OffsetFetchResponseTopics("", topic.topic_id, rows))
    return found


def _group_of(group_id: str, answer: SourceAnswer) -> OffsetFetchResponseGroup:
    response: OffsetFetchResponse = answer.response
    if answer.version >= GROUPS_SINCE:
        same = (each for each in response.groups if each.group_id == group_id)
        missing = OffsetFetchResponseGroup(group_id, error_code=ErrorCode.NOT_COORDINATOR)
        return next(same, missing)
    rows = [
        OffsetFetchResponseTopics(
            topic.name,
            partitions=[
                OffsetFetchResponsePartitions(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return OffsetFetchResponseGroup(group_id, rows, response.error_code)


def leave_request(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Return a LeaveGroup in the source's version; older versions take only one member."""
    if version >= MEMBERS_SINCE or not request.members:
        return request
    return LeaveGroupRequest(request.group_id, request.members[0].member_id)


def leave_response(request: LeaveGroupRequest, answer: SourceAnswer) -> LeaveGroupResponse:
    """Return the answer, with the members of the request if the answer has no members.

    An older source has removed only the first member.  The others stay until their session
    timeouts.
    """
    response: LeaveGroupResponse = answer.response
    if answer.version < MEMBERS_SINCE:
        response.members = [
            MemberResponse(each.member_id, each.group_instance_id, response.error_code)
            for each in request.members
        ]
    return response


def _name(
    topic: OffsetCommitRequestTopic | OffsetFetchRequestTopics | OffsetFetchResponseTopics,
    topics: TopicTable,
) -> str:
    """Return a topic's name; "" for an unknown id."""
    if topic.name or topic.topic_id == ZERO_UUID:
        return topic.name
    known = topics.by_shown_id.get(topic.topic_id)
    return known.name if known is not None else ""


def _id_of(name: str, topics: TopicTable) -> bytes:
    known = topics.by_name.get(name)
    return known.shown_id if known is not None else ZERO_UUID
