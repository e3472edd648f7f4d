"""Writes the lines of an input to a topic, in order within each partition.

One task takes records in, until the waiting records take BUFFER_BYTES.  Another task writes in
rounds: it sends each leader the next batch of each of its partitions, waits for all answers, and
begins the next round.  If a batch fails with a retriable error, it is sent again unchanged, for
DELIVERY_SECONDS; the producer id prevents a second write (KIP-98).  Without a producer id, a batch
is sent again only if it reached no broker.  A batch that is too large is halved.  The first other
error ends the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final, TypeAlias

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidegate_protocol.records import Headers

from ..cluster import ClassicCluster
from ..errors import (
    BrokerUnreachable,
    ClassicError,
    Disconnected,
    Kind,
    Refused,
)
from ..failed import Failed
from ..topic_calls import no_partition, refusal
from .input_lines import BadLine, InputRecord
from .partitioner import partition_of
from .send_queue import ProducerId, SendQueue
from .writable import new_producer_id, writable_partitions

BUFFER_BYTES: Final = 16 << 20
REQUEST_BYTES: Final = 4 << 20
"""The most bytes of a request with several batches."""
STICKY_BYTES: Final = 16 << 10
"""Records without a key stay in one partition for so long, as for the Java producer (KIP-794)."""
DELIVERY_SECONDS: Final = 120.0
"""A batch is sent again for so long (delivery.timeout.ms)."""
TIMEOUT_MS: Final = 30_000
PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1.0
Pieces: TypeAlias = AsyncGenerator[Iterable[InputRecord], None]
"""The input, as it comes."""
_MIN_VERSION: Final = 3
_NAMES: Final = 12
_ALL_REPLICAS: Final = -1
# After these errors the leader may have written the batch.
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class _Outcome(Enum):
    """The outcome of one attempt to send a batch: done, to be sent again, or given up."""

    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How records are written.

    partition: None: chosen by key, and without a key by turns. headers: the headers of every
    record.  codec: see compression.Codec.
    """

    partition: int | None = None
    headers: Headers = ()
    codec: int = 0


@dataclass(slots=True)
class Written:
    """The result of producing the whole input.

    by_partition: acknowledged records.  missing: the lines that were read and not acknowledged.
    last_line: the last one that was read.  problem: why the work ended early; "" if it did not.
    """

    by_partition: dict[int, int] = field(default_factory=dict[int, int])
    missing: list[int] = field(default_factory=list[int])
    last_line: int = 0
    problem: str = ""

    @property
    def acknowledged(self) -> int:
        """Return how many records were acknowledged."""
        return sum(self.by_partition.values())


