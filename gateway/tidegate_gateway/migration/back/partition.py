"""Writes one partition of a switched topic back to its source, batch by batch.

The source gives each batch its next offset, which must equal the batch's offset here.  So no other
client may write to the partition at the source, and a batch is sent only after the answer to the
batch before.  If an answer is lost, the end of the source's log shows whether the source has the
batch.  All batches of the source beyond the known position are compared with the batches here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, Disconnected, Kind, Refused
from tidegate_coordination.client.metadata import Topic as SourceTopic
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import (
    EARLIEST,
    SourceEnd,
    source_ends,
    source_offset,
)
from tidegate_coordination.rules.written_back import reached_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.produce import PartitionProduceResponse

from ...fetch.log_reader import LogReader
from .batch_sender import BatchSender, Line
from .batches import Diverged, sendable
from .produce_round import Outgoing
from .source_tail import batch_here, compared_once

AHEAD: Final = 1
"""Batches that are read while the one before them is sent."""
SETTLE_SECONDS: Final = 2.0
"""For so long the end of the source's log must stand still: a batch may be on its way."""
FENCED_SECONDS: Final = 60.0
"""For so long the source may refuse batches as too large: its fence is lifted by then."""
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)


@dataclass(frozen=True, slots=True)
class ReverseParts:
    """The parts that all partitions of a link share.

    sender: sends batches.  limiter: bounds how many fetches of batches to compare are in memory at
    once.  catch_up: reads the log to its end.  on_progress: called after each batch.
    """

    state: ClusterState
    reader: LogReader
    link: Link
    cluster: ClassicCluster
    sender: BatchSender
    limiter: trio.CapacityLimiter
    catch_up: Callable[[], Awaitable[None]]
    on_progress: Callable[[], None]


