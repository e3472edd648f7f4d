"""OffsetCommit: versions 2-10.

Offsets are in the metadata log before the answer.  Differs from Kafka: retention_time_ms (v2-4) is
ignored, and offsets.retention.minutes holds.  The limit on metadata is in bytes of UTF-8.  Offsets
of more than OFFSETS_AT_ONCE partitions are committed in parts, so that no commit delays others or
is too large for a log entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from types import ModuleType
from typing import ClassVar, Final, NamedTuple

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.groups.values import MemberIdentity, Refusal
from tidegate_coordination.rules.consumer_groups.offsets import OffsetToCommit, partition_exists
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_commit as messages
from tidegate_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from ...network.turns import Turns
from .group_errors import refusal_code

TOPIC_IDS_SINCE = 10
OFFSETS_AT_ONCE: Final = 2_000
_NO_TOPIC = b""
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Row(NamedTuple):
    """A partition of the request.  code: an error that was found before any proposal."""

    offset: OffsetToCommit
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Answers OffsetCommit requests."""

    coordinator: Coordinator
    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.OFFSET_COMMIT
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """Commit the partitions without an error."""
        by_id = call.version >= TOPIC_IDS_SINCE
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            rows = await self._rows(request, by_id, unknown)
        except CoordinatorUnavailable:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            count = sum(len(topic.partitions) for topic in request.topics)
            return await _response(request, repeat(code, count))
        codes: list[ErrorCode] = []
        for first in range(0, max(len(rows), 1), OFFSETS_AT_ONCE):
            part = rows[first : first + OFFSETS_AT_ONCE]
            try:
                codes += await self._commit(request, part, unknown)
            except ProposalFailed:
                codes += [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * len(part)
        return await _response(request, iter(codes))

    async def _rows(
        self, request: OffsetCommitRequest, by_id: bool, unknown: ErrorCode
    ) -> list[_Row]:
        rows = await self._look_up(request, by_id, unknown)
        if any(row.code is not ErrorCode.NONE for row in rows):
            await self.coordinator.catch_up()
            rows = await self._look_up(request, by_id, unknown)
        return rows

    async def _look_up(
        self, request: OffsetCommitRequest, by_id: bool, unknown: ErrorCode
    ) -> list[_Row]:
        turns = Turns()
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
                await turns.count()
        return rows

    def _topic_id(self, topic: OffsetCommitRequestTopic, by_id: bool) -> bytes:
        topics = self.coordinator.state.topics
        known = topics.by_shown_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
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
    ) -> list[ErrorCode]:
        """Commit the valid offsets; even if there is none, this checks the member.

        As in Kafka, the member is not checked if the request names only unknown partitions.
        """
        are_unknown = [row.code in _UNKNOWN for row in rows]
        if rows and all(are_unknown):
            return [row.code for row in rows]
        answer = await self.groups.commit(
            request.group_id,
            MemberIdentity(request.member_id, request.group_instance_id),
            request.generation_id_or_member_epoch,
            [row.offset for row in rows if row.code is ErrorCode.NONE],
        )
        if isinstance(answer, Refusal):
            code = refusal_code(answer)
            pairs = zip(rows, are_unknown, strict=True)
            return [row.code if is_unknown else code for row, is_unknown in pairs]
        taken = iter(answer)
        return [
            row.code
            if row.code is not ErrorCode.NONE
            else (ErrorCode.NONE if next(taken) else unknown)
            for row in rows
        ]


async def _response(
    request: OffsetCommitRequest, codes: Iterator[ErrorCode]
) -> OffsetCommitResponse:
    turns = Turns()
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        topics.append(answer)
        for each in topic.partitions:
            code = next(codes)
            answer.partitions.append(OffsetCommitResponsePartition(each.partition_index, code))
            await turns.count()
    return OffsetCommitResponse(topics=topics)
