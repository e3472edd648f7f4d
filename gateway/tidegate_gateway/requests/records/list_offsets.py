"""ListOffsets: versions 1-11.

The gateway first reads the log to its end, so the answer covers all records that any gateway
acknowledged before the request.  A search by time is exact to the record (time_search.py).

If a link forwards writes, the end of a copy is the source's end.  The copy lags a moment behind,
and a reader of all acknowledged records waits until the copy reaches this end.

Differs from Kafka: nothing is tiered, so earliest local (-4) is earliest, and latest tiered (-5)
and earliest pending upload (-6) are -1, as in Kafka without remote storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

import structlog
import trio

from tidegate_coordination.client.source_bounds import Place, SourceEnd
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_offsets as codec
from tidegate_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import NoSuchObject, StoreMisconfigured, StoreUnavailable

from ...fetch.fetch_plan import FetchSettings
from ...fetch.log_reader import LogReader
from ...fetch.offsets_records import Found
from ...fetch.prepared_runs import CorruptRun
from ...fetch.time_search import find_first, find_largest
from ...migration.forward.source_ends import SourceEnds
from ...network.call import Call
from ...network.turns import Turns
from ...work.client import client_of
from ...work.fair_pool import ClientPool, FairPool, PoolBusy
from .fetch_answer import epoch_error

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
READ_COMMITTED: Final = 1

_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
# Errors that may end by themselves, or by an operator, while the client repeats the request.
_PASSING: Final = (NoSuchObject, StoreMisconfigured, StoreUnavailable, UnknownVersion)
_EPOCHS_FROM: Final = 4
_NO_EPOCH: Final = -1
_NEVER: Final = 1 << 15

_log = structlog.get_logger("tidegate.list_offsets", STRANGERS_LINES)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search that has to read records: by time, or for the largest time stamp (-3).

    end_offset: the answer must be below it.
    """

    answer: ListOffsetsPartitionResponse
    partition: Partition
    timestamp: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """A partition whose end offset comes from its source."""

    answer: ListOffsetsPartitionResponse
    topic: Topic
    partition: Partition

    @property
    def place(self) -> Place:
        """The topic's name, and the partition's index."""
        return self.topic.name, self.answer.partition_index


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Answers ListOffsets requests."""

    coordinator: Coordinator
    sources: SourceEnds
    reader: LogReader
    settings: FetchSettings
    pool: FairPool
    api_key: ClassVar[int] = ApiKey.LIST_OFFSETS
    messages: ClassVar[ModuleType] = codec

    async def handle(self, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Answer every partition in the order asked."""
        is_proven = await self._catch_up()
        answers = _Answers(
            self.coordinator.state, self.sources, request, call.version, is_proven=is_proven
        )
        turns = Turns()
        topics: list[ListOffsetsTopicResponse] = []
        for asked in request.topics:
            answered = ListOffsetsTopicResponse(asked.name)
            topics.append(answered)
            for partition in asked.partitions:
                answered.partitions.append(answers.answer(asked.name, partition))
                await turns.count()
        await self._ask_sources(answers.copies, request.isolation_level)
        await self._search_all(answers.searches, self.pool.of(client_of(call)))
        if call.version < _EPOCHS_FROM:
            for topic in topics:
                for each in topic.partitions:
                    each.leader_epoch = _NO_EPOCH
        return ListOffsetsResponse(topics=topics)

    async def _catch_up(self) -> bool:
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            return False
        return True

    async def _ask_sources(self, copies: Sequence[_Copy], isolation_level: int) -> None:
        """Fill in the ends that sources return; for the others clients ask again.

        If the copy was switched meanwhile, the source's end is the offset of the switch.  This was
        the partition's end at a moment after the request came.
        """
        if not copies:
            return
        is_committed = isolation_level == READ_COMMITTED
        asked = {each.place: each.topic for each in copies}
        ends = await self.sources.ends(asked, is_committed=is_committed)
        for each in copies:
            end = ends.get(each.place)
            if end is not None:
                each.answer.error_code = ErrorCode.NONE
                each.answer.offset, each.answer.leader_epoch = _later(
                    end, each.partition, is_committed=is_committed
                )

    async def _search_all(self, searches: Sequence[_Search], pool: ClientPool) -> None:
        """Search several partitions at a time; each task takes the next free search.

        After the deadline, unfinished searches keep their retriable error.
        """
        if not searches:
            return
        waiting = iter(searches)
        with trio.move_on_after(self.settings.read_deadline_seconds):
            async with trio.open_nursery() as nursery:
                for _ in range(min(len(searches), self.settings.concurrent_reads)):
                    nursery.start_soon(self._work, waiting, pool)

    async def _work(self, waiting: Iterator[_Search], pool: ClientPool) -> None:
        for search in waiting:
            answer = search.answer
            try:
                found = await self._search(search, pool)
            except _PASSING as error:
                _log.warning("a search by time could not read the store", error=str(error))
            except PoolBusy:
                return  # the client will ask again
            except CorruptRun:
                answer.error_code = ErrorCode.CORRUPT_MESSAGE
            else:
                answer.error_code = ErrorCode.NONE
                if found is not None and found.offset < search.end_offset:
                    answer.offset, answer.timestamp = found
                    answer.leader_epoch = search.partition.epoch_at(found.offset)

    async def _search(self, search: _Search, pool: ClientPool) -> Found | None:
        partition = search.partition
        made = self.reader.offsets_records
        if partition in made:
            await trio.lowlevel.checkpoint()
            is_largest, wanted = search.timestamp == MAX_TIMESTAMP, search.timestamp
            return made.largest(partition) if is_largest else made.first_at(partition, wanted)
        if search.timestamp == MAX_TIMESTAMP:
            return await find_largest(self.reader, pool, partition)
        return await find_first(self.reader, pool, partition, search.timestamp, partition.log_start)


