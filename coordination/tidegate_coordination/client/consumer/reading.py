"""Reads the records of a topic's partitions, in order within each partition.

It reads in rounds: it asks each leader for the next records of its partitions, and yields them.  So
memory is bounded by FETCH_BYTES for each leader, or by one larger batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, cast

import trio

from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidegate_protocol.records import Record, decode_records

from ..cluster import ClassicCluster
from ..errors import ClassicError, Kind, Refused
from ..failed import Failed
from ..fetched_batches import BadBatch, fetched_batches
from ..source_bounds import (
    EARLIEST,
    LATEST,
    Place,
    source_offsets,
    stable_offsets,
)
from ..topic_calls import known_partitions, no_partition
from .committed_batches import without_aborted
from .positions import Position
from .start_offsets import known_offsets, start_offsets

FETCH_BYTES: Final = 4 << 20
PARTITION_BYTES: Final = 1 << 20
DECOMPRESSED_BYTES: Final = 256 << 20
"""The largest size of a decompressed batch: no person reads a larger one in a terminal."""
RECORDS_AT_ONCE: Final = 10_000
"""Records that are decoded at once: a record of some bytes takes hundreds of bytes in memory."""
WAIT_MS: Final = 500
STALL_SECONDS: Final = 30.0
"""A partition that cannot be read for so long ends the work."""
PAUSE_SECONDS: Final = 0.2
_MIN_VERSION: Final = 4
_NAMES: Final = 12


class Found(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which records are read.

    partitions: all of them if empty.  follows: continues at the end.  is_committed: without records
    of transactions that were aborted or are open.  starts: the offsets that a group has committed;
    these partitions do not begin at `start`.  has_turns: yields an empty list after each round, so
    that the caller can act.
    """

    start: Position
    partitions: tuple[int, ...] = ()
    follows: bool = False
    is_committed: bool = False
    starts: Mapping[int, int] = field(default_factory=dict[int, int])
    has_turns: bool = False


@dataclass(slots=True, eq=False)
class _Cursor:
    """A partition that is read.

    end: where to stop; None: nowhere.  problem: why the last try failed.  failing_since: the first
    failure after the last answer; None for none.
    """

    partition: int
    position: int
    end: int | None
    problem: str = ""
    failing_since: float | None = None

    @property
    def place(self) -> str:
        return f"partition {self.partition}, offset {self.position},"

    @property
    def is_over(self) -> bool:
        return self.end is not None and self.position >= self.end