class PartitionReverse:
    """See the module's head.

    position: the offset up to which the source is known to have the partition's batches; -1 if
    unknown.  problem: why the partition is not written back now, for people; "" if it is.
    """

    def __init__(self, parts: ReverseParts, topic: Topic, index: int) -> None:
        self.topic = topic
        self.index = index
        self.number = topic.partition_numbers[index]
        self.position = -1
        self.problem = ""
        self._parts = parts
        self._state = parts.state
        self._cluster = parts.cluster
        self._fenced_since: float | None = None
        self._grown = trio.Event()

    @property
    def is_there(self) -> bool:
        """Whether this cluster still has the partition."""
        return self._state.partitions.get(self.number) is not None

    @property
    def partition(self) -> Partition:
        """The partition here.

        Raises:
          BrokerUnreachable: the partition is deleted; this task ends soon.
        """
        found = self._state.partitions.get(self.number)
        if found is None:
            raise BrokerUnreachable(f"{self.topic.name} is deleted")
        return found

    @property
    def lag_records(self) -> int:
        """Return how many offsets the source lacks, as far as this gateway knows."""
        known = max(self.position, reached_of(self._state, self.partition) or 0)
        return self.partition.next_offset - known

    def wake(self) -> None:
        """Note that the partition may have grown."""
        self._grown.set()

    async def wait_for_more(self) -> None:
        """Wait until the partition has records that the source lacks."""
        while self.position >= self.partition.next_offset:
            self._grown = trio.Event()
            await self._grown.wait()

    # -- what the source has -----------------------------------------------------------------------

    async def find_position(self) -> None:
        """Find out what the source has, after a wait for batches that may still be under way.

        Raises:
          Diverged: the source has other batches.
          BrokerUnreachable: the partition is deleted, or is no longer written back.
          ClassicError: the source does not answer.
          CoordinatorUnavailable: the log was not read to its end.
          CorruptRun, NoSuchObject, StoreUnavailable: a batch could not be read.
        """
        self.position = -1
        before, end = -1, await self._end()
        while True:
            # Another gateway may have written batches whose log entries this replica has not read
            # yet.
            await self._parts.catch_up()
            is_foreign = end > self.partition.next_offset
            if end == before or is_foreign:
                break
            await trio.sleep(SETTLE_SECONDS)
            before, end = end, await self._end()
        reached = reached_of(self._state, self.partition)
        if reached is None:
            raise BrokerUnreachable(f"{self.topic.name} is written back no more")
        if end < reached:
            raise Diverged(f"the source ends at {end}, and had all up to {reached}")
        first = await source_offset(self._cluster, self.topic.name, self.index, EARLIEST)
        self.position = await self._compared(max(reached, first), end)
        self.problem = ""
        self._parts.on_progress()

    async def _end(self) -> int:
        """Return the leader's log end offset; a former leader could return another one."""
        await self._cluster.refresh([self.topic.name])
        self._there()
        place = (self.topic.name, self.index)
        end = (await source_ends(self._cluster, [place]))[place]
        if not isinstance(end, SourceEnd):
            raise BrokerUnreachable(f"{place[0]}-{place[1]}: {end}")
        return end.offset

    def _there(self) -> SourceTopic:
        """Return the topic's metadata at the source.

        Raises:
          BrokerUnreachable: the source's metadata does not have the topic or this partition now.
          Diverged: the source has another topic of this name now.
        """
        name = self.topic.name
        known = self._cluster.metadata.topics.get(name)
        if known is None or self.index not in known.partitions:
            raise BrokerUnreachable(f"the source does not name {name}-{self.index}")
        if topic_id_of(known, self._parts.link.cluster_id) != self.topic.shown_id:
            raise Diverged(f"the source has another topic {name} now")
        return known

    async def _compared(self, start: int, end: int) -> int:
        """Compare the source's batches in this range with the batches here; return the end."""
        while start < end:
            async with self._parts.limiter:
                start = await self._compared_once(start, end)
        return start

    async def _compared_once(self, start: int, end: int) -> int:
        parts, place = self._parts, (self.topic.name, self.index)
        found = await compared_once(self._cluster, parts.reader, self.partition, place, start, end)
        if found.difference:
            raise Diverged(found.difference)
        return found.until

    # -- sending -----------------------------------------------------------------------------------

    async def send_all(self) -> None:
        """Send the records that the source lacks, up to the partition's present end.

        Raises:
          Diverged: the source has other batches, or will never take a batch.
          ClassicError: the source did not take a batch, or the outcome is unknown.
          CorruptRun, NoSuchObject, StoreUnavailable: a batch could not be read.
        """
        sender, line = self._parts.sender, Line(self._take)
        try:
            await self._read_all(line)
            await line.until(0)
        finally:
            sender.close(line)

    async def _read_all(self, line: Line) -> None:
        """Read the batches to send, a little ahead of the sender."""
        offset = self.position
        while offset < self.partition.next_offset:
            try:
                offset = await self._read_one(line, offset)
            except Exception:
                await line.until(0)  # the batches before this one may still be sent
                raise
            await line.until(AHEAD)

    async def _read_one(self, line: Line, offset: int) -> int:
        """Read the batch of an offset and queue it for the sender; return the offset after it."""
        known, name = self._there(), self.topic.name
        leader = self._parts.sender.leader(known.partitions[self.index].leader_id)
        async with leader.reads:
            raw = await self._batch_at(offset)
            header = read_header(raw, 0)
            records = sendable(raw, header, offset)
            await leader.room.take(len(records))
        topic_id = known.topic_id or bytes(16)
        batch = Outgoing(leader.node_id, name, topic_id, self.index, records, header)
        self._parts.sender.put(line, batch)
        return header.last_offset + 1

    async def _batch_at(self, offset: int) -> memoryview:
        return await batch_here(self._parts.reader, self.partition, offset)

    def _take(self, batch: Outgoing, answer: PartitionProduceResponse | None) -> None:
        """Handle the source's answer to a batch; raises as send_all()."""
        if answer is None:
            raise Disconnected(f"the source does not name {self.topic.name}-{self.index}")
        base_offset = batch.header.base_offset
        if answer.error_code:
            self._refused(answer.error_code, base_offset)
        if answer.base_offset != base_offset:
            raise Diverged(
                f"the source put the batch of offset {base_offset} at"
                f" {answer.base_offset}: another client writes to it"
            )
        self.position = batch.header.last_offset + 1
        self.problem, self._fenced_since = "", None
        self._parts.on_progress()

    def _refused(self, code: int, offset: int) -> None:
        """Raise the exception for an error code of the source; see send_all()."""
        if code in _UNKNOWN:
            raise Disconnected(f"the source answers {ErrorCode(code).name}")
        refused = Refused(f"{self.topic.name}-{self.index} at {offset}", code)
        now = trio.current_time()
        self._fenced_since = self._fenced_since or now
        is_fenced = code == ErrorCode.MESSAGE_TOO_LARGE
        may_pass = is_fenced and now - self._fenced_since < FENCED_SECONDS
        # A missing right is no divergence, since an operator can grant it.
        if may_pass or refused.kind in (Kind.RETRIABLE, Kind.NOT_ALLOWED):
            raise refused
        raise Diverged(f"the source refuses a batch: {refused}")
