"""OffsetCommit: versions 2-10.

Offsets are in the metadata log before the answer.  Differs from Kafka: retention_time_ms (v2-4) is
ignored, offsets.retention.minutes counts; the string of metadata is bounded in bytes of UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, NamedTuple

from tidegate_coordination.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.groups.values import MemberIdentity, Refusal
from tidegate_coordination.rules.offsets import OffsetToCommit, partition_exists
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_commit as messages
from tidegate_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

from ..call import Call
from ..group_manager import GroupManager
from .group_errors import refusal_code

TOPIC_IDS_SINCE = 10
_NO_TOPIC = b""


class _Row(NamedTuple):
    """One partition of the request; code: what is known before it is proposed."""

    offset: OffsetToCommit
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """See the module's head."""

    coordinator: Coordinator
    groups: GroupManager
    api_key: ClassVar[int] = 8
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Commit what can be committed."""
        by_id = call.version >= TOPIC_IDS_SINCE
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            rows = await self._rows(request, by_id, unknown)
            codes = await self._commit(request, rows, unknown)
        except CoordinatorUnavailable:
            return _same_code(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except ProposalFailed:
            return _same_code(request, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        if isinstance(codes, ErrorCode):
            return _same_code(request, codes)
        return _response(request, iter(codes))

    async def _rows(
        self, request: OffsetCommitRequest, by_id: bool, unknown: ErrorCode
    ) -> list[_Row]:
        rows = self._look_up(request, by_id, unknown)
        if any(row.code is not ErrorCode.NONE for row in rows):
            await self.coordinator.catch_up()
            rows = self._look_up(request, by_id, unknown)
        return rows

    def _look_up(self, request: OffsetCommitRequest, by_id: bool, unknown: ErrorCode) -> list[_Row]:
        rows: list[_Row] = []
        for topic in request.topics:
            topic_id = self._topic_id(topic, by_id)
            for each in topic.partitions:
                offset = OffsetToCommit(
                    topic_id,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                )
                rows.append(_Row(offset, self._code(offset, unknown)))
        return rows

    def _topic_id(self, topic: OffsetCommitRequestTopic, by_id: bool) -> bytes:
        if by_id:
            return topic.topic_id
        known = self.coordinator.state.topics.by_name.get(topic.name)
        return known.topic_id if known is not None else _NO_TOPIC

    def _code(self, offset: OffsetToCommit, unknown: ErrorCode) -> ErrorCode:
        state = self.coordinator.state
        if offset.topic_id not in state.topics.by_id:
            return unknown
        if not partition_exists(state, offset):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(offset.metadata.encode()) > self.groups.settings.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    async def _commit(
        self, request: OffsetCommitRequest, rows: list[_Row], unknown: ErrorCode
    ) -> list[ErrorCode] | ErrorCode:
        """Commit even when nothing is left to commit: the member is checked all the same."""
        answer = await self.groups.commit(
            request.group_id,
            MemberIdentity(request.member_id, request.group_instance_id),
            request.generation_id_or_member_epoch,
            [row.offset for row in rows if row.code is ErrorCode.NONE],
        )
        if isinstance(answer, Refusal):
            return refusal_code(answer)
        taken = iter(answer)
        return [
            row.code
            if row.code is not ErrorCode.NONE
            else (ErrorCode.NONE if next(taken) else unknown)
            for row in rows
        ]


def _same_code(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    count = sum(len(topic.partitions) for topic in request.topics)
    return _response(request, iter([code] * count))


def _response(request: OffsetCommitRequest, codes: Iterator[ErrorCode]) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(each.partition_index, next(codes))
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)
