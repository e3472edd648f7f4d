"""Producers that write to mirrored topics through gateways, which forward to the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate_protocol.error_codes import ErrorCode, is_retriable
from tidegate_protocol.messages import init_producer_id, produce

from ..classic.model_topics import PartitionKey
from ..clients.client import Client, ClientConnection, Disconnected, ProtocolBroken, Reply
from ..clients.workload import Workload, batch_bytes
from .forward_journal import Line
from .source import LINK, Source

MAX_IN_FLIGHT: Final = 5
_IDS_FROM: Final = 13
_PATIENCE_SECONDS: Final = (5.0, 40.0)
_BACK_SHARE: Final = 0.7
_BACK_SECONDS: Final = 0.3
_SEND_PAUSE_SECONDS: Final = 0.2
_RETRIED: Final = frozenset({ErrorCode.INVALID_TIMESTAMP, ErrorCode.CORRUPT_MESSAGE})


@dataclass(eq=False, slots=True)
class Batch:
    """One batch, the same in every attempt."""

    topic_id: bytes
    key: PartitionKey
    values: list[int]
    data: bytes


@dataclass(slots=True)
class _Sent:
    batch: Batch
    reply: Reply


@dataclass(slots=True)
class _Identity:
    """A producer id with its epoch, and the next sequences."""

    producer: tuple[int, int]
    sequences: dict[PartitionKey, int] = field(default_factory=dict[PartitionKey, int])


class ForwardingClient:
    """The common part of both kinds."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self.rng = self.client.rng
        self.workload = workload
        self.world = workload.world
        self.source = source
        self.version = self.rng.choice((3, 9, 13))

    async def linked(self) -> None:
        """Wait until there are topics to write to."""
        while not any(self._keys()) and self.workload.operations_left > 0:
            await self.client.pause(2.0)

    def _keys(self) -> list[tuple[bytes, PartitionKey]]:
        topics = self.world.watch.state.topics.by_id
        if LINK not in self.world.watch.state.links.by_name:
            return []
        return [
            (topic_id, each.key)
            for topic_id, each in self.source.partitions()
            if topic_id in topics and each.key.partition < len(topics[topic_id].partition_numbers)
        ]

    def make(self, identity: _Identity | None, where: tuple[bytes, PartitionKey]) -> Batch:
        """Make a batch for a partition."""
        topic_id, key = where
        values = self.workload.values(self.rng.randint(1, 3))
        sequence = -1
        if identity is not None:
            sequence = identity.sequences.get(key, 0)
            identity.sequences[key] = sequence + len(values)
        data = batch_bytes(
            values,
            self.source.servers.now_ms(),
            producer=identity.producer if identity is not None else (-1, -1),
            sequence=sequence,
        )
        return Batch(topic_id, key, values, data)

    def any_key(self) -> tuple[bytes, PartitionKey]:
        """Return a partition to write to, often one whose topic is written back; one must exist."""
        keys, going = self._keys(), self._reversing()
        back = [each for each in keys if each[0] in going]
        return self.rng.choice(back if back and self.rng.random() < _BACK_SHARE else keys)

    def _reversing(self) -> set[bytes]:
        switched = self.world.watch.state.switches.switched.items()
        return {topic_id for topic_id, each in switched if each.reached}

    async def rest(self, seconds: float) -> None:
        """Pause, but only shortly while a topic is written back, so that batches are under way."""
        await self.client.pause(_BACK_SECONDS if self._reversing() else seconds)

    async def submit(self, connection: ClientConnection, batch: Batch, acks: int) -> _Sent:
        """Send one request."""
        part = produce.PartitionProduceData(batch.key.partition, batch.data)
        topic = produce.TopicProduceData(batch.key.topic, batch.topic_id, [part])
        request = produce.ProduceRequest(None, acks, 30_000, [topic])
        reply = await connection.send("Produce", produce, self.version, request, answered=acks != 0)
        return _Sent(batch, reply)

    async def answer(self, sent: _Sent, seconds: float) -> tuple[ErrorCode, int]:
        """Return error code and offset; check the offset."""
        response: produce.ProduceResponse = await sent.reply.wait(seconds)
        [part] = response.responses[0].partition_responses
        code = ErrorCode(part.error_code)
        if code == ErrorCode.NONE:
            self.source.journal.acknowledged(sent.batch.key, sent.batch.values, part.base_offset)
            self.world.strikes.count("source.forwarded")
        return code, part.base_offset