class TopicReader:
    """See the module's head.  note: gets sentences for a person, such as about a gap.

    positions: the next offset of each partition, after all records that were yielded.
    """

    def __init__(
        self,
        cluster: ClassicCluster,
        topic: str,
        options: ReadOptions,
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._note = note
        self._all: list[_Cursor] = []

    @property
    def positions(self) -> dict[int, int]:
        """See the class."""
        return {each.partition: each.position for each in self._all}

    async def records(self) -> AsyncGenerator[list[Found], None]:
        """Yield records, several at a time, until the ends that the partitions had at the start.

        Raises:
          Failed: they cannot be read.
          ClassicError: the cluster does not say where they are.
        """
        cursors = self._all = await self._cursors()
        waited = 0.0  # seconds in rounds without records, since the last round with records
        while cursors := [each for each in cursors if not each.is_over]:
            began = trio.current_time()
            before = [each.position for each in cursors]
            answers = await self._round(cursors)
            for cursor, data in answers:
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._go_to_start(cursor)
                    continue
                for found in self._taken(cursor, data):
                    yield found
            is_failing = any(each.problem for each in cursors)
            if is_failing:
                await self._look_again(cursors)
            if self._options.follows or before != [each.position for each in cursors]:
                waited = 0.0
            elif not is_failing:
                waited += trio.current_time() - began
                if waited > STALL_SECONDS:
                    raise Failed(f"{cursors[0].place} got no record for {STALL_SECONDS:.0f} s")
            if self._options.has_turns:
                yield []
            cursors = [*cursors[1:], cursors[0]]  # brokers fill answers in the order of the request

    async def _cursors(self) -> list[_Cursor]:
        count = await known_partitions(self._cluster, self._topic)
        chosen = sorted(set(self._options.partitions)) or range(count)
        for each in chosen:
            if each >= count:
                raise Failed(no_partition(self._topic, count, each))
        places = [(self._topic, each) for each in chosen]
        ends = await self._ends(places)
        known = {(self._topic, index): offset for index, offset in self._options.starts.items()}
        unknown = [each for each in places if each not in known]
        found = await start_offsets(self._cluster, unknown, self._options.start, ends)
        starts = {**found, **known}
        if self._options.follows:
            return [_Cursor(place[1], starts[place], None) for place in places]
        if not self._options.is_committed:  # committed offsets may be above the last stable offset
            for place in known:
                if starts[place] > ends[place]:
                    self._note(self._beyond_the_end(place[1], starts[place]))
        return [_Cursor(place[1], starts[place], ends[place]) for place in places]

    async def _ends(self, places: Iterable[Place]) -> Mapping[Place, int]:
        if self._options.is_committed:
            return known_offsets(await stable_offsets(self._cluster, places))
        return known_offsets(await source_offsets(self._cluster, places, LATEST))

    # -- rounds ------------------------------------------------------------------------------------

    async def _round(self, cursors: Iterable[_Cursor]) -> list[tuple[_Cursor, PartitionData]]:
        """Ask all leaders once."""
        by_leader: defaultdict[int, list[_Cursor]] = defaultdict(list)
        for each in cursors:
            leader = self._cluster.metadata.leader_of(self._topic, each.partition)
            if leader is None:
                each.problem = "it has no leader"
            else:
                by_leader[leader].append(each)
        found: list[tuple[_Cursor, PartitionData]] = []
        errors: list[ClassicError] = []

        async def ask(leader: int, theirs: list[_Cursor]) -> None:
            try:
                found.extend(await self._fetched(leader, theirs))
            except ClassicError as error:
                errors.append(error)
                for each in theirs:
                    each.problem = str(error)

        async with trio.open_nursery() as nursery:
            for leader, theirs in by_leader.items():
                nursery.start_soon(ask, leader, theirs)
        for error in errors:
            if error.kind is not Kind.RETRIABLE:
                raise error
        return found

    async def _fetched(
        self, leader: int, cursors: list[_Cursor]
    ) -> list[tuple[_Cursor, PartitionData]]:
        """Return the answer about each partition of a leader."""
        partitions = [
            FetchPartition(
                each.partition, fetch_offset=each.position, partition_max_bytes=PARTITION_BYTES
            )
            for each in cursors
        ]
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._options.is_committed),
            topics=[FetchTopic(self._topic, partitions=partitions)],
        )
        connection = await self._cluster.connection(leader)
        response: FetchResponse = await connection.call(
            "Fetch",
            request,
            min_version=_MIN_VERSION,
            max_version=_NAMES,
            wait_seconds=WAIT_MS / 1000,
        )
        if response.error_code:
            raise Refused("Fetch", response.error_code)
        answers = {p.partition_index: p for topic in response.responses for p in topic.partitions}
        return [(each, answers[each.partition]) for each in cursors if each.partition in answers]

    async def _look_again(self, cursors: Iterable[_Cursor]) -> None:
        now = trio.current_time()
        for each in cursors:
            if not each.problem:
                continue
            if each.failing_since is None:
                each.failing_since = now
            if now - each.failing_since > STALL_SECONDS:
                raise Failed(f"partition {each.partition} cannot be read: {each.problem}")
            each.problem = ""
        await trio.sleep(PAUSE_SECONDS)
        try:
            await self._cluster.refresh([self._topic])
        except ClassicError as error:
            if error.kind is not Kind.RETRIABLE:
                raise

    # -- answers -----------------------------------------------------------------------------------

    def _taken(self, cursor: _Cursor, data: PartitionData) -> Iterator[list[Found]]:
        """Yield the records of each batch of an answer, some at a time, and move on.

        Raises:
          Failed: a batch is damaged or malformed.
        """
        if data.error_code:
            error = Refused(f"partition {cursor.partition}", data.error_code)
            if error.kind is not Kind.RETRIABLE:
                raise error
            cursor.problem = str(error)
            return
        cursor.failing_since = None
        try:
            yield from self._decoded(cursor, data)
        except BadBatch as error:
            raise Failed(f"partition {cursor.partition}, {error}") from None
        except InvalidBatch as error:
            place = f"partition {cursor.partition}, offset {cursor.position}"
            raise Failed(f"{place}: the batch is malformed: {error}") from None

    async def _go_to_start(self, cursor: _Cursor) -> None:
        place = (self._topic, cursor.partition)
        # Kafka's OFFSET_OUT_OF_RANGE answer does not name the start.
        start = known_offsets(await source_offsets(self._cluster, [place], EARLIEST))[place]
        if start <= cursor.position:
            raise Failed(self._beyond_the_end(cursor.partition, cursor.position))
        self._note(
            f"partition {cursor.partition}: offsets {cursor.position} to {start - 1} are deleted"
            " already; reading goes on behind them"
        )
        cursor.position = start

    def _beyond_the_end(self, partition: int, position: int) -> str:
        text = f"partition {partition} ends before offset {position}"
        if partition in self._options.starts:
            return f"{text}, which the group has committed: `tidegate group seek` moves the group"
        return f"{text}: give another place to begin"

    def _decoded(self, cursor: _Cursor, data: PartitionData) -> Iterator[list[Found]]:
        records = cast("memoryview", data.records) if data.records else memoryview(b"")
        batches = fetched_batches(records, cursor.position, after=0)
        headers = [(read_header(each.data), each) for each in batches]
        skipped = without_aborted(data.aborted_transactions if self._options.is_committed else None)
        for header, each in headers:
            if not skipped.skips(header, each.mirrored.kind):
                first = cursor.position
                found = (
                    Found(cursor.partition, record)
                    for record in decode_records(
                        each.data, max_decompressed_bytes=DECOMPRESSED_BYTES
                    )
                    if record.offset >= first and (cursor.end is None or record.offset < cursor.end)
                )
                while some := list(islice(found, RECORDS_AT_ONCE)):
                    cursor.position = some[-1].record.offset + 1
                    yield some
            cursor.position = header.last_offset + 1
