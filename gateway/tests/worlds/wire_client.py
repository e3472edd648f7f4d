"""A gateway in memory and the bytes of its clients, for tests that send what no client sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from random import Random
from typing import Any, Protocol

import trio

from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.dialling import Dial, dial_of
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.memory_transport import (
    PIPE_BYTES,
    MemoryTransport,
    memory_transport_pair,
)
from tidegate_gateway.network.transport import Transport, TransportBroken
from tidegate_gateway.peers.peers import GatewayPeers
from tidegate_gateway.security.audit_log import AuditLog
from tidegate_gateway.security.oauth.key_place import read_keys
from tidegate_gateway.security.oauth.key_source import ReadKeys
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.tls.tls_listeners import TlsListeners
from tidegate_gateway.work.pools import Pools, inline_pools
from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch, decode_records, walk
from tidegate_storage.stores.memory_store import MemoryObjectStore

NOW_MS = 1_700_000_000_000
PATIENCE_SECONDS = 300.0
WORLD_SECONDS = 7_200.0  # the limit for a whole test, on trio's clock
KEYS = {facts.name: key for key, facts in APIS.items()}


class Closed(Exception):
    """The gateway closed the connection."""


def module_of(name: str) -> Any:
    """Return the codec of an API, such as "CreateTopics"."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return import_module(f"tidegate_protocol.messages.{snake.lstrip('_')}")


def request_frame(
    name: str, version: int, request: Any, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    """Return a whole frame: length, header, body."""
    head = encode_request_header(KEYS[name], version, correlation_id, client_id=client_id)
    return frame(head + module_of(name).encode_request(request, version))


def records_batch(*values: bytes, **header: int) -> bytes:
    """Return a batch as a producer sends it; header as for build_batch."""
    records = [Record(index, NOW_MS, None, value, ()) for index, value in enumerate(values)]
    return build_batch(records, **header)


class ClientTransport(Transport, Protocol):
    """The client's end of a connection in memory."""

    def reset(self) -> None: ...


class WireClient:
    """One connection."""

    client_id = "test"

    def __init__(self, transport: ClientTransport) -> None:
        self.transport = transport
        self._received = bytearray()
        self._numbers = count(1)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        view = memoryview(data)
        while view:
            view = view[self.transport.send_nowait([view]) :]
            if view:
                await self.transport.wait_sendable()

    async def receive(self) -> bytes:
        """Return the next frame, without its length.

        Raises:
          Closed: the gateway closed the connection.
        """
        with trio.fail_after(PATIENCE_SECONDS):
            length = int.from_bytes(await self._exactly(4), "big")
            return await self._exactly(length)

    async def _exactly(self, size: int) -> bytes:
        chunk = memoryview(bytearray(1 << 16))
        while len(self._received) < size:
            try:
                await self.transport.wait_receivable()
                received = self.transport.receive_nowait(chunk)
            except TransportBroken as error:
                raise Closed from error
            if received == 0:
                raise Closed
            self._received += chunk[: received or 0]
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    async def call(self, name: str, version: int, request: Any) -> Any:
        """Send a request and return its response.

        Raises:
          Closed: the gateway closed the connection.
        """
        number = next(self._numbers)
        await self.send(request_frame(name, version, request, number, self.client_id))
        answer = memoryview(await self.receive())
        found, position = decode_response_header(answer, KEYS[name], version)
        assert found == number
        return module_of(name).decode_response(answer[position:], version)

    async def produce(self, topic: str, partition: int, batch: bytes, **more: Any) -> Any:
        """Produce one batch by topic name; return its partition's answer."""
        answer = await self.call("Produce", 9, produce_request([(topic, partition, batch)], **more))
        return answer.responses[0].partition_responses[0]

    async def fetch_stored(self, topic: str, partition: int, offset: int) -> memoryview:
        """Return the batches from an offset on; do not wait for more."""
        asked = fe.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [fe.FetchTopic(topic=topic, partitions=[asked])]
        request = fe.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics)
        answer = await self.call("Fetch", 12, request)
        [found] = answer.responses[0].partitions
        assert found.error_code == 0
        return memoryview(found.records or b"")

    async def fetch_values(self, topic: str, partition: int, offset: int) -> list[bytes | None]:
        """Return the values from an offset on; do not wait for more."""
        data = await self.fetch_stored(topic, partition, offset)
        return [
            record.value
            for position, header in walk(data)
            for record in decode_records(
                data[position : position + header.size_bytes], max_decompressed_bytes=1 << 20
            )
        ]


