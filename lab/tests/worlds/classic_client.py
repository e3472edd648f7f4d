"""A scripted client of the model of a classic cluster, over the servers' dial."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from random import Random
from typing import Any

import trio

from tidegate_protocol.apis import APIS
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch
from tidegate_simulation.classic.dial import START_MS, ClassicServers, open_servers
from tidegate_simulation.classic.model_cluster import ModelCluster
from tidegate_simulation.classic.profiles import KAFKA_4_3, Profile
from tidegate_simulation.classic.rights import ANONYMOUS

KEYS = {facts.name: key for key, facts in APIS.items()}
PATIENCE_SECONDS = 600.0


class Closed(Exception):
    """The broker closed the connection."""


def module_of(api: str) -> Any:
    """Return the codec of an API, such as "ListOffsets"."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in api)
    return import_module(f"tidegate_protocol.messages.{snake.lstrip('_')}")


def batch_of(*values: bytes, **head: int) -> bytes:
    """Return a client's batch; head as for build_batch."""
    records = [Record(place, START_MS + place, b"k", each) for place, each in enumerate(values)]
    return build_batch(records, **head)


class ClassicClient:
    """One connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._received = bytearray()
        self._numbers = count(1)

    async def send(self, api: str, version: int, request: Any) -> int:
        """Send a request; return its number."""
        number = next(self._numbers)
        head = encode_request_header(KEYS[api], version, number, client_id="test")
        body = module_of(api).encode_request(request, version)
        await self.stream.send_all(frame(head + body))
        return number

    async def receive(self, api: str, version: int, number: int) -> Any:
        """Return the answer to a request.

        Raises:
          Closed: the broker closed the connection.
        """
        with trio.fail_after(PATIENCE_SECONDS):
            size = int.from_bytes(await self._exactly(4), "big")
            answer = memoryview(await self._exactly(size))
        found, position = decode_response_header(answer, KEYS[api], version)
        assert found == number
        return module_of(api).decode_response(answer[position:], version)

    async def call(self, api: str, version: int, request: Any) -> Any:
        """Send a request and return its answer."""
        return await self.receive(api, version, await self.send(api, version, request))

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                chunk = await self.stream.receive_some()
            except trio.BrokenResourceError as error:
                raise Closed from error
            if not chunk:
                raise Closed
            self._received += chunk
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    # -- common requests --------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        batch: bytes,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 11,
        **more: Any,
    ) -> pr.PartitionProduceResponse:
        """Produce one batch by name; return its partition's answer."""
        data = pr.TopicProduceData(topic, **more)
        data.partition_data = [pr.PartitionProduceData(partition, batch)]
        request = pr.ProduceRequest(None, acks, 30_000, [data])
        [answers] = (await self.call("Produce", version, request)).responses
        answer: pr.PartitionProduceResponse = answers.partition_responses[0]
        return answer

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, version: int = 12, **more: Any
    ) -> fe.PartitionData:
        """Fetch one partition by name; return its answer."""
        request = fetching(topic, offset, partition=partition, **more)
        [answers] = (await self.call("Fetch", version, request)).responses
        answer: fe.PartitionData = answers.partitions[0]
        return answer

    async def offset(
        self, topic: str, timestamp: int, *, partition: int = 0, version: int = 7, **more: Any
    ) -> tuple[int, int]:
        """Return error and offset of ListOffsets."""
        wanted = lo.ListOffsetsPartition(partition, -1, timestamp)
        request = lo.ListOffsetsRequest(**{"replica_id": -1, **more})
        request.topics = [lo.ListOffsetsTopic(topic, [wanted])]
        [answers] = (await self.call("ListOffsets", version, request)).topics
        return answers.partitions[0].error_code, answers.partitions[0].offset

    async def alter(self, topic: str, name: str, value: str | None, operation: int = 0) -> int:
        """Change a topic's config; return the error."""
        change = ia.AlterableConfig(name, operation, value)
        request = ia.IncrementalAlterConfigsRequest([ia.AlterConfigsResource(2, topic, [change])])
        [answer] = (await self.call("IncrementalAlterConfigs", 1, request)).responses
        code: int = answer.error_code
        return code


def raw_of(data: fe.PartitionData) -> bytes:
    """Return the records of an answer."""
    records = data.records if data.records is not None else b""
    return b"".join(records) if isinstance(records, list) else bytes(records)


def fetching(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    epoch: int = -1,
    last_epoch: int = -1,
    partition_bytes: int = 1 << 20,
    topic_id: bytes = bytes(16),
    **request: Any,
) -> fe.FetchRequest:
    """Return a Fetch of one partition; request: fields of the request itself."""
    wanted = fe.FetchPartition(
        partition, epoch, offset, last_epoch, partition_max_bytes=partition_bytes
    )
    fields: dict[str, Any] = {"min_bytes": 1, "max_bytes": 1 << 20, **request}
    return fe.FetchRequest(topics=[fe.FetchTopic(topic, topic_id, [wanted])], **fields)


class ClassicWorld:
    """A cluster that runs, and clients of it."""

    def __init__(self, cluster: ModelCluster, servers: ClassicServers) -> None:
        self.cluster = cluster
        self.servers = servers

    async def client(self, node_id: int = 1, *, principal: str = ANONYMOUS) -> ClassicClient:
        """Connect to a broker."""
        node = self.cluster.nodes[node_id]
        return ClassicClient(await self.servers.dial(node.host, node.port, principal=principal))


@asynccontextmanager
async def classic_world(
    node_ids: Sequence[int] = (1,), *, seed: int = 1, profile: Profile = KAFKA_4_3
) -> AsyncGenerator[ClassicWorld]:
    """Run brokers, with a topic "t" of two partitions on all of them."""
    rng = Random(seed)
    cluster = ModelCluster(rng, profile=profile)
    for node_id in node_ids:
        cluster.add_broker(node_id, f"kafka{node_id}", 9092, rack=f"rack{node_id}")
    cluster.create_topic("t", 2, replication_factor=len(node_ids))
    async with open_servers(cluster, rng) as servers:
        yield ClassicWorld(cluster, servers)
