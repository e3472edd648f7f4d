"""OffsetFetch: versions 1-10.

Differs from Kafka: any gateway answers, not only the group's, from a replica that has read the
metadata log to its end.  For a forwarded group the source of its link answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.events.groups import CommittedOffset
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import PartitionOffsets
from tidegate_protocol.apis import ApiKey
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

from ...migration.forward.coordinators import EACH_SECONDS, NotForwarded, SourceRequest
from ...migration.forward.group_versions import fetch_request, fetch_response
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ...network.turns import Turns, in_order

NAME = "OffsetFetch"
SEVERAL_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """Answers OffsetFetch requests."""

    coordinator: Coordinator
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.OFFSET_FETCH
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Answer for each group; requests of one group are first turned into the newer form."""
        wanted = [_single_group(request)]
        if call.version >= SEVERAL_SINCE:
            wanted = list(_without_repeats(request.groups))
        code = ErrorCode.NONE
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            # Not COORDINATOR_NOT_AVAILABLE: Java consumers below 3.9 treat it as fatal here.
            code = ErrorCode.NOT_COORDINATOR
        by_id = call.version >= TOPIC_IDS_SINCE
        turns = Turns()
        pending = _Pending(self.coordinator.state if request.require_stable else None)
        groups: list[OffsetFetchResponseGroup] = []
        late = trio.current_time() + EACH_SECONDS
        for each in wanted:
            with trio.move_on_at(late):
                await self.forwards.unfenced(each.group_id)
            if self.forwards.takes(each.group_id):
                groups.append(await self._from_source(call, each, request.require_stable, late))
            elif code:
                groups.append(_refused(each, code))
            else:
                groups.append(await self._group(each, by_id, turns, pending))
            await turns.count()
        if call.version >= SEVERAL_SINCE:
            return OffsetFetchResponse(groups=groups)
        return _single_response(groups[0])

    async def _from_source(
        self, call: Call, wanted: OffsetFetchRequestGroup, require_stable: bool, late: float
    ) -> OffsetFetchResponseGroup:
        """Return the source's answer for a group of a link.  late: the deadline on trio's clock."""
        with trio.move_on_at(late):
            return await self._forwarded(call, wanted, require_stable)
        return _refused(wanted, ErrorCode.NOT_COORDINATOR)

    async def _forwarded(
        self, call: Call, wanted: OffsetFetchRequestGroup, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Return the source's answer for a group of a link."""
        topics = self.coordinator.state.topics

        def make(version: int) -> OffsetFetchRequest:
            return fetch_request(wanted, version, topics, require_stable=require_stable)

        asked = SourceRequest(wanted.group_id, NAME, make, call.version, call.client_id)
        try:
            answer = await self.forwards.call(asked)
        except NotForwarded as refused:
            unavailable = refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            return _refused(wanted, ErrorCode.NOT_COORDINATOR if unavailable else refused.code)
        return fetch_response(wanted, answer, topics)

    async def _group(
        self, wanted: OffsetFetchRequestGroup, by_id: bool, turns: Turns, pending: _Pending
    ) -> OffsetFetchResponseGroup:
        answer = OffsetFetchResponseGroup(group_id=wanted.group_id)
        if wanted.topics is None:
            answer.topics = await self._all_topics(wanted.group_id, by_id, turns, pending)
            return answer
        for each in wanted.topics:
            answer.topics.append(await self._topic(wanted.group_id, each, by_id, turns, pending))
            await turns.count()
        return answer

    async def _all_topics(
        self, group_id: str, by_id: bool, turns: Turns, pending: _Pending
    ) -> list[OffsetFetchResponseTopics]:
        rows: list[OffsetFetchResponseTopics] = []
        for topic_id in list(self._offsets(group_id)):
            partitions = await self._all_partitions(group_id, topic_id, turns, pending)
            topic = self.coordinator.state.topics.by_id.get(topic_id)
            if topic is not None and partitions:
                rows.append(_topic_row(topic.name, topic.shown_id, partitions, by_id))
            await turns.count()
        return rows

    async def _all_partitions(
        self, group_id: str, topic_id: bytes, turns: Turns, pending: _Pending
    ) -> list[OffsetFetchResponsePartitions]:
        """Return all offsets of a topic, as of one moment."""
        rows: list[OffsetFetchResponsePartitions] = []
        of_topic = self._offsets(group_id).get(topic_id, {}).copy()
        for index in await in_order(of_topic, turns):
            rows.append(pending.or_partition(group_id, topic_id, index, of_topic[index]))
            await turns.count()
        return rows

    def _offsets(self, group_id: str) -> Mapping[bytes, PartitionOffsets]:
        group = self.coordinator.state.groups.get(group_id)
        return group.offsets if group is not None else {}

    async def _topic(
        self,
        group_id: str,
        wanted: OffsetFetchRequestTopics,
        by_id: bool,
        turns: Turns,
        pending: _Pending,
    ) -> OffsetFetchResponseTopics:
        partitions: list[OffsetFetchResponsePartitions] = []
        topic_id, code = self._topic_id(wanted, by_id)
        of_topic = self._offsets(group_id).get(topic_id, {})
        for index in wanted.partition_indexes:
            offset = of_topic.get(index)
            partitions.append(pending.or_partition(group_id, topic_id, index, offset, code))
            if await turns.count():
                topic_id, code = self._topic_id(wanted, by_id)
                of_topic = self._offsets(group_id).get(topic_id, {})
        return _topic_row(wanted.name, wanted.topic_id, partitions, by_id)

    def _topic_id(self, wanted: OffsetFetchRequestTopics, by_id: bool) -> tuple[bytes, ErrorCode]:
        topics = self.coordinator.state.topics
        topic = (
            topics.by_shown_id.get(wanted.topic_id) if by_id else topics.by_name.get(wanted.name)
        )
        if topic is None:
            return b"", ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.NONE
        return topic.topic_id, ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class _Pending:
    """The offsets that open transactions have staged, for require_stable (KIP-447)."""

    state: ClusterState | None

    def or_partition(
        self,
        group_id: str,
        topic_id: bytes,
        index: int,
        committed: CommittedOffset | None,
        code: ErrorCode = ErrorCode.NONE,
    ) -> OffsetFetchResponsePartitions:
        """Return the answer for a partition.

        With require_stable, it is an error while a transaction has staged the offset.
        """
        state = self.state
        if state is not None and state.transactions.is_pending(group_id, (topic_id, index)):
            return _partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _partition(index, committed, code)


def _without_repeats(
    groups: Iterable[OffsetFetchRequestGroup],
) -> Iterator[OffsetFetchRequestGroup]:
    """Drop repeated requests for all offsets of a group, since such answers have no size limit."""
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
    """Return a refusal.  Each partition has the code, too: version 1 has none for the group."""
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
