"""OffsetFetch: versions 1-10.

Differs from Kafka: any gateway answers, not the group's alone, from a replica that has read the
metadata log to its end; require_stable changes nothing while there are no transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.group_events import CommittedOffset
from tidegate_coordination.state.groups import Group
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_fetch as messages
from tidegate_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

from ..call import Call

SEVERAL_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """See the module's head."""

    coordinator: Coordinator
    api_key: ClassVar[int] = 9
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Answer for each group; versions that know one group are turned into the newer form."""
        wanted = [_single_group(request)]
        if call.version >= SEVERAL_SINCE:
            wanted = list(_without_repeats(request.groups))
        code = ErrorCode.NONE
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        by_id = call.version >= TOPIC_IDS_SINCE
        groups = [self._group(each, by_id) if not code else _refused(each, code) for each in wanted]
        if call.version >= SEVERAL_SINCE:
            return OffsetFetchResponse(groups=groups)
        return _single_response(groups[0])

    def _group(self, wanted: OffsetFetchRequestGroup, by_id: bool) -> OffsetFetchResponseGroup:
        group = self.coordinator.state.groups.get(wanted.group_id)
        if wanted.topics is None:
            topics = self._all_topics(group, by_id)
        else:
            topics = [self._topic(group, each, by_id) for each in wanted.topics]
        return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)

    def _all_topics(self, group: Group | None, by_id: bool) -> list[OffsetFetchResponseTopics]:
        rows: list[OffsetFetchResponseTopics] = []
        if group is None:
            return rows
        for topic_id, of_topic in group.offsets.items():
            topic = self.coordinator.state.topics.by_id.get(topic_id)
            if topic is not None:
                partitions = [_partition(index, each) for index, each in sorted(of_topic.items())]
                rows.append(_topic_row(topic.name, topic_id, partitions, by_id))
        return rows

    def _topic(
        self, group: Group | None, wanted: OffsetFetchRequestTopics, by_id: bool
    ) -> OffsetFetchResponseTopics:
        topics = self.coordinator.state.topics
        topic = topics.by_id.get(wanted.topic_id) if by_id else topics.by_name.get(wanted.name)
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.NONE
        partitions = [
            _partition(index, _committed(group, topic, index), code)
            for index in wanted.partition_indexes
        ]
        return _topic_row(wanted.name, wanted.topic_id, partitions, by_id)


def _committed(group: Group | None, topic: Topic | None, index: int) -> CommittedOffset | None:
    if group is None or topic is None:
        return None
    return group.offset(topic.topic_id, index)


def _without_repeats(
    groups: Iterable[OffsetFetchRequestGroup],
) -> Iterator[OffsetFetchRequestGroup]:
    """Leave out the second question for all offsets of a group, whose answer has no bound."""
    whole: set[str] = set()
    for each in groups:
        if each.topics is None:
            if each.group_id in whole:
                continue
            whole.add(each.group_id)
        yield each


def _single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _refused(wanted: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """Version 1 has no field for a group's error, so each partition carries it as well."""
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_partition(index, None, code) for index in topic.partition_indexes],
        )
        for topic in wanted.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics, error_code=code)


def _topic_row(
    name: str, topic_id: bytes, partitions: list[OffsetFetchResponsePartitions], by_id: bool
) -> OffsetFetchResponseTopics:
    row = OffsetFetchResponseTopics(partitions=partitions)
    if by_id:
        row.topic_id = topic_id
    else:
        row.name = name
    return row


def _partition(
    index: int, committed: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(index, NO_OFFSET, -1, "", code)
    return OffsetFetchResponsePartitions(
        index, committed.offset, committed.leader_epoch, committed.metadata, code
    )


def _single_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(each.name, _older_form(each.partitions)) for each in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _older_form(
    partitions: Sequence[OffsetFetchResponsePartitions],
) -> list[OffsetFetchResponsePartition]:
    return [
        OffsetFetchResponsePartition(
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for each in partitions
    ]
