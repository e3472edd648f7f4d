"""Producers: an idempotent one that never gives up, and a plain one that never repeats.

The idempotent one keeps up to five batches in flight, as Kafka's own client does, and after a lost
connection or a retriable error sends the same batches again, in order, to any gateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import init_producer_id, produce

from .client import Client, ClientConnection, Disconnected, Reply
from .history import Event
from .workload import Key, Workload, batch_bytes

MAX_IN_FLIGHT = 5
_SEQUENCE_LIMIT = 2**31
_RETRIABLE = frozenset(
    {
        ErrorCode.INVALID_TIMESTAMP,  # of a gateway whose clock is wrong
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_DONE = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
# Nothing was written and nothing will be.
_CERTAIN = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})


@dataclass(eq=False, slots=True)
class _Batch:
    """One batch, the same in every attempt."""

    key: Key
    data: bytes
    invoke: Event


@dataclass(slots=True)
class _Sent:
    """One request: batches of different keys."""

    batches: list[_Batch]
    reply: Reply


class Producer:
    """What both kinds do."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self.rng = self.client.rng
        self.workload = workload
        self.history = workload.world.history
        self._version = self.rng.choice((3, 9, 13))

    def make(self, producer: tuple[int, int] | None, sequences: dict[int, int]) -> _Batch:
        """Make the next batch of a random key."""
        key = self.rng.choice(self.workload.keys)
        values = self.workload.values(self.rng.randint(1, 3))
        sequence = -1
        if producer is not None:
            sequence = sequences.get(key.number, 0)
            sequences[key.number] = (sequence + len(values)) % _SEQUENCE_LIMIT
        timestamp = int(self.workload.world.wall_clock() * 1000)
        data = batch_bytes(values, timestamp, producer=producer or (-1, -1), sequence=sequence)
        value = {
            "key": key.number,
            "values": values,
            "producer": list(producer) if producer is not None else None,
        }
        return _Batch(key, data, self.history.invoke(self.client.name, "send", value))

    async def submit(self, connection: ClientConnection, batches: list[_Batch], acks: int) -> _Sent:
        """Send one request."""
        topics = [
            produce.TopicProduceData(
                each.key.topic,
                each.key.topic_id,
                [produce.PartitionProduceData(each.key.partition, each.data)],
            )
            for each in batches
        ]
        request = produce.ProduceRequest(None, acks, 30_000, topics)
        reply = await connection.send(
            "Produce", produce, self._version, request, answered=acks != 0
        )
        return _Sent(batches, reply)

    def results(self, sent: _Sent, response: Any) -> list[tuple[_Batch, ErrorCode, int]]:
        """Return (batch, error, base offset) of each batch."""
        found: dict[int, tuple[ErrorCode, int]] = {}
        for topic in response.responses:
            for part in topic.partition_responses:
                key = self.workload.key_of(topic.name, topic.topic_id, part.index)
                found[key.number] = (ErrorCode(part.error_code), part.base_offset)
        return [(each, *found[each.key.number]) for each in sent.batches]


@dataclass(slots=True)
class _Identity:
    """A producer id, and the next sequence of each key."""

    producer: tuple[int, int]
    sequences: dict[int, int] = field(default_factory=dict[int, int])


class IdempotentProducer(Producer):
    """See the module's head."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._window: list[_Batch] = []
        self._identity: _Identity | None = None

    async def run(self) -> None:
        """Send until no operation is left and all is acknowledged."""
        more = True
        while more or self._window:
            if self._identity is None:
                self._identity = await self._introduce()
            room = MAX_IN_FLIGHT - len(self._window)
            for _ in range(min(room, self.rng.randint(1, MAX_IN_FLIGHT))):
                more = more and self._add(self._identity)
            await self._round()
            await self.client.pause(2.0)
        self.client.close()

    def _add(self, identity: _Identity) -> bool:
        if not self.workload.take():
            return False
        self._window.append(self.make(identity.producer, identity.sequences))
        return True

    async def _introduce(self) -> _Identity:
        request = init_producer_id.InitProducerIdRequest(None, 60_000)
        while True:
            try:
                answer = await self.client.call("InitProducerId", init_producer_id, 4, request)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            if answer.error_code == ErrorCode.NONE:
                return _Identity((answer.producer_id, answer.producer_epoch))
            await self.client.pause(1.0)

    async def _round(self) -> None:
        """Send all that is not acknowledged, in order, and take the answers."""
        try:
            connection = await self.client.connection()
            sent = [await self.submit(connection, each, -1) for each in self._requests()]
            for each in sent:
                response = await each.reply.wait(self.rng.choice((2.0, 15.0, 40.0)))
                for batch, code, offset in self.results(each, response):
                    self._settle(batch, code, offset)
        except Disconnected:
            self.client.close()
            await self.client.pause(1.0)

    def _requests(self) -> list[list[_Batch]]:
        """Put neighbours of different keys together, sometimes."""
        requests: list[list[_Batch]] = []
        for batch in self._window:
            keys = {each.key for each in requests[-1]} if requests else {batch.key}
            if batch.key in keys or self.rng.random() < 0.5:
                requests.append([batch])
            else:
                requests[-1].append(batch)
        return requests

    def _settle(self, batch: _Batch, code: ErrorCode, offset: int) -> None:
        if batch not in self._window:
            return  # given up with its producer id
        if code in _DONE:
            self._window.remove(batch)
            self.history.ok(batch.invoke, offset=offset if code == ErrorCode.NONE else -1)
            return
        is_first = next(each for each in self._window if each.key == batch.key) is batch
        if code in _RETRIABLE or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first):
            if code == ErrorCode.INVALID_TIMESTAMP:
                self.client.close()
            return
        # An earlier attempt of it may have been written all the same.
        self.history.info(batch.invoke, error=code.name)
        self._window.remove(batch)
        for each in self._window:
            self.history.info(each.invoke)
        self._window = []
        self._identity = None


class PlainProducer(Producer):
    """See the module's head."""

    async def run(self) -> None:
        """Send until no operation is left."""
        while self.workload.take():
            acks = self.rng.choice((-1, 1, 0))
            batches = [self.make(None, {}) for _ in range(self.rng.randint(1, 3))]
            await self._round(batches, acks)
            await self.client.pause(3.0)
        self.client.close()

    async def _round(self, batches: list[_Batch], acks: int) -> None:
        left = list(batches)
        try:
            connection = await self.client.connection()
            sent = [await self.submit(connection, [each], acks) for each in batches]
            for each in sent if acks else []:
                response = await each.reply.wait(20.0)
                for batch, code, offset in self.results(each, response):
                    left.remove(batch)
                    self._settle(batch, code, offset)
        except Disconnected:
            self.client.close()
        for batch in left:
            self.history.info(batch.invoke)
        await trio.lowlevel.checkpoint()

    def _settle(self, batch: _Batch, code: ErrorCode, offset: int) -> None:
        if code == ErrorCode.NONE:
            self.history.ok(batch.invoke, offset=offset)
        elif code in _CERTAIN:
            self.history.fail(batch.invoke, error=code.name)
        else:
            self.history.info(batch.invoke, error=code.name)
