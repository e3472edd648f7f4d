"""A gateway whose link forwards writes, and a source of scripted brokers that answers when told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.worlds.scripted_broker import Asked, HangUp, ScriptedCluster
from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    request_frame,
    wire_world,
)
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.rules.migration.mirrors import MirrorTopics, SetLink
from tidegate_coordination.rules.migration.switches import FenceTopics, LiftFence, ReopenSource
from tidegate_gateway.migration.switch.switching import Switching
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import decode_response_header
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch, decode_records

LINK = "src"
TOPIC = "orders"
PARTITIONS = 3
"""Partition i is led by broker i + 1."""


def id_of(topic: str) -> bytes:
    """Return the topic id that scripted brokers give."""
    return topic.encode().ljust(16)


class ForwardWorld:
    """A gateway and its source.

    code: the error of Produce answers; below 0: the source closes the connection.  taken: the
    values that the source got, by partition, in order.
    """

    def __init__(self, world: WireWorld, source: ScriptedCluster) -> None:
        self.world = world
        self.source = source
        self.coordinator = world.gateway.coordinator
        self.forwards = world.gateway.forwarding.forwards
        self.taken: dict[tuple[str, int], list[bytes]] = {}
        self.code = 0
        self._go = trio.Event()
        self._go.set()
        for broker in source.brokers.values():
            broker.answers["Produce"] = self._produce

    def hold(self) -> None:
        """Let the source take records, but answer no Produce request from now on."""
        self._go = trio.Event()

    def release(self) -> None:
        """Let the source answer again."""
        self._go.set()

    async def _produce(self, asked: Asked) -> Any:
        answer = pr.ProduceResponse()
        for topic in asked.request.topic_data:
            name = topic.name or topic.topic_id.rstrip().decode()
            parts = [self._take(name, each) for each in topic.partition_data]
            answer.responses.append(pr.TopicProduceResponse(topic.name, topic.topic_id, parts))
        await self._go.wait()
        if self.code < 0:
            raise HangUp
        return answer

    def _take(self, name: str, data: pr.PartitionProduceData) -> pr.PartitionProduceResponse:
        if self.code > 0:
            return pr.PartitionProduceResponse(data.index, self.code, -1, error_message="no")
        taken = self.taken.setdefault((name, data.index), [])
        base = 1000 + len(taken)
        taken += values_of(data.records)
        return pr.PartitionProduceResponse(data.index, 0, base, 77, 5)

    def asked(self, name: str = "Produce") -> list[Asked]:
        """Return the requests that the source got."""
        return [
            each
            for broker in self.source.brokers.values()
            for each in broker.asked
            if each.name == name
        ]

    async def link(self, *, forwards: bool = True, replaces: bool = False) -> None:
        """Make the link."""
        link = SetLink(LINK, "cluster-a", "broker-1:9092", (TOPIC,), replaces, forwards)
        assert await self.coordinator.propose(link) is None

    async def start(self) -> None:
        """Make the link and its topic."""
        await self.link()
        topic = LinkedTopic(id_of(TOPIC), TOPIC, PARTITIONS, 1, {})
        assert await self.coordinator.propose(MirrorTopics(LINK, (topic,))) == []
        await trio.sleep(1)
        assert self.world.gateway.links.running[LINK].forwards_to is not None

    async def fence(self) -> int:
        """Begin to switch the topic."""
        number = await self.coordinator.propose(FenceTopics(LINK, ((id_of(TOPIC), ""),)))
        assert isinstance(number, int)
        return number

    async def unfence(self, number: int) -> None:
        """Leave the topic with its source."""
        await self.coordinator.propose(LiftFence(number, "test"))
        await self.coordinator.propose(ReopenSource(number))


def values_of(records: Any) -> list[bytes]:
    """Return the values of a batch."""
    found = decode_records(memoryview(bytes(records)), max_decompressed_bytes=1 << 20)
    return [each.value or b"" for each in found]


class Pipelined:
    """A client connection with several requests in flight."""

    def __init__(self, client: WireClient, version: int = 9) -> None:
        self.client = client
        self._version = version
        self._sent = 0

    async def send(self, *batches: tuple[str, int, bytes], acks: int = -1, **more: Any) -> None:
        """Send a request, and do not wait for the answer."""
        self._sent += 1
        request = produce_request(batches, acks=acks, **more)
        await self.client.send(request_frame("Produce", self._version, request, self._sent))

    async def answer(self) -> list[pr.PartitionProduceResponse]:
        """Return the answers for the partitions of the next response."""
        frame = memoryview(await self.client.receive())
        _, position = decode_response_header(frame, ApiKey.PRODUCE, self._version)
        response = pr.decode_response(frame[position:], self._version)
        return [part for topic in response.responses for part in topic.partition_responses]


async def _stand_still(_: Switching) -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def forward_world(settings: dict[str, str] | None = None) -> AsyncIterator[ForwardWorld]:
    """Run a gateway with a forwarding link.  Switches never run, so fences stay."""
    async with trio.open_nursery() as nursery:
        source = ScriptedCluster(nursery)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Switching, "run", _stand_still)
            async with wire_world(settings, source_dial=lambda _: source.dial) as world:
                found = ForwardWorld(world, source)
                await found.start()
                yield found
        nursery.cancel_scope.cancel()


def batch(value: bytes, **header: int) -> bytes:
    """Return a batch of one record."""
    return build_batch([Record(0, 1_700_000_000_000, None, value)], **header)