class Forwarder(ForwardingClient):
    """An idempotent producer; it repeats until each batch is acknowledged."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        super().__init__(workload, name, source)
        self._window: list[Batch] = []
        self._identity: _Identity | None = None

    async def run(self) -> None:
        """Send until no operation is left and every batch is acknowledged."""
        await self.linked()
        more = True
        while more or self._window:
            if self._identity is None:
                self._identity = _Identity(await self._introduce())
            for _ in range(self.rng.randint(0, MAX_IN_FLIGHT - len(self._window))):
                more = more and self._add(self._identity)
            if not self._window:
                more = more and self._add(self._identity)
            await self._round()
            await self.rest(2.0)
        self.client.close()

    def _add(self, identity: _Identity) -> bool:
        if not self.workload.take() or not self._keys():
            return False
        self._window.append(self.make(identity, self.any_key()))
        return True

    async def _introduce(self) -> tuple[int, int]:
        request = init_producer_id.InitProducerIdRequest(None, 60_000)
        while True:
            try:
                answer = await self.client.call("InitProducerId", init_producer_id, 4, request)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            if answer.error_code == ErrorCode.NONE:
                return answer.producer_id, answer.producer_epoch
            await self.client.pause(1.0)

    async def _round(self) -> None:
        """Send all unacknowledged batches, in order, and take the answers."""
        try:
            connection = await self.client.connection()
            sent = [await self.submit(connection, each, -1) for each in self._window]
            for each in sent:
                code, _ = await self.answer(each, self.rng.choice(_PATIENCE_SECONDS))
                self._settle(each.batch, code)
        except Disconnected:
            self.client.close()
            await self.client.pause(1.0)

    def _settle(self, batch: Batch, code: ErrorCode) -> None:
        if batch not in self._window:
            return  # it was abandoned, together with its producer id
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._window.remove(batch)
            self.source.journal.acknowledged(batch.key, batch.values, -1)
            return
        is_first = next(each for each in self._window if each.key == batch.key) is batch
        if is_retriable(code) or code in _RETRIED:
            if self.rng.random() < 0.5:
                self.client.close()  # metadata names another gateway
        elif code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or is_first:
            if code not in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
                raise ProtocolBroken(f"a forwarded batch got {code.name}")
            self._window, self._identity = [], None


class ForwardPipeliner(ForwardingClient):
    """Sends a few batches without waiting, and none of them again."""

    async def run(self) -> None:
        """Send until no operation is left, mostly to one partition."""
        await self.linked()
        where = self.any_key() if self._keys() else None
        while where is not None and self.workload.take():
            if self.rng.random() < 0.2:
                where = self.any_key()
            acks = self.rng.choice((-1, 1, 1, 0))
            await self._round([self.make(None, where) for _ in range(self.rng.randint(3, 9))], acks)
            await self.rest(1.0)
        self.client.close()

    async def send_some(self, topic: str) -> None:
        """Send a few batches to each partition of a topic, one after another."""
        for where in [each for each in self._keys() if each[1].topic == topic]:
            if self.workload.take():
                await self._round([self.make(None, where) for _ in range(3)], -1)

    async def _round(self, batches: list[Batch], acks: int) -> None:
        try:
            connection = await self.client.connection()
            sent: list[_Sent] = []
            for each in batches:
                line = Line(self.client.name, self.client.link, each.key)
                self.source.journal.will_send(line, each.values[0])
                sent.append(await self.submit(connection, each, acks))
                await self.client.pause(_SEND_PAUSE_SECONDS)
            for request in sent if acks else ():
                await self.answer(request, 45.0)
        except Disconnected:
            self.client.close()