def produce_request(
    batches: Sequence[tuple[str, int, bytes | None]],
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
    topic_id: bytes = bytes(16),
) -> pr.ProduceRequest:
    """Return a request with a topic entry for each batch."""
    topics = [
        pr.TopicProduceData(topic, topic_id, [pr.PartitionProduceData(partition, batch)])
        for topic, partition, batch in batches
    ]
    return pr.ProduceRequest(transactional_id, acks, timeout_ms, topics)


class WireWorld:
    """A gateway and its connections."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self.gateway = gateway
        self._nursery = nursery
        self._ports = count(50_000)

    def connect(self, host: str = "client", listener: str = "") -> WireClient:
        """Open a connection, by default to the first listener."""
        return WireClient(self.open(host, listener))

    def open(
        self, host: str = "client", listener: str = "", pipe_bytes: int = PIPE_BYTES
    ) -> MemoryTransport:
        """Return the client's end of a new connection, by default to the first listener."""
        ours, theirs = memory_transport_pair((host, next(self._ports)), pipe_bytes=pipe_bytes)
        listener = listener or self.gateway.identity.endpoints[0].listener
        self._nursery.start_soon(self.gateway.door.let_in, theirs, listener)
        return ours

    async def create_topic(self, name: str, partitions: int, **configs: str) -> bytes:
        """Create a topic; return its id."""
        entries = [
            ct.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
        ]
        topic = ct.CreatableTopic(name, partitions, 1, configs=entries)
        answer = await self.connect().call("CreateTopics", 7, ct.CreateTopicsRequest([topic], 1000))
        [result] = answer.topics
        assert result.error_code == 0, result.error_message
        found: bytes = result.topic_id
        return found


@asynccontextmanager
async def wire_world(
    settings: dict[str, str] | None = None,
    *,
    store: MemoryObjectStore | None = None,
    log: MetadataLog | None = None,
    peers: GatewayPeers | None = None,
    seed: int = 1,
    node_id: int = 1,
    start: float | None = None,
    highest_version: int = NEWEST,
    source_dial: Callable[[ClientProperties], Dial] = dial_of,
    listeners: Sequence[str] = ("PLAINTEXT",),
    tls: TlsListeners | None = None,
    audit: AuditLog | None = None,
    read_keys: ReadKeys = read_keys,
    pools: Pools | None = None,
) -> AsyncIterator[WireWorld]:
    """Run a gateway, by default with an empty store and log.  Its wall clock follows trio's.

    start: the time on trio's clock when the wall clock shows NOW_MS; by default now.
    """
    start = trio.current_time() if start is None else start
    names = (*listeners, *(each.name for each in tls or ()))
    endpoints = tuple(Endpoint(each, "127.0.0.1", 9092 + at) for at, each in enumerate(names))
    builder = GatewayBuilder(
        Identity(
            node_id,
            f"key{node_id}" if node_id > 1 else "key",
            "az1",
            endpoints,
            "0.0.1",
            "cluster-of-tests",
            highest_version=highest_version,
        ),
        BrokerSettings({"node.id": str(node_id), **(settings or {})}),
        Environment(
            store=store or MemoryObjectStore(),
            log=log or MemoryLog(),
            rng=Random(seed),
            wall_clock=lambda: NOW_MS / 1000 + trio.current_time() - start,
            pools=pools or inline_pools(),
            peers=peers,
            source_dial=source_dial,
            tls=tls or TlsListeners(),
            audit=audit,
            read_keys=read_keys,
        ),
    )
    with trio.fail_after(WORLD_SECONDS):
        async with trio.open_nursery() as nursery:
            gateway = await builder.start(nursery)
            async with trio.open_nursery() as connections:
                yield WireWorld(gateway, connections)
                connections.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
