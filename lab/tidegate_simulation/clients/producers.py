"""Producers: an idempotent one that repeats until acknowledged, and a plain one without repeats.

The idempotent producer keeps up to five batches in flight, as Kafka's own client does.  After a
lost connection or a retriable error it sends the same batches again, in order, to any gateway.
After any other error it continues with a new producer id, or raises its epoch (KIP-360).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import init_producer_id, produce

from ..checks.history import Event
from ..plans.expiry_plan import delivery_seconds
from ..world.world import EPOCH_SECONDS
from .client import Client, ClientConnection, Disconnected, ProtocolBroken, Reply
from .workload import Key, Workload, batch_bytes

MAX_IN_FLIGHT = 5
SEQUENCE_LIMIT = 2**31
_IDS_FROM = 13
RETRIABLE = frozenset(
    {
        ErrorCode.INVALID_TIMESTAMP,  # of a gateway with a wrong clock
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
DONE = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
# Errors after which another gateway may accept the batch.
ELSEWHERE = frozenset({ErrorCode.INVALID_TIMESTAMP, ErrorCode.NOT_LEADER_OR_FOLLOWER})
# Errors after which the batch is not written and never will be.
_CERTAIN = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})


@dataclass(eq=False, slots=True)
class Batch:
    """One batch, the same in every attempt."""

    key: Key
    data: bytes
    invoke: Event


@dataclass(slots=True)
class Request:
    """One request: batches of different keys."""

    batches: list[Batch]
    reply: Reply


class Producer:
    """The common part of both kinds."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self.rng = self.client.rng
        self.workload = workload
        self.history = workload.world.history
        self._version = self.rng.choice((3, 9, 13))
        self.transactional_id: str | None = None
        self.transaction = ""  # its name in the history
        self.attributes = 0  # of its batches, beside the codec
        self._delivery_seconds = delivery_seconds(workload.world.settings)

    @property
    def uses_ids(self) -> bool:
        """Return whether the producer names topics by their ids."""
        return self._version >= _IDS_FROM

    def make(
        self,
        key: Key,
        producer: tuple[int, int] | None,
        sequences: dict[int, int],
        of: Sequence[int] = (),
    ) -> Batch:
        """Make the next batch of a key; of: the inputs of its values, one for each value."""
        values = self.workload.values(len(of) or self._record_count())
        sequence = -1
        if producer is not None:
            sequence = sequences.get(key.number, 0)
            sequences[key.number] = (sequence + len(values)) % SEQUENCE_LIMIT
        timestamp = int(self.workload.world.wall_clock() * 1000)
        data = batch_bytes(
            values,
            timestamp,
            producer=producer or (-1, -1),
            sequence=sequence,
            keyed=self.workload.keyed.get(key.number),
            attributes=self.attributes,
        )
        value: dict[str, Any] = {
            "key": key.number,
            "values": values,
            "producer": list(producer) if producer is not None else None,
        }
        if key.number not in self.workload.append_time:
            value["ts"] = timestamp - int(EPOCH_SECONDS * 1000)
        if not self.uses_ids:
            value["by_name"] = True
        if self.transaction:
            value["txn"] = self.transaction
        if of:
            value["of"] = list(of)
        return Batch(key, data, self.history.invoke(self.client.name, "send", value))

    def is_too_old(self, batch: Batch) -> bool:
        """Return whether the producer must not send a batch again."""
        age_seconds = trio.current_time() - batch.invoke.time_ns / 1e9
        return age_seconds > self._delivery_seconds

    def _record_count(self) -> int:
        return self.rng.randint(20, 60) if self.rng.random() < 0.03 else self.rng.randint(1, 3)

    async def introduce(self) -> tuple[int, int]:
        """Return a new producer id and its epoch."""
        request = init_producer_id.InitProducerIdRequest(None, 60_000)
        while True:
            try:
                answer = await self.client.call("InitProducerId", init_producer_id, 4, request)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            if answer.error_code == ErrorCode.NONE:
                self.workload.world.watch.sequences.given(answer.producer_id)
                return (answer.producer_id, answer.producer_epoch)
            await self.client.pause(1.0)

    async def submit(
        self, connection: ClientConnection, batches: list[Batch], acks: int
    ) -> Request:
        """Send one request."""
        topics = [
            produce.TopicProduceData(
                each.key.topic,
                each.key.topic_id,
                [produce.PartitionProduceData(each.key.partition, each.data)],
            )
            for each in batches
        ]
        request = produce.ProduceRequest(self.transactional_id, acks, 30_000, topics)
        reply = await connection.send(
            "Produce", produce, self._version, request, answered=acks != 0
        )
        return Request(batches, reply)

    def results(self, sent: Request, response: Any) -> list[tuple[Batch, ErrorCode, int]]:
        """Return (batch, error, base offset) of each batch."""
        found: dict[tuple[object, int], tuple[ErrorCode, int]] = {}
        for topic in response.responses:
            name = topic.topic_id if self.uses_ids else topic.name
            for part in topic.partition_responses:
                found[name, part.index] = (ErrorCode(part.error_code), part.base_offset)
        results: list[tuple[Batch, ErrorCode, int]] = []
        for each in sent.batches:
            name = each.key.topic_id if self.uses_ids else each.key.topic
            if (name, each.key.partition) not in found:
                raise ProtocolBroken(f"Produce does not answer {each.key}")
            results.append((each, *found[name, each.key.partition]))
        return results


