"""A gateway in memory, and the client of the commands that speak Kafka's protocol to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import trio
from structlog.testing import capture_logs

from tests.worlds.wire_client import NOW_MS, WireWorld, wire_world
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.producer.input_lines import LineFormat, LineSplitter
from tidegate_coordination.client.producer.producing import (
    Pieces,
    TopicWriter,
    WriteOptions,
    Written,
)
from tidegate_coordination.client.properties.client import Address, ClientProperties
from tidegate_protocol.consumer_protocol import encode_assignment, encode_subscription
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import sync_group as sg
from tidegate_protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidegate_simulation.world.transport_stream import TransportStream

PROPERTIES = ClientProperties((Address("127.0.0.1", 9092),), client_id="tidegate")


@dataclass
class KafkaWorld:
    """A gateway and a client of it.  client: makes another client, with its own connections."""

    wire: WireWorld
    cluster: ClassicCluster
    client: Callable[[], ClassicCluster]

    @staticmethod
    def seconds() -> float:
        """Return the time of the gateway's start, since 1970."""
        return NOW_MS / 1000

    async def write(self, topic: str, text: bytes, **options: Any) -> Written:
        """Write lines, with keys where a line has a colon."""
        return await write(self.cluster, topic, [text], WriteOptions(**options))

    async def join(self, group: str, topic: str, partitions: list[int]) -> str:
        """Let a member read partitions of a topic; return its id."""
        client = self.wire.connect()
        client.client_id = "reader\x1b[2J"
        protocols = [
            jg.JoinGroupRequestProtocol(
                "range", encode_subscription(ConsumerProtocolSubscription([topic]))
            )
        ]
        request = jg.JoinGroupRequest(
            group, 60_000, 60_000, protocol_type="consumer", protocols=protocols
        )
        joined = await client.call("JoinGroup", 3, request)
        assert joined.error_code == 0
        assignment = ConsumerProtocolAssignment([TopicPartition(topic, partitions)])
        given = sg.SyncGroupRequestAssignment(joined.member_id, encode_assignment(assignment))
        synced = await client.call(
            "SyncGroup",
            3,
            sg.SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=[given]),
        )
        assert synced.error_code == 0
        member_id: str = joined.member_id
        return member_id


async def write(
    cluster: ClassicCluster, topic: str, pieces: Iterable[bytes], options: WriteOptions
) -> Written:
    """Write the lines in pieces of bytes, with keys where a line has a colon."""
    writer = TopicWriter(cluster, topic, options, rng=Random(1), now_ms=lambda: NOW_MS)
    await writer.open()
    await writer.write(records_of(pieces))
    return writer.written


async def records_of(pieces: Iterable[bytes]) -> Pieces:
    """Yield the records as the command does.  All lines have keys if the first one has."""
    whole = list(pieces)
    has_keys = bool(whole) and b":" in whole[0].partition(b"\n")[0]
    splitter = LineSplitter(LineFormat(b":" if has_keys else None, b"NULL"))
    for each in whole:
        await trio.lowlevel.checkpoint()
        yield splitter.receive(each)
    yield splitter.end()


@asynccontextmanager
async def kafka_world(**settings: str) -> AsyncIterator[KafkaWorld]:
    """Run a gateway with a client.  settings: the gateway's, with _ for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    # Otherwise the gateway's log lines would mix with the command's output.
    with capture_logs():
        async with _world(named) as world:
            yield world


@asynccontextmanager
async def _world(settings: dict[str, str]) -> AsyncIterator[KafkaWorld]:
    async with wire_world(settings) as wire, trio.open_nursery() as nursery:

        async def dial(host: str, port: int) -> trio.abc.Stream:
            assert (host, port) == ("127.0.0.1", 9092)
            await trio.lowlevel.checkpoint()
            return TransportStream(wire.open())

        def client() -> ClassicCluster:
            return ClassicCluster(nursery, dial, PROPERTIES, rng=Random(1))

        cluster = client()
        await cluster.refresh([])
        yield KafkaWorld(wire, cluster, client)
        nursery.cancel_scope.cancel()


def lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each line."""
    return (each.split() for each in text.splitlines())
