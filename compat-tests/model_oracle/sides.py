"""Apache Kafka and the model.  Each carries out the steps of a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, Final, Protocol

import trio
from transactions.differential.coordinators import find_coordinators
from transactions.differential.wire import Connection, Request, connect

from model_oracle.steps import (
    PARTITIONS,
    TOPIC,
    TOPIC_ID,
    Call,
    Expire,
    InSession,
    Mark,
    Step,
    WriteInTransaction,
)
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_protocol.records import Record, build_batch
from tidegate_simulation.classic.dial import ClassicServers, open_servers
from tidegate_simulation.classic.log.faults import raise_log_start
from tidegate_simulation.classic.model_cluster import ModelCluster
from tidegate_simulation.classic.model_transaction import ModelTransaction
from tidegate_simulation.classic.refusals import Refused

_PATIENCE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.05
_APPLIED_SECONDS: Final = 0.15
"""A broker shows a config a moment before its logs hold to it."""
_RETRIED: Final = {14, 15, 16, 51}
_NEVER_MS: Final = 86_400_000


class Side(Protocol):
    """Where a script is played."""

    async def start(self, topic: str) -> None:
        """Make the topic of a script."""
        ...

    async def carry_out(self, step: Step) -> Any:
        """Return the answer to a step."""
        ...


def _replaced(value: Any, topic: str, topic_id: bytes) -> Any:
    """Replace the common name and id in a request by those of a side's topic."""
    if is_dataclass(value):
        for each in fields(value):
            setattr(value, each.name, _replaced(getattr(value, each.name), topic, topic_id))
        return value
    if isinstance(value, list):
        return [_replaced(each, topic, topic_id) for each in value]
    if value == TOPIC_ID:
        return topic_id
    return topic if value == TOPIC else value


def _transactional_batch(step: WriteInTransaction, producer_id: int, epoch: int) -> bytes:
    return build_batch(
        [Record(0, 1_700_000_000_000 + step.sequence, b"k", b"in transaction")],
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=step.sequence,
    )


class _OnWire:
    """A side that is driven by requests."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.topic = ""
        self.topic_id = b""
        self.producer = (-1, -1)
        self.session = (0, 0)  # id and next epoch

    async def call(self, call: Call) -> Any:
        """Send a request for this side's topic."""
        body = _replaced(deepcopy(call.body), self.topic, self.topic_id)
        answer = await self.connection.call(Request(call.api, call.version, body))
        return _replaced_back(answer, self.topic)

    async def ends(self, partition: int) -> tuple[int, int]:
        """Return start and high watermark."""
        found: list[int] = []
        for time in (-2, -1):
            wanted = lo.ListOffsetsTopic(self.topic, [lo.ListOffsetsPartition(partition, -1, time)])
            request = lo.ListOffsetsRequest(-1, topics=[wanted])
            answer = await self.connection.call(Request("ListOffsets", 7, request))
            found.append(answer.topics[0].partitions[0].offset)
        return found[0], found[1]

    async def fetch_in_session(self, step: InSession) -> Any:
        """Fetch in the open session.  In the answer every session id but 0 becomes 1."""
        session_id, epoch = self.session
        call = deepcopy(step.call)
        call.body.session_id, call.body.session_epoch = session_id, epoch
        if step.how == "open":
            call.body.session_epoch = 0
        elif step.how == "late":
            call.body.session_epoch += 1
        elif step.how == "lost":
            call.body.session_id = session_id + 1
        answer = await self.call(call)
        if step.how == "open" or call.body.session_epoch == 0:
            self.session = (answer.session_id, 1)
        elif step.how == "next" and not answer.error_code:
            self.session = (session_id, epoch + 1)
        answer.session_id = min(answer.session_id, 1)
        return answer

    async def write_in_transaction(self, step: WriteInTransaction) -> Any:
        """Send a Produce of version 12, which needs no AddPartitionsToTxn."""
        raw = _transactional_batch(step, *self.producer)
        data = pr.TopicProduceData(self.topic)
        data.partition_data = [pr.PartitionProduceData(step.partition, raw)]
        request = pr.ProduceRequest(self.topic, -1, 20_000, [data])
        answer = await self.connection.call(Request("Produce", 12, request))
        return _replaced_back(answer, self.topic)


def _replaced_back(answer: Any, topic: str) -> Any:
    """Give the topic its common name again."""
    if is_dataclass(answer):
        for each in fields(answer):
            setattr(answer, each.name, _replaced_back(getattr(answer, each.name), topic))
        return answer
    if isinstance(answer, list):
        return [_replaced_back(each, topic) for each in answer]
    return TOPIC if isinstance(answer, str) and answer == topic else answer


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(_PATIENCE_SECONDS):
        while True:
            if await done():
                return
            await trio.sleep(_PAUSE_SECONDS)


