"""DeleteGroups and OffsetDelete: as of Kafka 4.3.

Differs from Kafka: OffsetDelete sees the subscriptions of the present members, also while a
rebalance changes them.
"""

from __future__ import annotations

import trio

from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.subscription import subscribed_topics
from tidegate_coordination.groups.values import CONSUMER_PROTOCOL_TYPE, State
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import offset_delete as od

from .. import rights
from ..broker_state import Asked
from ..model_group import ModelGroup
from ..model_topics import PartitionKey
from .group_access import coordinator_error, group_error, up_to_date


async def answer_delete_groups(
    asked: Asked, request: dg.DeleteGroupsRequest
) -> dg.DeleteGroupsResponse:
    """Delete groups without members; the groups without the right come last, as in Kafka."""
    await trio.lowlevel.checkpoint()
    results = [
        dg.DeletableGroupResult(each, _delete(asked, each))
        for each in dict.fromkeys(request.groups_names)
    ]
    results.sort(key=lambda each: each.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return dg.DeleteGroupsResponse(results=results)


def _delete(asked: Asked, group_id: str) -> ErrorCode:
    code = group_error(asked, group_id, rights.DELETE)
    if code:
        return code
    group = up_to_date(asked.broker, group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.machine.state is not State.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    asked.broker.cluster.delete_group(group_id)
    return ErrorCode.NONE


async def answer_offset_delete(
    asked: Asked, request: od.OffsetDeleteRequest
) -> od.OffsetDeleteResponse:
    """Delete offsets of topics that no member subscribes to; an unknown offset is no error."""
    await trio.lowlevel.checkpoint()
    group_id = request.group_id
    if not asked.may(rights.DELETE, rights.GROUP, group_id):
        return od.OffsetDeleteResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return od.OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)
    code = coordinator_error(asked, group_id)
    group = None if code else up_to_date(asked.broker, group_id)
    if group is None:
        return od.OffsetDeleteResponse(code or ErrorCode.GROUP_ID_NOT_FOUND)
    machine = group.machine
    if machine.state is not State.EMPTY and machine.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return od.OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)
    return od.OffsetDeleteResponse(
        topics=[
            od.OffsetDeleteResponseTopic(
                topic.name,
                [
                    od.OffsetDeleteResponsePartition(
                        each.partition_index,
                        _delete_offset(
                            asked, group, PartitionKey(topic.name, each.partition_index)
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete_offset(asked: Asked, group: ModelGroup, key: PartitionKey) -> ErrorCode:
    if not asked.may(rights.READ, rights.TOPIC, key.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = asked.broker.cluster.topics.get(key.topic)
    if topic is None or topic.partition(key.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if _subscribes(group.machine, key.topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    asked.broker.cluster.delete_offset(group.group_id, key)
    return ErrorCode.NONE


def _subscribes(machine: ClassicGroup, topic: str) -> bool:
    """Return whether a member subscribes to a topic, or has an unreadable subscription."""
    members = machine.roster.members.values()
    topics = subscribed_topics(each.metadata(machine.protocol) for each in members)
    return topics is None or topic in topics
