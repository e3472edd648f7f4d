"""TxnOffsetCommit: as of Kafka 4.3.  Offsets are staged; see offsets_partition.py."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.groups.values import MemberIdentity
from tidegate_gateway.requests.groups.group_errors import refusal_code
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import txn_offset_commit as tc

from .. import rights
from ..broker_state import Asked
from ..model_topics import CommittedOffset, PartitionKey
from ..model_transaction import offsets_key, refused
from ..offsets_partition import GroupKey
from ..refusals import Refused
from ..transactions.access import may_write
from ..transactions.ends import ProducerIdentity
from ..transactions.taking_part import take_part
from .group_access import coordinator_error, up_to_date

_FIRST_VERSION_WITH_LOADING: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 4
_FIRST_VERSION_THAT_ADDS: Final = 5


async def answer_txn_offset_commit(
    asked: Asked, request: tc.TxnOffsetCommitRequest
) -> tc.TxnOffsetCommitResponse:
    """Stage the offsets of partitions that exist, all or none."""
    await trio.lowlevel.checkpoint()
    code = _request_error(asked, request)
    codes = {} if code else _partition_errors(asked, request)
    if not (code or (codes and all(codes.values()))):
        code = await _staged(asked, request, codes)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and (
        asked.version < _FIRST_VERSION_WITH_LOADING
    ):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return tc.TxnOffsetCommitResponse(
        topics=[
            tc.TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    tc.TxnOffsetCommitResponsePartition(
                        each.partition_index,
                        codes.get(PartitionKey(topic.name, each.partition_index)) or code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _request_error(asked: Asked, request: tc.TxnOffsetCommitRequest) -> ErrorCode:
    if not may_write(asked, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not asked.may(rights.READ, rights.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _partition_errors(
    asked: Asked, request: tc.TxnOffsetCommitRequest
) -> dict[PartitionKey, ErrorCode]:
    codes: dict[PartitionKey, ErrorCode] = {}
    for name, each in _partitions(request):
        topic = asked.broker.cluster.topics.get(name)
        code = ErrorCode.NONE
        if not asked.may(rights.READ, rights.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or topic.partition(each.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes[PartitionKey(name, each.partition_index)] = code
    return codes


def _partitions(
    request: tc.TxnOffsetCommitRequest,
) -> list[tuple[str, tc.TxnOffsetCommitRequestPartition]]:
    return [(topic.name, each) for topic in request.topics for each in topic.partitions]


async def _staged(
    asked: Asked, request: tc.TxnOffsetCommitRequest, codes: dict[PartitionKey, ErrorCode]
) -> ErrorCode:
    """Stage the partitions without an error; return the error of all."""
    group_id = request.group_id
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    log = asked.broker.cluster.offsets_partitions[offsets_key(group_id)]
    try:
        _check_place(asked, group_id)
        if not log.is_open(*producer):
            await take_part(
                asked.broker,
                request.transactional_id,
                producer,
                offsets_key(group_id),
                may_add=asked.version >= _FIRST_VERSION_THAT_ADDS,
                knows_abortable=asked.version >= _FIRST_VERSION_WITH_ABORTABLE,
            )
        _check_member(asked, request)
        asked.broker.cluster.group(group_id)  # its first offset creates the group
        for name, each in _partitions(request):
            key = PartitionKey(name, each.partition_index)
            if not codes[key]:
                log.stage(*producer, GroupKey(group_id, key), _committed(each))
    except Refused as failed:
        return failed.code
    return ErrorCode.NONE


def _committed(wanted: tc.TxnOffsetCommitRequestPartition) -> CommittedOffset:
    return CommittedOffset(
        wanted.committed_offset, wanted.committed_leader_epoch, wanted.committed_metadata or ""
    )


def _check_place(asked: Asked, group_id: str) -> None:
    if not group_id:
        raise refused(ErrorCode.INVALID_GROUP_ID)
    code = coordinator_error(asked, group_id)
    if code == ErrorCode.NOT_COORDINATOR:
        raise refused(code)


def _check_member(asked: Asked, request: tc.TxnOffsetCommitRequest) -> None:
    """Check the member once the transaction has the group; a rebalance does not matter."""
    code = coordinator_error(asked, request.group_id)
    group = None if code else up_to_date(asked.broker, request.group_id)
    if group is not None:
        member = MemberIdentity(request.member_id, request.group_instance_id)
        code = refusal_code(group.machine.check_staging(member, request.generation_id))
    elif not code and request.generation_id >= 0:
        code = ErrorCode.ILLEGAL_GENERATION
    if code:
        raise refused(code)
