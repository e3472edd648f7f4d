"""OffsetCommit and OffsetFetch: as of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import trio

from tidegate_coordination.groups.values import MemberIdentity
from tidegate_gateway.requests.groups.group_errors import refusal_code
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.primitives import ZERO_UUID

from .. import rights
from ..broker_state import Asked
from ..model_topics import CommittedOffset, PartitionKey
from ..model_transaction import offsets_key
from ..offsets_partition import GroupKey
from .group_access import group_error, up_to_date

_FIRST_VERSION_WITH_GROUPS: Final = 8
_FIRST_VERSION_WITH_NOT_FOUND: Final = 9
_FIRST_VERSION_WITH_IDS: Final = 10
_FIRST_VERSION_WITH_ERROR: Final = 2
_Offsets = Mapping[PartitionKey, CommittedOffset]
_UNKNOWN: Final = CommittedOffset(-1, -1, "")


async def answer_offset_commit(
    asked: Asked, request: oc.OffsetCommitRequest
) -> oc.OffsetCommitResponse:
    """Store offsets: of a member of this generation, or of a client without members."""
    await trio.lowlevel.checkpoint()
    group_code = group_error(asked, request.group_id, rights.READ) or _commit_error(asked, request)
    response = oc.OffsetCommitResponse()
    for topic in request.topics:
        name = _name(asked, topic.name, topic.topic_id)
        answers = oc.OffsetCommitResponseTopic(topic.name, topic.topic_id)
        for each in topic.partitions:
            code = _commit(asked, request.group_id, name, each, group_code)
            answers.partitions.append(oc.OffsetCommitResponsePartition(each.partition_index, code))
        response.topics.append(answers)
    return response


def _commit_error(asked: Asked, request: oc.OffsetCommitRequest) -> ErrorCode:
    """Return the error of a commit; an unknown group takes only commits without a generation."""
    generation = request.generation_id_or_member_epoch
    group = up_to_date(asked.broker, request.group_id)
    if group is not None:
        member = MemberIdentity(request.member_id, request.group_instance_id)
        return refusal_code(group.machine.check_commit(member, generation, asked.broker.now()))
    if generation < 0:
        return ErrorCode.NONE
    if asked.version >= _FIRST_VERSION_WITH_NOT_FOUND:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _commit(
    asked: Asked,
    group_id: str,
    name: str | None,
    wanted: oc.OffsetCommitRequestPartition,
    group_code: ErrorCode,
) -> ErrorCode:
    cluster = asked.broker.cluster
    if group_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return group_code
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not asked.may(rights.READ, rights.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = cluster.topics.get(name)
    if topic is None or topic.partition(wanted.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not group_code:
        cluster.commit_offset(
            group_id,
            PartitionKey(name, wanted.partition_index),
            CommittedOffset(
                wanted.committed_offset,
                wanted.committed_leader_epoch,
                wanted.committed_metadata or "",
            ),
        )
    return group_code


def _name(asked: Asked, name: str, topic_id: bytes) -> str | None:
    """Return a topic's name; None for an unknown id."""
    if asked.version < _FIRST_VERSION_WITH_IDS or topic_id == ZERO_UUID:
        return name
    topic = asked.broker.cluster.topic_named(topic_id)
    return topic.name if topic is not None else None


async def answer_offset_fetch(
    asked: Asked, request: of.OffsetFetchRequest
) -> of.OffsetFetchResponse:
    """Return committed offsets: of several groups, or before version 8 of one."""
    await trio.lowlevel.checkpoint()
    if asked.version >= _FIRST_VERSION_WITH_GROUPS:
        stable = request.require_stable
        found_groups = [_group(asked, each, is_stable=stable) for each in request.groups]
        return of.OffsetFetchResponse(groups=found_groups)
    topics = request.topics
    wanted = of.OffsetFetchRequestGroup(request.group_id, topics=None)
    if topics is not None:
        wanted.topics = [
            of.OffsetFetchRequestTopics(each.name, partition_indexes=each.partition_indexes)
            for each in topics
        ]
    found = _group(asked, wanted, is_stable=request.require_stable)
    if found.error_code and asked.version < _FIRST_VERSION_WITH_ERROR:
        found.topics = [
            of.OffsetFetchResponseTopics(
                each.name,
                partitions=[
                    of.OffsetFetchResponsePartitions(index, -1, error_code=found.error_code)
                    for index in each.partition_indexes
                ],
            )
            for each in wanted.topics or ()
        ]
    return of.OffsetFetchResponse(
        error_code=found.error_code, topics=[_in_old_form(each) for each in found.topics]
    )


def _in_old_form(topic: of.OffsetFetchResponseTopics) -> of.OffsetFetchResponseTopic:
    return of.OffsetFetchResponseTopic(
        topic.name,
        [
            of.OffsetFetchResponsePartition(
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for each in topic.partitions
        ],
    )


def _group(
    asked: Asked, wanted: of.OffsetFetchRequestGroup, *, is_stable: bool
) -> of.OffsetFetchResponseGroup:
    cluster = asked.broker.cluster
    answer = of.OffsetFetchResponseGroup(wanted.group_id)
    answer.error_code = group_error(asked, wanted.group_id, rights.DESCRIBE)
    if answer.error_code:
        return answer
    group = cluster.groups.get(wanted.group_id)
    offsets = group.offsets if group is not None else {}
    topics = wanted.topics
    if topics is None:
        topics = _all_topics(asked, offsets)
    answer.topics = [_topic(asked, offsets, each) for each in topics]
    if is_stable:
        _hide_unstable(asked, answer)
    return answer


def _hide_unstable(asked: Asked, answer: of.OffsetFetchResponseGroup) -> None:
    """Refuse the partitions for which an open transaction has an offset (KIP-447)."""
    log = asked.broker.cluster.offsets_partitions[offsets_key(answer.group_id)]
    for topic in answer.topics:
        name = _name(asked, topic.name, topic.topic_id) or ""
        for each in topic.partitions:
            key = PartitionKey(name, each.partition_index)
            if not each.error_code and log.is_pending(GroupKey(answer.group_id, key)):
                each.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                each.committed_offset, each.committed_leader_epoch, each.metadata = _UNKNOWN


def _all_topics(asked: Asked, offsets: _Offsets) -> list[of.OffsetFetchRequestTopics]:
    by_name: dict[str, list[int]] = {}
    for key in offsets:
        if asked.may(rights.DESCRIBE, rights.TOPIC, key.topic):
            by_name.setdefault(key.topic, []).append(key.partition)
    topics = asked.broker.cluster.topics
    return [
        of.OffsetFetchRequestTopics(name, topics[name].topic_id, sorted(indexes))
        for name, indexes in by_name.items()
    ]


def _topic(
    asked: Asked, offsets: _Offsets, wanted: of.OffsetFetchRequestTopics
) -> of.OffsetFetchResponseTopics:
    name, code = _name(asked, wanted.name, wanted.topic_id), ErrorCode.NONE
    if name is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not asked.may(rights.DESCRIBE, rights.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answer = of.OffsetFetchResponseTopics(wanted.name, wanted.topic_id)
    for index in wanted.partition_indexes:
        found = _UNKNOWN if code else offsets.get(PartitionKey(name or "", index), _UNKNOWN)
        answer.partitions.append(of.OffsetFetchResponsePartitions(index, *found, error_code=code))
    return answer
