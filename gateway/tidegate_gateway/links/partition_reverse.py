"""Writes one partition of a switched topic back to its source, batch by batch.

The source gives each batch its next offset, which must be the batch's own here.  So nothing but
this may write to the partition there, and a batch is sent only once the one before it has its
answer.  If an answer is lost, the end of the source's log says whether it has the batch:
whatever the source has beyond what is known is compared with the batches here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import trio

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.errors import BrokerUnreachable, Disconnected, Refused
from tidegate_coordination.classic.source_bounds import (
    EARLIEST,
    SourceEnd,
    source_ends,
    source_offset,
)
from tidegate_coordination.rules.returns import reached_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.batches import BatchHeader, read_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

from ..fetch.log_reader import LogReader
from .reversed_batches import Diverged, differs, fitting, sendable
from .verifying import fetched

TIMEOUT_MS: Final = 5_000
_ALL_REPLICAS: Final = -1
_MIN_VERSION: Final = 3
_LANE: Final = "reverse"
SETTLE_SECONDS: Final = 2.0
"""For so long a batch whose connection broke may still reach the source's log."""
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)


class PartitionReverse:
    """See the module's head.

    position: up to where the source is known to have the partition's batches.  problem: why it does
      not go on, for people; "" if it does.

    Args:
      limiter: bounds the batches that are held at once.
      may_write: returns whether no other gateway can have taken the partition over.
      on_progress: called after each batch.
    """

    def __init__(
        self,
        state: ClusterState,
        reader: LogReader,
        cluster: ClassicCluster,
        topic: Topic,
        index: int,
        *,
        limiter: trio.CapacityLimiter,
        may_write: Callable[[], bool],
        on_progress: Callable[[], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.number = topic.partition_numbers[index]
        self.position = -1
        self.problem = ""
        self._state = state
        self._reader = reader
        self._cluster = cluster
        self._limiter = limiter
        self._may_write = may_write
        self._on_progress = on_progress

    @property
    def partition(self) -> Partition:
        """The partition here.

        Raises:
          KeyError: it is gone.
        """
        return self._state.partitions[self.number]

    @property
    def is_there(self) -> bool:
        """Whether the partition still is here."""
        return self._state.partitions.get(self.number) is not None

    @property
    def lag_records(self) -> int:
        """Return how many offsets the source lacks, as far as is known here."""
        known = max(self.position, reached_of(self._state, self.partition) or 0)
        return self.partition.next_offset - known

    async def find_position(self) -> None:
        """Find out what the source has, after waiting for batches that may be on their way.

        Raises:
          Diverged: it has something else.
          ClassicError: it does not say.
        """
        self.position = -1
        await trio.sleep(SETTLE_SECONDS)
        await self._cluster.refresh([self.topic.name])
        place = (self.topic.name, self.index)
        end = (await source_ends(self._cluster, [place]))[place]
        if not isinstance(end, SourceEnd):
            raise BrokerUnreachable(f"{place[0]}-{place[1]}: {end}")
        reached = reached_of(self._state, self.partition)
        if reached is None:
            raise BrokerUnreachable("the topic does not reverse any more")
        if end.offset < reached:
            raise Diverged(f"the source ends at {end.offset}, and had all up to {reached}")
        first = await source_offset(self._cluster, *place, EARLIEST)
        self.position = await self._compared(max(reached, first), end.offset)
        self._on_progress()

    async def _compared(self, start: int, end: int) -> int:
        """Compare what the source has there with the batches here; return the end."""
        while start < end:
            data = await fetched(self._cluster, self.topic.name, self.index, start)
            if data.high_watermark < end:
                raise BrokerUnreachable("the source's replicas have not got all yet")
            theirs = memoryview(cast("memoryview | None", data.records) or b"")
            if not theirs:
                raise Diverged(f"the source has nothing at offset {start}, and ends at {end}")
            for raw, header in fitting(theirs, start):
                at = max(
                    start, header.base_offset
                )  # else the source has compacted what was between
                own = await self._batch_at(at) if at < self.partition.next_offset else None
                text = differs(own, raw, header)
                if text:
                    raise Diverged(text)
                start = header.last_offset + 1
        return start

    async def send_all(self) -> None:
        """Send what the source lacks, up to where the partition ends now.

        Raises:
          Diverged: the source has something else, or the batches cannot be sent.
          ClassicError: the source did not take a batch, or the outcome is unknown.
          CorruptRun, NoSuchObject, StoreUnavailable: a batch could not be read.
        """
        while self.position < self.partition.next_offset:
            async with self._limiter:
                raw = await self._batch_at(self.position)
                header = read_header(raw, 0)
                await self._send(sendable(raw, header, self.position), header)
            self.position = header.last_offset + 1
            self.problem = ""
            self._on_progress()

    async def _batch_at(self, offset: int) -> memoryview:
        partition = self.partition
        row = partition.runs[partition.runs.find(offset)]
        if not row.base_offset <= offset < row.next_offset:
            raise Diverged(f"offset {offset} is not here any more")
        if row.is_marker:
            raise Diverged(f"offset {offset} is the end of a transaction")
        part = (await self._reader.parts(partition, row, offset))[0]
        run = await self._reader.run_at(partition, part)
        return run.batch(run.find(offset))

    async def _send(self, records: memoryview, header: BatchHeader) -> None:
        name = self.topic.name
        known = self._cluster.metadata.topics.get(name)
        there = known.partitions.get(self.index) if known is not None else None
        if known is None or there is None:
            raise BrokerUnreachable(f"the source does not name {name}-{self.index}")
        data = TopicProduceData(
            name, known.topic_id or bytes(16), [PartitionProduceData(self.index, records)]
        )
        request = ProduceRequest(None, _ALL_REPLICAS, TIMEOUT_MS, [data])
        connection = await self._cluster.connection(there.leader_id, _LANE)
        if not self._may_write():
            raise BrokerUnreachable("this gateway's lease has ended")
        response: ProduceResponse = await connection.call(
            "Produce", request, min_version=_MIN_VERSION, wait_seconds=TIMEOUT_MS / 1000
        )
        self._take(response, header)

    def _take(self, response: Any, header: BatchHeader) -> None:
        parts = [each for topic in response.responses for each in topic.partition_responses]
        code = ErrorCode(parts[0].error_code) if parts else ErrorCode.UNKNOWN_SERVER_ERROR
        if code in _UNKNOWN:
            raise Disconnected(f"the source answers {code.name}")
        if code:
            raise Refused(f"{self.topic.name}-{self.index} at {header.base_offset}", code)
        if parts[0].base_offset != header.base_offset:
            raise Diverged(
                f"the source put the batch of offset {header.base_offset} at"
                f" {parts[0].base_offset}: another client writes to it"
            )