def _later(end: SourceEnd, partition: Partition, *, is_committed: bool) -> tuple[int, int]:
    """Return the later one of the source's end and the end here, and its epoch.

    While a topic returns to its source, the end here is later.  If the epoch is newer than the one
    in this cluster's Metadata, the answer has no epoch: otherwise clients would take their metadata
    for old, and wait for newer metadata.
    """
    here = partition.last_stable_offset if is_committed else partition.next_offset
    if end.offset < here:
        return here, partition.leader_epoch
    is_known = end.leader_epoch <= partition.leader_epoch
    return end.offset, end.leader_epoch if is_known else _NO_EPOCH


class _Answers:
    """Answers from the state alone if possible; other partitions become searches or copies."""

    def __init__(
        self,
        state: ClusterState,
        sources: SourceEnds,
        request: ListOffsetsRequest,
        version: int,
        *,
        is_proven: bool,
    ) -> None:
        self._state = state
        self._sources = sources
        self._version = version
        self._is_proven = is_proven
        self._is_committed_only = request.isolation_level == READ_COMMITTED
        self._asked = Counter(
            (topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        )
        self.searches: list[_Search] = []
        self.copies: list[_Copy] = []

    def answer(self, name: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        """Return the answer about a partition; a search or the source may fill it in later."""
        answer = ListOffsetsPartitionResponse(asked.partition_index)
        partition = self._partition(name, asked.partition_index)
        code = self._check(name, asked, partition)
        if code or partition is None:
            answer.error_code = code
        elif asked.timestamp == MAX_TIMESTAMP or asked.timestamp >= 0:
            # A retriable error, until the search is done.
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            self.searches.append(_Search(answer, partition, asked.timestamp, self._end(partition)))
        elif asked.timestamp == LATEST and self._sources.knows(topic := self._topic(name)):
            # A retriable error, until the source has answered.
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.copies.append(_Copy(answer, topic, partition))
        elif asked.timestamp == LATEST:
            answer.offset, answer.leader_epoch = self._end(partition), partition.leader_epoch
        elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
            answer.offset = partition.log_start
            answer.leader_epoch = partition.epoch_at(partition.log_start)
        return answer

    def _check(
        self, name: str, asked: ListOffsetsPartition, partition: Partition | None
    ) -> ErrorCode:
        if self._asked[name, asked.partition_index] > 1:
            return ErrorCode.INVALID_REQUEST
        if asked.timestamp < 0 and self._version < _SINCE.get(asked.timestamp, _NEVER):
            return ErrorCode.UNSUPPORTED_VERSION
        if not self._is_proven:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return epoch_error(asked.current_leader_epoch, partition)

    def _topic(self, name: str) -> Topic:
        return self._state.topics.by_name[name]

    def _partition(self, name: str, index: int) -> Partition | None:
        topic = self._state.topics.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return None
        return self._state.partitions.get(topic.partition_numbers[index])

    def _end(self, partition: Partition) -> int:
        return partition.last_stable_offset if self._is_committed_only else partition.next_offset
