"""Sends the batches of many partitions to the brokers that lead them, several in one request.

The batches of a partition wait in a `Line`.  Only the first batch may be sent, and the next one
only after the answer to the first.  The reason: a broker assigns offsets in the order of arrival.
If it refused a batch, a later one under way would get the refused batch's offsets.  A line that
fails sends nothing more.

Brokers answer the requests of a connection one after another, and wait for all replicas before each
answer.  So a broker gets one request with the first batches of all lines at once, rather than one
for each.  A further request is sent meanwhile, on another connection, only if it is full or its
batches have waited for PATIENCE_SECONDS.  So a partition with slow replicas does not delay the
others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError, Disconnected
from tidegate_coordination.client.wire.connection import BrokerConnection
from tidegate_protocol.messages.produce import PartitionProduceResponse, ProduceRequest

from ...network.byte_budget import ByteBudget
from .produce_round import MIN_VERSION, TIMEOUT_MS, Outgoing, answers, produce_request

LANES: Final = 4
"""Requests that a broker has not answered, at most."""
REQUEST_BYTES: Final = 1 << 20
"""The most bytes of a request with several batches: the default of producers, too."""
REQUEST_BATCHES: Final = 200
PATIENCE_SECONDS: Final = 0.05
HELD_BYTES: Final = 8 << 20
"""The most bytes of batches that are held for a broker."""
READS: Final = 8
"""Batches for a broker that are read at once, beside the held ones."""
_LANE: Final = "reverse-{}"


class Line:
    """The batches of one partition that wait or are under way; see the module's docstring.

    connection: the one on which the first batch is under way.  error: why no more batches are sent.

    take: called with each batch and its answer, or None if the response has none.  It raises an
    error unless the batch is stored at the right offsets.
    """

    def __init__(self, take: Callable[[Outgoing, PartitionProduceResponse | None], None]) -> None:
        self.waiting: deque[Outgoing] = deque()
        self.connection: BrokerConnection | None = None
        self.error: Exception | None = None
        self._take = take
        self._settled = trio.Event()

    @property
    def is_ready(self) -> bool:
        """Return whether the first batch may be sent."""
        return bool(self.waiting) and self.connection is None and self.error is None

    async def until(self, left: int) -> None:
        """Wait until at most `left` batches are left.

        Raises:
          Exception: the error of `take`, or a ClassicError if the first batch was not sent or its
            outcome is unknown.
        """
        while self.error is None and len(self.waiting) > left:
            self._settled = trio.Event()
            await self._settled.wait()
        if self.error is not None:
            raise self.error

    def answered(self, answer: PartitionProduceResponse | None) -> Outgoing:
        """Take the answer to the first batch; return the batch."""
        self.connection = None
        try:
            self._take(self.waiting[0], answer)
        except Exception as error:
            self.fail(error)
        return self._pop()

    def lose(self, error: Exception) -> Outgoing:
        """Fail, since the first batch was not sent or got no answer; return the batch."""
        self.connection = None
        self.fail(error)
        return self._pop()

    def fail(self, error: Exception) -> None:
        """Send nothing more."""
        self.error = self.error or error
        self._settled.set()

    def _pop(self) -> Outgoing:
        self._settled.set()
        return self.waiting.popleft()


class _Ready(NamedTuple):
    """A line whose first batch may be sent.  since: on trio's clock."""

    line: Line
    since: float