class KafkaSide(_OnWire):
    """Apache Kafka."""

    async def start(self, topic: str) -> None:
        """See Side."""
        self.topic = topic
        request = ct.CreateTopicsRequest([ct.CreatableTopic(topic, PARTITIONS, 1)])
        [made] = (await self.connection.call(Request("CreateTopics", 7, request))).topics
        assert made.error_code == 0, made
        self.topic_id = bytes(made.topic_id)
        await _until(self._leads)
        self.producer = await self._initialise()

    async def _leads(self) -> bool:
        return -1 not in [(await self.ends(each))[1] for each in range(PARTITIONS)]

    async def _initialise(self) -> tuple[int, int]:
        with trio.fail_after(_PATIENCE_SECONDS):
            while True:
                request = ip.InitProducerIdRequest(self.topic, 600_000)
                made = await self.connection.call(Request("InitProducerId", 5, request))
                if made.error_code not in _RETRIED:
                    assert made.error_code == 0, made
                    return int(made.producer_id), int(made.producer_epoch)
                await trio.sleep(_PAUSE_SECONDS)

    async def carry_out(self, step: Step) -> Any:
        """See Side."""
        if isinstance(step, Expire):
            return await self._expire(step)
        if isinstance(step, Mark):
            return await self._mark(step)
        if isinstance(step, WriteInTransaction):
            return await self.write_in_transaction(step)
        if isinstance(step, InSession):
            return await self.fetch_in_session(step)
        answer = await self.call(step)
        if step.api == "IncrementalAlterConfigs" and not answer.responses[0].error_code:
            await self._await_config(step)
        return answer

    async def _await_config(self, step: Call) -> None:
        change = step.body.resources[0].configs[0]

        async def is_shown() -> bool:
            wanted = dc.DescribeConfigsResource(2, self.topic, [change.name])
            request = dc.DescribeConfigsRequest([wanted])
            answer = await self.connection.call(Request("DescribeConfigs", 4, request))
            [row] = answer.results[0].configs
            if change.config_operation == 0:
                return bool(row.value == change.value)
            if change.config_operation == 1:
                return bool(row.config_source != 1)
            return ("compact" in row.value) is bool(change.config_operation == 2)

        await _until(is_shown)
        await trio.sleep(_APPLIED_SECONDS)

    async def _expire(self, step: Expire) -> Any:
        start, end = await self.ends(step.partition)
        offset = start + int((end - start) * step.share)
        wanted = dr.DeleteRecordsTopic(
            self.topic, [dr.DeleteRecordsPartition(step.partition, offset)]
        )
        request = dr.DeleteRecordsRequest([wanted], 20_000)
        [topic] = (await self.connection.call(Request("DeleteRecords", 2, request))).topics
        found = topic.partitions[0]
        return [("expire", found.error_code, found.low_watermark)]

    async def _mark(self, step: Mark) -> Any:
        producer_id, epoch = self.producer
        topic = wm.WritableTxnMarkerTopic(self.topic, [step.partition])
        marker = wm.WritableTxnMarker(producer_id, epoch, step.committed, [topic], 0)
        request = wm.WriteTxnMarkersRequest([marker])
        answer = await self.connection.call(Request("WriteTxnMarkers", 1, request))
        return [("mark", answer.markers[0].topics[0].partitions[0].error_code)]


class ModelSide(_OnWire):
    """The model, over the loopback.  kafka: the side whose producer ids it uses, too."""

    def __init__(self, connection: Connection, servers: ClassicServers, kafka: KafkaSide) -> None:
        super().__init__(connection)
        self._servers = servers
        self._cluster = servers.cluster
        self._kafka = kafka

    async def start(self, topic: str) -> None:
        """See Side."""
        self.topic, self.producer = topic, self._kafka.producer
        self.topic_id = self._cluster.create_topic(topic, PARTITIONS).topic_id
        producer_id, epoch = self.producer
        # Scripts write markers themselves, so no timeout of a transaction may write a marker.
        self._cluster.transactions[topic] = ModelTransaction(
            topic, producer_id, epoch=epoch, timeout_ms=_NEVER_MS
        )
        await trio.lowlevel.checkpoint()

    async def carry_out(self, step: Step) -> Any:
        """See Side."""
        if isinstance(step, Expire):
            start, end = await self.ends(step.partition)
            offset = start + int((end - start) * step.share)
            log = self._cluster.partition(self.topic, step.partition).log
            raise_log_start(log, offset, deletes=False)
            return [("expire", 0, log.log_start)]
        if isinstance(step, Mark):
            return self._mark(step)
        if isinstance(step, WriteInTransaction):
            return await self.write_in_transaction(step)
        if isinstance(step, InSession):
            return await self.fetch_in_session(step)
        return await self.call(step)

    def _mark(self, step: Mark) -> Any:
        partition = self._cluster.partition(self.topic, step.partition)
        try:
            partition.log.append_marker(
                *self.producer,
                committed=step.committed,
                settings=self._cluster.topics[self.topic].configs.settings(1, trio.current_time()),
                now_ms=self._servers.now_ms(),
            )
        except Refused as refused:
            return [("mark", refused.code)]
        self._cluster.replicated(partition, partition.log.end_offset)
        return [("mark", 0)]


async def _serve(servers: ClassicServers, nursery: trio.Nursery) -> int:
    """Let broker 1 of the model listen on the loopback; return its port."""

    async def serve(stream: trio.SocketStream) -> None:
        await servers.serve(1, stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, listeners)
    port: int = listeners[0].socket.getsockname()[1]
    return port


@asynccontextmanager
async def both_sides(kafka: str, now_ms: int) -> AsyncGenerator[tuple[KafkaSide, ModelSide]]:
    """Connect to Apache Kafka and to a model of one broker with the same clock."""
    cluster = ModelCluster(Random(1))
    cluster.add_broker(1, "127.0.0.1", 9092)
    start_ms = now_ms - int(trio.current_time() * 1000)
    async with (
        open_servers(cluster, Random(1), start_ms=start_ms) as servers,
        trio.open_nursery() as nursery,
    ):
        port = await _serve(servers, nursery)
        await find_coordinators(kafka)
        real = KafkaSide(await connect(kafka))
        model = ModelSide(await connect(f"127.0.0.1:{port}"), servers, real)
        yield real, model
        await real.connection.close()
        await model.connection.close()
        nursery.cancel_scope.cancel()