class TopicWriter:
    """See the module's head. now_ms: milliseconds since 1970.

    held_bytes: memory of the waiting records.
    """

    def __init__(
        self,
        cluster: ClassicCluster,
        topic: str,
        options: WriteOptions,
        *,
        rng: Random,
        now_ms: Callable[[], int],
    ) -> None:
        self.written = Written()
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._rng = rng
        self._now_ms = now_ms
        self._queues: dict[int, SendQueue] = {}
        self._count = 0
        self._producer: ProducerId | None = None
        self._sticky, self._sticky_bytes = 0, STICKY_BYTES
        self.held_bytes = 0
        self._at_the_door: list[int] = []
        self._is_read = False
        self._changed = trio.Event()

    async def open(self) -> None:
        """Find the topic, which the cluster may make for it, and get a producer id.

        Raises:
          Failed: there is no such topic or partition.
          ClassicError: the cluster does not say.
        """
        self._count = await writable_partitions(self._cluster, self._topic)
        partition = self._options.partition
        if partition is not None and partition >= self._count:
            raise Failed(no_partition(self._topic, self._count, partition))
        self._producer = await new_producer_id(self._cluster)

    # -- the input ---------------------------------------------------------------------------------

    async def write(self, pieces: Pieces) -> None:
        """Write all records; `written` gets the outcomes.

        pieces: may raise BadLine or OSError, which end the work once what was read is written.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, pieces)
            try:
                await self._send_all()
            finally:
                waiting = (each.record.line for q in self._queues.values() for each in q.waiting)
                self.written.missing = sorted({*waiting, *self._at_the_door})
            nursery.cancel_scope.cancel()

    async def _read(self, pieces: Pieces) -> None:
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    for record in piece:
                        await self._take(record)
        except BadLine as error:
            self._fail(str(error))
        except OSError as error:
            self._fail(f"the input cannot be read: {error}")
        self._is_read = True
        self._change()

    async def _take(self, record: InputRecord) -> None:
        self.written.last_line = record.line
        self._at_the_door = [record.line]
        while self.held_bytes and self.held_bytes + record.size_bytes > BUFFER_BYTES:
            await self._changed.wait()
        partition = self._partition_of(record)
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = SendQueue(partition)
        queue.add(record, self._now_ms())
        self._at_the_door = []
        self.held_bytes += record.size_bytes
        self._change()

    def _partition_of(self, record: InputRecord) -> int:
        if self._options.partition is not None:
            return self._options.partition
        if record.key is not None:
            return partition_of(record.key, self._count)
        if self._sticky_bytes >= STICKY_BYTES:
            self._sticky, self._sticky_bytes = self._rng.randrange(self._count), 0
        self._sticky_bytes += record.size_bytes
        return self._sticky

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _fail(self, problem: str) -> None:
        self.written.problem = self.written.problem or problem

    # -- rounds ------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Write until the input has ended and all is acknowledged, or a batch cannot be written."""
        pause_seconds = 0.0
        while True:
            ready = [each for each in self._queues.values() if each.waiting]
            if ready:
                outcomes = await self._round(ready)
                if _Outcome.FAILED in outcomes:
                    return
                if _Outcome.AGAIN not in outcomes:
                    pause_seconds = 0.0
                    continue
                pause_seconds = min(max(PAUSE_SECONDS, 2 * pause_seconds), LONGEST_PAUSE_SECONDS)
                await self._look_again(pause_seconds)
            elif self._is_read:
                return
            else:
                await self._changed.wait()

    async def _round(self, ready: Sequence[SendQueue]) -> list[_Outcome]:
        """Send the next batch of each partition, as far as a request holds them."""
        by_leader: defaultdict[int, list[SendQueue]] = defaultdict(list)
        outcomes: list[_Outcome] = []
        now = trio.current_time()
        for each in ready:
            options = self._options
            each.make_batch(options.headers, codec=options.codec, producer=self._producer, now=now)
            leader = self._cluster.metadata.leader_of(self._topic, each.partition)
            if leader is None:
                outcomes.append(self._again(each, "it has no leader"))
            else:
                by_leader[leader].append(each)
        async with trio.open_nursery() as nursery:
            for leader, queues in by_leader.items():
                nursery.start_soon(self._send, leader, _fitting(queues), outcomes)
        return outcomes

    async def _look_again(self, seconds: float) -> None:
        await trio.sleep(seconds)
        try:
            await self._cluster.refresh([self._topic])
        except ClassicError:
            return  # the next round fails with the same problem, if it lasts

    async def _send(
        self, leader: int, queues: Sequence[SendQueue], outcomes: list[_Outcome]
    ) -> None:
        """Send one request, and note what became of each batch."""
        data = [PartitionProduceData(each.partition, each.under_way) for each in queues]
        topics = [TopicProduceData(self._topic, partition_data=data)]
        request = ProduceRequest(None, _ALL_REPLICAS, TIMEOUT_MS, topics)
        try:
            connection = await self._cluster.connection(leader)
            response: ProduceResponse = await connection.call(
                "Produce",
                request,
                min_version=_MIN_VERSION,
                max_version=_NAMES,
                wait_seconds=TIMEOUT_MS / 1000,
            )
        except ClassicError as error:
            outcomes += [self._not_answered(each, error) for each in queues]
            return
        found = {p.index: p for topic in response.responses for p in topic.partition_responses}
        outcomes += [self._answered(each, found.get(each.partition)) for each in queues]

    def _not_answered(self, queue: SendQueue, error: ClassicError) -> _Outcome:
        queue.may_be_written |= not error.is_without_effect
        may_repeat = self._producer is not None or isinstance(error, BrokerUnreachable)
        if error.kind is Kind.RETRIABLE and may_repeat:
            return self._again(queue, str(error))
        return self._give_up(queue, str(error))

    def _answered(self, queue: SendQueue, answer: PartitionProduceResponse | None) -> _Outcome:
        if answer is None:
            return self._not_answered(queue, Disconnected("the broker did not name the partition"))
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            count = self.written.by_partition.get(queue.partition, 0)
            self.written.by_partition[queue.partition] = count + queue.count
            self.held_bytes -= queue.acknowledged()
            self._change()
            return _Outcome.DONE
        if code == ErrorCode.MESSAGE_TOO_LARGE and queue.halve():
            return _Outcome.DONE
        queue.may_be_written |= code in _UNKNOWN
        error = Refused(f"partition {queue.partition}", code)
        if error.kind is Kind.RETRIABLE and self._producer is not None:
            return self._again(queue, str(error))
        message, index = answer.error_message, 0
        if answer.record_errors:  # they name the bad record
            index, own = answer.record_errors[0].batch_index, answer.record_errors[0]
            message = own.batch_index_error_message or message
        return self._give_up(queue, refusal(f"partition {queue.partition}", code, message), index)

    def _again(self, queue: SendQueue, why: str) -> _Outcome:
        if trio.current_time() - queue.first_sent < DELIVERY_SECONDS:
            return _Outcome.AGAIN
        return self._give_up(queue, f"not within {DELIVERY_SECONDS:.0f} s: {why}")

    def _give_up(self, queue: SendQueue, why: str, index: int = 0) -> _Outcome:
        line, why = queue.line(index), why.removesuffix(".")
        if queue.may_be_written:
            self._fail(f"line {line} was not acknowledged: {why}; it may have been written")
        else:
            self._fail(f"line {line} was not written: {why}")
        return _Outcome.FAILED


def _fitting(queues: Iterable[SendQueue]) -> list[SendQueue]:
    """Return the longest waiting queues whose batches fit one request; the others follow later."""
    found: list[SendQueue] = []
    size = 0
    for each in sorted(queues, key=lambda queue: queue.first_sent):
        size += len(each.under_way)
        if found and size > REQUEST_BYTES:
            break
        found.append(each)
    return found
