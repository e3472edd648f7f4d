"""Forwards requests of a group to the source of a link until the group moves here.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete.  Other groups are served by
the handler of the API.  The source sees the member's client id, and the gateway's address.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Final

import trio

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
)

from ...migration.forward.coordinators import ANY_FENCE, SourceAnswer
from ...migration.forward.group_versions import (
    commit_request,
    commit_response,
    leave_request,
    leave_response,
)
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ..forwarding import Forwarded

MARGIN_SECONDS: Final = 10.0
"""The source may delay the first rebalance of a group."""
SYNC_SECONDS: Final = 300.0
"""The default of max.poll.interval.ms; the source ends a longer wait by the group's own."""
_KNOWN: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})


class OneGroup(Forwarded[GroupForwards]):
    """See the module's head."""

    is_change: ClassVar[bool] = False
    # Whether to wait for the end of a fence.  Requests that clients repeat only a few times need
    # this.
    awaits_fence: ClassVar[bool] = False

    async def _enter(self, _request: Any, key: str, /) -> int:
        if self.awaits_fence:
            await self._forwards.unfenced(key)
        return self.passes


class ForwardedJoinGroup(OneGroup):
    """JoinGroup: the source answers when the other members have joined."""

    api_key: ClassVar[int] = ApiKey.JOIN_GROUP
    messages: ClassVar[ModuleType] = join_group
    awaits_fence: ClassVar[bool] = True

    def _wait_seconds(self, request: join_group.JoinGroupRequest) -> float:
        return MARGIN_SECONDS + max(_timeouts_ms(request)) / 1000

    def _note(
        self, request: join_group.JoinGroupRequest, response: join_group.JoinGroupResponse
    ) -> None:
        if response.error_code == ErrorCode.NONE:
            self._forwards.members.note_join(
                request.group_id,
                response.member_id,
                response.generation_id,
                response.leader,
                _timeouts_ms(request),
                trio.current_time(),
            )

    def _refused(
        self, _call: Call, request: join_group.JoinGroupRequest, code: ErrorCode, /
    ) -> join_group.JoinGroupResponse:
        return join_group.JoinGroupResponse(error_code=code, member_id=request.member_id)


def _timeouts_ms(request: join_group.JoinGroupRequest) -> tuple[int, int]:
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    return session_ms, rebalance_ms if rebalance_ms >= 0 else session_ms


class ForwardedSyncGroup(OneGroup):
    """SyncGroup: the source answers when the leader has sent the assignments."""

    api_key: ClassVar[int] = ApiKey.SYNC_GROUP
    messages: ClassVar[ModuleType] = sync_group

    def _wait_seconds(self, _request: sync_group.SyncGroupRequest) -> float:
        return SYNC_SECONDS

    def _note(
        self, request: sync_group.SyncGroupRequest, response: sync_group.SyncGroupResponse
    ) -> None:
        _note_member(self._forwards, request, response)

    def _refused(self, call: Call, request: sync_group.SyncGroupRequest, code: ErrorCode, /) -> Any:
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            code = ErrorCode.REBALANCE_IN_PROGRESS  # as in Kafka; clients expect this code here
        return super()._refused(call, request, code)


class ForwardedHeartbeat(OneGroup):
    """Heartbeat."""

    api_key: ClassVar[int] = ApiKey.HEARTBEAT
    messages: ClassVar[ModuleType] = heartbeat
    passes: ClassVar[int] = ANY_FENCE

    def _note(
        self, request: heartbeat.HeartbeatRequest, response: heartbeat.HeartbeatResponse
    ) -> None:
        _note_member(self._forwards, request, response)


def _note_member(forwards: GroupForwards, request: Any, response: Any) -> None:
    if response.error_code in _KNOWN:
        forwards.members.note(
            request.group_id, request.member_id, request.generation_id, trio.current_time()
        )


class ForwardedLeaveGroup(OneGroup):
    """LeaveGroup."""

    api_key: ClassVar[int] = ApiKey.LEAVE_GROUP
    messages: ClassVar[ModuleType] = leave_group

    def _request(self, request: leave_group.LeaveGroupRequest, version: int) -> Any:
        return leave_request(request, version)

    def _response(self, request: leave_group.LeaveGroupRequest, answer: SourceAnswer) -> Any:
        return leave_response(request, answer)

    def _note(
        self, request: leave_group.LeaveGroupRequest, response: leave_group.LeaveGroupResponse
    ) -> None:
        if response.error_code == ErrorCode.NONE:
            gone = [each.member_id for each in response.members if not each.error_code]
            for each in gone if request.members else [request.member_id]:
                self._forwards.members.forget(request.group_id, each)


class ForwardedOffsetCommit(OneGroup):
    """OffsetCommit: the source has the same topics, with the same ids."""

    api_key: ClassVar[int] = ApiKey.OFFSET_COMMIT
    messages: ClassVar[ModuleType] = offset_commit
    is_change: ClassVar[bool] = True
    awaits_fence: ClassVar[bool] = True

    def _request(self, request: offset_commit.OffsetCommitRequest, version: int) -> Any:
        return commit_request(request, version, self._state.topics)

    def _response(self, request: offset_commit.OffsetCommitRequest, answer: SourceAnswer) -> Any:
        return commit_response(request, answer, self._state.topics)


class ForwardedOffsetDelete(OneGroup):
    """OffsetDelete."""

    api_key: ClassVar[int] = ApiKey.OFFSET_DELETE
    messages: ClassVar[ModuleType] = offset_delete
    is_change: ClassVar[bool] = True
    awaits_fence: ClassVar[bool] = True