@dataclass(slots=True)
class _Identity:
    """A producer id, and the next sequence of each key."""

    producer: tuple[int, int]
    sequences: dict[int, int] = field(default_factory=dict[int, int])

    def raised(self) -> _Identity:
        """Return the same id with the next epoch."""
        return _Identity((self.producer[0], self.producer[1] + 1))


class IdempotentProducer(Producer):
    """A producer that repeats each batch until it is acknowledged."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._window: list[Batch] = []
        self._identity: _Identity | None = None

    async def run(self) -> None:
        """Send until no operation is left and every batch is acknowledged."""
        more = True
        while more or self._window:
            if any(map(self.is_too_old, self._window)):
                self._abandon()
            if self._identity is None:
                self._identity = _Identity(await self.introduce())
            for _ in range(min(self._room(), self.rng.randint(1, MAX_IN_FLIGHT))):
                more = more and self._add(self._identity)
            await self._round()
            await self.client.pause(2.0)
        self.client.close()

    def _room(self) -> int:
        return MAX_IN_FLIGHT - len(self._window)

    def _add(self, identity: _Identity) -> bool:
        if not self.workload.take():
            return False
        key = self.rng.choice(self.workload.keys)
        self._window.append(self.make(key, identity.producer, identity.sequences))
        return True

    async def _round(self) -> None:
        """Send all unacknowledged batches, in order, and take the answers."""
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

    def _requests(self) -> list[list[Batch]]:
        """Sometimes put neighbouring batches of different keys into one request."""
        requests: list[list[Batch]] = []
        for batch in self._window:
            keys = {each.key for each in requests[-1]} if requests else {batch.key}
            if batch.key in keys or self.rng.random() < 0.5:
                requests.append([batch])
            else:
                requests[-1].append(batch)
        return requests

    def _settle(self, batch: Batch, code: ErrorCode, offset: int) -> None:
        if batch not in self._window:
            return  # it was abandoned, together with its producer id
        if code in DONE:
            self._window.remove(batch)
            self.history.ok(batch.invoke, offset=offset if code == ErrorCode.NONE else -1)
            return
        is_first = next(each for each in self._window if each.key == batch.key) is batch
        if code in RETRIABLE or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first):
            if code in ELSEWHERE:
                self.client.close()
            return
        # An earlier attempt may still have written the batch.
        self.history.info(batch.invoke, error=code.name)
        self._window.remove(batch)
        self._abandon()

    def _abandon(self) -> None:
        """Abandon all unacknowledged batches, whose outcomes are unknown; use a new identity."""
        for each in self._window:
            self.history.info(each.invoke)
        self._window = []
        self._identity = (
            self._identity.raised() if self._identity and self.rng.random() < 0.5 else None
        )


class PlainProducer(Producer):
    """A producer without repeats: a batch without an answer may be lost."""

    patience_seconds = 20.0

    async def run(self) -> None:
        """Send until no operation is left."""
        while self.workload.take():
            acks = self.rng.choice((-1, 1, 0))
            keys = self.rng.choices(self.workload.keys, k=self.rng.randint(1, 3))
            batches = [self.make(key, None, {}) for key in keys]
            await self._round(batches, acks)
            await self.client.pause(3.0)
        self.client.close()

    async def send_one(self, key: Key) -> None:
        """Send one batch and wait for its answer."""
        await self._round([self.make(key, None, {})], -1)

    async def _round(self, batches: list[Batch], acks: int) -> None:
        left = list(batches)
        try:
            connection = await self.client.connection()
            sent = [await self.submit(connection, [each], acks) for each in batches]
            for each in sent if acks else []:
                response = await each.reply.wait(self.patience_seconds)
                for batch, code, offset in self.results(each, response):
                    left.remove(batch)
                    self._settle(batch, code, offset)
        except Disconnected:
            self.client.close()
        for batch in left:
            self.history.info(batch.invoke)
        await trio.lowlevel.checkpoint()

    def _settle(self, batch: Batch, code: ErrorCode, offset: int) -> None:
        if code == ErrorCode.NONE:
            self.history.ok(batch.invoke, offset=offset)
        elif code in _CERTAIN:
            self.history.fail(batch.invoke, error=code.name)
        else:
            self.history.info(batch.invoke, error=code.name)
        if code in ELSEWHERE:
            self.client.close()


class Pipeliner(PlainProducer):
    """Sends a few batches of one key without waiting; offsets must rise in this order."""

    async def run(self) -> None:
        """Send until no operation is left."""
        while self.workload.take():
            key = self.rng.choice(self.workload.keys)
            await self._round([self.make(key, None, {}) for _ in range(4)], -1)
            await self.client.pause(4.0)
        self.client.close()

    async def submit(
        self, connection: ClientConnection, batches: list[Batch], acks: int
    ) -> Request:
        """Wait between two batches, so that they do not share an object."""
        await self.client.pause(0.3)
        return await super().submit(connection, batches, acks)


class Newcomer(PlainProducer):
    """Gets a new producer id after a few batches; sends batches slowly, and never repeats one.

    So a gateway may drop the first batch and then get the next one, which it must refuse.
    """

    patience_seconds = 45.0
    _is_behind = False  # whether a batch of this round was not acknowledged

    async def run(self) -> None:
        """Send until no operation is left."""
        while self.workload.take():
            producer, key = await self.introduce(), self.rng.choice(self.workload.keys)
            sequences: dict[int, int] = {}
            count = self.rng.randint(2, MAX_IN_FLIGHT)
            self._is_behind = False
            await self._round([self.make(key, producer, sequences) for _ in range(count)], -1)
            await self.client.pause(4.0)
        self.client.close()

    async def submit(
        self, connection: ClientConnection, batches: list[Batch], acks: int
    ) -> Request:
        """Wait between two batches, so that the first one's deadline passes earlier."""
        await self.client.pause(6.0)
        return await super().submit(connection, batches, acks)

    def _settle(self, batch: Batch, code: ErrorCode, offset: int) -> None:
        """Accept OUT_OF_ORDER_SEQUENCE_NUMBER after a batch that was not acknowledged."""
        if self._is_behind and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.history.info(batch.invoke)
            return
        self._is_behind = self._is_behind or code != ErrorCode.NONE
        super()._settle(batch, code, offset)