class Leader:
    """A broker of the source.

    reads: limits concurrent reads of batches for this broker.  room: limits the bytes of batches
    that are held for it.
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.reads = trio.CapacityLimiter(READS)
        self.room = ByteBudget(HELD_BYTES)
        self._ready: deque[_Ready] = deque()
        self._open = 0
        self._changed = trio.Event()

    def add(self, line: Line) -> None:
        """Note that a line is ready."""
        self._ready.append(_Ready(line, trio.current_time()))
        self._change()

    async def begin(self) -> None:
        """Wait until a request should be sent; `end` must follow."""
        while not self._may_begin():
            with trio.move_on_at(self._patient_until()):
                await self._changed.wait()
        self._open += 1

    def end(self) -> None:
        """Note that a request has ended, with or without an answer."""
        self._open -= 1
        self._change()

    def gather(self) -> list[Line]:
        """Take lines off the queue, for one request."""
        found: list[Line] = []
        size_bytes = 0
        while self._ready and len(found) < REQUEST_BATCHES:
            line = self._ready[0].line
            if line.is_ready:
                size_bytes += len(line.waiting[0].records)
                if found and size_bytes > REQUEST_BYTES:
                    break
                found.append(line)
            self._ready.popleft()
        return found

    def take_all(self) -> list[Line]:
        """Take all ready lines off the queue."""
        found = [each.line for each in self._ready if each.line.is_ready]
        self._ready.clear()
        return found

    def _may_begin(self) -> bool:
        if not self._ready:
            return False
        return not self._open or self._is_full() or trio.current_time() >= self._patient_until()

    def _patient_until(self) -> float:
        return self._ready[0].since + PATIENCE_SECONDS if self._ready else inf

    def _is_full(self) -> bool:
        """Return whether a request is full enough that further batches would not improve it."""
        size_bytes = 0
        for count, each in enumerate(self._ready, 1):
            if each.line.is_ready:
                size_bytes += len(each.line.waiting[0].records)
            if 2 * size_bytes >= REQUEST_BYTES or count >= REQUEST_BATCHES:
                return True
        return False

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class BatchSender:
    """See the module's head.

    Args:
      may_write: called just before a request is sent.
    """

    def __init__(self, cluster: ClassicCluster, may_write: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._may_write = may_write
        self._leaders: dict[int, Leader] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Send; forever."""
        try:
            async with trio.open_nursery() as self._nursery:
                for each in self._leaders.values():
                    self._start(self._nursery, each)
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def leader(self, node_id: int) -> Leader:
        """Return the broker with this id."""
        found = self._leaders.get(node_id)
        if found is None:
            found = self._leaders[node_id] = Leader(node_id)
            if self._nursery is not None:
                self._start(self._nursery, found)
        return found

    def put(self, line: Line, batch: Outgoing) -> None:
        """Queue a batch in its line.  The caller has taken its bytes from the leader's room."""
        line.waiting.append(batch)
        if len(line.waiting) == 1:
            self._go_on(line)

    def close(self, line: Line) -> None:
        """Send nothing more of a line.

        If a batch is under way, its connection is closed: the broker must not get the rest of the
        batch much later, when another gateway writes to the partition.
        """
        line.fail(BrokerUnreachable("it is written back no more"))
        under_way = 0
        if line.connection is not None:
            line.connection.close()
            under_way = 1  # the end of its request gives the room back
        while len(line.waiting) > under_way:
            self._give(line.waiting.pop())

    def _go_on(self, line: Line) -> None:
        if line.is_ready:
            self.leader(line.waiting[0].leader).add(line)

    def _give(self, batch: Outgoing) -> None:
        self.leader(batch.leader).room.give(len(batch.records))

    # -- requests ----------------------------------------------------------------------------------

    def _start(self, nursery: trio.Nursery, leader: Leader) -> None:
        for number in range(LANES):
            nursery.start_soon(self._send_all, leader, _LANE.format(number))

    async def _send_all(self, leader: Leader, lane: str) -> None:
        """Send one request after another on one connection; forever."""
        while True:
            await leader.begin()
            try:
                await self._send_one(leader, lane)
            finally:
                leader.end()

    async def _send_one(self, leader: Leader, lane: str) -> None:
        try:
            connection = await self._cluster.connection(leader.node_id, lane)
        except ClassicError as error:
            self._lose(leader.take_all(), error)
            return
        lines = leader.gather()
        if lines:
            await self._send(connection, lines)

    async def _send(self, connection: BrokerConnection, lines: list[Line]) -> None:
        batches = [each.waiting[0] for each in lines]
        for each in lines:
            each.connection = connection

        def request(_version: int) -> ProduceRequest:
            """Make the request just before it is sent."""
            if not self._may_write():
                raise BrokerUnreachable("this gateway's lease has ended")
            return produce_request(batches)

        try:
            response = await connection.call(
                "Produce", request, min_version=MIN_VERSION, wait_seconds=TIMEOUT_MS / 1000
            )
        except ClassicError as error:
            self._lose(lines, error)
        except BaseException:
            connection.close()
            self._lose(lines, Disconnected("the gateway has ended a request"))
            raise
        else:
            for line, answer in zip(lines, answers(batches, response), strict=True):
                self._give(line.answered(answer))
                self._go_on(line)

    def _lose(self, lines: list[Line], error: ClassicError) -> None:
        for each in lines:
            # A new error for each line: one error object must not be raised in several tasks.
            kind = BrokerUnreachable if error.is_without_effect else Disconnected
            self._give(each.lose(kind(str(error))))
