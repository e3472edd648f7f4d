"""The clients of the quota trial: pushers send, and pullers read, as much as gateways allow."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch, produce
from tidegate_protocol.records import Record, build_batch

from ..clients.client import Client, Disconnected
from ..clients.workload import create_topic
from ..world.node import Node
from ..world.world import World

CLIENT_ID: Final = "metered"
_TOPIC: Final = "orders"
_READ_TOPIC: Final = "metered"
_TURN_SECONDS: Final = 0.05


class Pusher:
    """One connection that sends as much as the gateway allows.

    passed: the times and sizes of sent batches.  wanted: bytes a second.  offset: of the batch that
    pullers read.
    """

    api: ClassVar = "Produce"

    def __init__(self, world: World, name: str, node_id: int, size_bytes: int) -> None:
        self.client = Client(world, name)
        self.client.client_id = CLIENT_ID
        self.node_id = node_id
        self.wanted = 0.0
        self.offset = 0
        self.passed: list[tuple[float, int]] = []
        self._world = world
        self._batch = bytearray(build_batch([Record(0, 0, None, bytes(size_bytes), ())]))
        self._batch[-1] ^= 1
        self._most = 2.0 * len(self._batch)

    async def run(self) -> None:
        """Push, forever."""
        # The first batch is sent at once, so that all gateways know the quota from the start.
        backlog, since = float(len(self._batch)), trio.current_time()
        while True:
            if backlog < len(self._batch):
                await trio.sleep(_TURN_SECONDS)
            now = trio.current_time()
            backlog, since = min(backlog + self.wanted * (now - since), self._most), now
            if backlog < len(self._batch):
                continue
            backlog -= len(self._batch)
            try:
                await self._push()
            except Disconnected:
                self._go_elsewhere()
                await trio.sleep(0.2)

    async def _push(self) -> None:
        data = produce.PartitionProduceData(0, bytes(self._batch))
        request = produce.ProduceRequest(
            None, -1, 30_000, [produce.TopicProduceData(_TOPIC, partition_data=[data])]
        )
        answer = await self.client.call(
            "Produce", produce, 9, request, node_id=self.node_id, timeout_seconds=300.0
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code != ErrorCode.CORRUPT_MESSAGE:
            self._world.complain("false error", f"a wrong checksum: {ErrorCode(code).name}")
        self.passed.append((trio.current_time(), len(self._batch)))

    def _go_elsewhere(self) -> None:
        """If this gateway is down, choose one that has used the quota."""
        nodes = self._world.nodes
        if nodes[self.node_id].gateway is None:
            alive = [
                each for each, node in sorted(nodes.items()) if share_of(node, self.api) is not None
            ]
            self.node_id = alive[0] if alive else self.node_id


class Puller(Pusher):
    """One connection that reads as much as it may; see Pusher."""

    api: ClassVar = "Fetch"

    async def _push(self) -> None:
        asked = fetch.FetchPartition(
            0, fetch_offset=self.offset, partition_max_bytes=len(self._batch)
        )
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=_READ_TOPIC, partitions=[asked])],
        )
        answer = await self.client.call(
            "Fetch", fetch, 12, request, node_id=self.node_id, timeout_seconds=300.0
        )
        # A gateway that is cut off for a moment may refuse clients, which does not matter here.
        found = answer.responses[0].partitions[0] if answer.responses else None
        if found is not None and found.records:
            self.passed.append((trio.current_time(), len(found.records)))


class Metered(NamedTuple):
    """A kind of quota: of producers or of consumers.

    config: its name.  make: makes a client.  least: the part of the quota that must pass if clients
    want all of it.  sizes: of the records, in bytes.
    """

    config: str
    make: type[Pusher]
    least: float
    sizes: tuple[int, ...]


OF_PRODUCERS: Final = Metered("producer_byte_rate", Pusher, 0.9, (1_000, 5_000, 60_000))
OF_CONSUMERS: Final = Metered("consumer_byte_rate", Puller, 0.6, (1_000, 2_000))


async def store_batch(world: World, size_bytes: int) -> int:
    """Write the batch that pullers read; return its offset."""
    writer = Client(world, "quota writer")
    await create_topic(writer, _READ_TOPIC, 1, {"retention.ms": "-1"})
    batch = build_batch([Record(0, 0, None, bytes(size_bytes), ())])
    data = produce.PartitionProduceData(0, batch)
    request = produce.ProduceRequest(
        None, -1, 30_000, [produce.TopicProduceData(_READ_TOPIC, partition_data=[data])]
    )
    while True:
        answer = await writer.insist("Produce", produce, 9, request)
        written = answer.responses[0].partition_responses[0]
        if not written.error_code:
            writer.close()
            return int(written.base_offset)
        await writer.pause(1.0)


def share_of(node: object, api: str) -> float | None:
    """Return a gateway's share of the quota; None if it is down, or no client has used it."""
    gateway = node.gateway if isinstance(node, Node) else None
    if gateway is None:
        return None
    now_ms = int(trio.current_time() * 1_000)
    counted = gateway.limits.quotas.produced if api == Pusher.api else gateway.limits.quotas.fetched
    for bucket, usage in counted.recent(10, now_ms):
        if bucket.client_id == CLIENT_ID:
            return usage.share(now_ms)
    return None
