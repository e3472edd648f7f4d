"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: classic groups as of Kafka 4.3.

Members come from one host.  A parked join holds up its connection, as in Kafka.
"""

from __future__ import annotations

from random import Random
from typing import Final
from uuid import UUID

import trio

from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    Refusal,
    SyncAnswer,
    SyncRequest,
)
from tidegate_gateway.requests.groups.group_errors import refusal_code
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import sync_group as sy

from ..broker_state import Asked
from ..model_group import ModelGroup
from .group_access import member_error, up_to_date
from .parked_requests import answer_to, carry_out

_CLIENT_HOST: Final = "/127.0.0.1"
_FIRST_JOIN_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_JOIN_WITH_KNOWN_ID: Final = 4
_FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
_FIRST_JOIN_WITH_SKIP: Final = 9
_FIRST_SYNC_WITH_PROTOCOL: Final = 5
_FIRST_LEAVE_OF_SEVERAL: Final = 3


async def answer_join_group(asked: Asked, request: jg.JoinGroupRequest) -> jg.JoinGroupResponse:
    """Let a member join; wait for the rebalance."""
    await trio.lowlevel.checkpoint()
    code = member_error(asked, request.group_id)
    if code:
        return jg.JoinGroupResponse(error_code=code, protocol_name=_no_protocol(asked))
    group = _group_to_join(asked, request)
    if isinstance(group, Refusal):
        return _join_response(asked, JoinAnswer(group, request.member_id))
    ticket, broker = group.next_ticket(), asked.broker
    join(group.machine, _join_request(asked, request), ticket=ticket, now=broker.now())
    carry_out(broker, group)
    return _join_response(asked, await answer_to(broker, group, ticket, JoinAnswer))


def _group_to_join(asked: Asked, request: jg.JoinGroupRequest) -> ModelGroup | Refusal:
    """Return the group; a join creates it, unless the join already has a member id."""
    cluster = asked.broker.cluster
    bounds = cluster.group_settings
    timeout_ms = request.session_timeout_ms
    if not bounds.min_session_timeout_ms <= timeout_ms <= bounds.max_session_timeout_ms:
        return Refusal.INVALID_SESSION_TIMEOUT
    group = up_to_date(asked.broker, request.group_id)
    if group is None and request.member_id:
        return Refusal.UNKNOWN_MEMBER
    return group or cluster.group(request.group_id)


def _join_request(asked: Asked, request: jg.JoinGroupRequest) -> JoinRequest:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if asked.version < _FIRST_JOIN_WITH_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = request.session_timeout_ms
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=asked.client_id or "",
        client_host=_CLIENT_HOST,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        # Only new members draw, so that a run without groups draws nothing.
        fresh_id="" if request.member_id else _fresh_id(asked.broker.cluster.rng),
        requires_known_id=asked.version >= _FIRST_JOIN_WITH_KNOWN_ID,
        can_skip_assignment=asked.version >= _FIRST_JOIN_WITH_SKIP,
    )


def _fresh_id(rng: Random) -> str:
    return str(UUID(bytes=rng.randbytes(16), version=4))


def _no_protocol(asked: Asked) -> str | None:
    return None if asked.version >= _FIRST_JOIN_WITHOUT_PROTOCOL else ""


def _join_response(asked: Asked, answer: JoinAnswer) -> jg.JoinGroupResponse:
    return jg.JoinGroupResponse(
        error_code=refusal_code(answer.refusal),
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=_no_protocol(asked) if answer.protocol is None else answer.protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            jg.JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata)
            for each in answer.members
        ],
    )


async def answer_sync_group(asked: Asked, request: sy.SyncGroupRequest) -> sy.SyncGroupResponse:
    """Return the member's part of the leader's assignment; wait for it."""
    await trio.lowlevel.checkpoint()
    protocol = (request.protocol_type, request.protocol_name)
    if asked.version >= _FIRST_SYNC_WITH_PROTOCOL and None in protocol:
        return sy.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    code = member_error(asked, request.group_id)
    if code:
        return sy.SyncGroupResponse(error_code=code)
    group = up_to_date(asked.broker, request.group_id)
    if group is None:
        return sy.SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    ticket, broker = group.next_ticket(), asked.broker
    sync(group.machine, _sync_request(request), ticket=ticket, now=broker.now())
    carry_out(broker, group)
    answer = await answer_to(broker, group, ticket, SyncAnswer)
    return sy.SyncGroupResponse(
        error_code=refusal_code(answer.refusal),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


def _sync_request(request: sy.SyncGroupRequest) -> SyncRequest:
    return SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
    )


async def answer_heartbeat(asked: Asked, request: hb.HeartbeatRequest) -> hb.HeartbeatResponse:
    """Note that a member lives."""
    await trio.lowlevel.checkpoint()
    code = member_error(asked, request.group_id)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.NONE  # as in Kafka: the member cannot have expired meanwhile
    elif not code:
        code = _heartbeat(asked, request)
    return hb.HeartbeatResponse(error_code=code)


def _heartbeat(asked: Asked, request: hb.HeartbeatRequest) -> ErrorCode:
    group = up_to_date(asked.broker, request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member = MemberIdentity(request.member_id, request.group_instance_id)
    return refusal_code(group.machine.heartbeat(member, request.generation_id, asked.broker.now()))


async def answer_leave_group(asked: Asked, request: lv.LeaveGroupRequest) -> lv.LeaveGroupResponse:
    """Remove members."""
    await trio.lowlevel.checkpoint()
    leaving = [MemberIdentity(each.member_id, each.group_instance_id) for each in request.members]
    if asked.version < _FIRST_LEAVE_OF_SEVERAL:
        leaving = [MemberIdentity(request.member_id)]
    code = member_error(asked, request.group_id)
    if code:
        return lv.LeaveGroupResponse(error_code=code)
    codes = _leave(asked, request.group_id, leaving)
    if asked.version < _FIRST_LEAVE_OF_SEVERAL:
        return lv.LeaveGroupResponse(error_code=codes[0])
    return lv.LeaveGroupResponse(
        members=[
            lv.MemberResponse(each.member_id, each.instance_id, one)
            for each, one in zip(leaving, codes, strict=True)
        ]
    )


def _leave(asked: Asked, group_id: str, leaving: list[MemberIdentity]) -> list[ErrorCode]:
    group = up_to_date(asked.broker, group_id)
    if group is None:
        return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
    refusals = group.machine.leave(leaving, asked.broker.now())
    carry_out(asked.broker, group)
    return [refusal_code(each) for each in refusals]
