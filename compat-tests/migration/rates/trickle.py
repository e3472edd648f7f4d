"""Writes small batches to very many partitions, in a thread of its own: a few requests a second.

It sends Produce requests by itself.  With so many partitions a client library would use more CPU
than the brokers that are measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.client.source_bounds import Place
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidegate_protocol.records import Record, build_batch

VALUE: Final = bytes(100)
A_REQUEST: Final = 250
AGAIN_SECONDS: Final = 0.2
_ACKS: Final = 1
_TIMEOUT_MS: Final = 30_000


def write_each(bootstrap: str, places: Sequence[Place]) -> None:
    """Write one batch to each partition."""
    trio.run(_write_each, bootstrap, places)


async def _write_each(bootstrap: str, places: Sequence[Place]) -> None:
    async with opened_source(bootstrap, None) as cluster:
        await _refresh(cluster, places)
        left = list(places)
        while left:  # the broker gets to know new topics one after another
            refused = await _write(cluster, left[:A_REQUEST])
            left = left[A_REQUEST:] + refused
            await trio.sleep(AGAIN_SECONDS if refused else 0)


@contextmanager
def trickling(bootstrap: str, places: Sequence[Place], every: float) -> Generator[None]:
    """Write one batch to each partition every `every` seconds during the block."""
    ended = threading.Event()
    thread = threading.Thread(target=trio.run, args=(_trickle, bootstrap, places, every, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def _trickle(
    bootstrap: str, places: Sequence[Place], every: float, ended: threading.Event
) -> None:
    parts = [places[at : at + A_REQUEST] for at in range(0, len(places), A_REQUEST)]
    async with opened_source(bootstrap, None) as cluster:
        await _refresh(cluster, places)
        begun = trio.current_time()
        for number, part in enumerate(cycle(parts)):
            await trio.sleep_until(begun + number * every / len(parts))
            if ended.is_set():
                return
            if refused := await _write(cluster, part):
                raise RuntimeError(f"the source refused writes to {refused[:3]}")


async def _refresh(cluster: ClassicCluster, places: Sequence[Place]) -> None:
    """Read the metadata until it has all topics."""
    names = {topic for topic, _ in places}
    while True:
        known = (await cluster.refresh(names)).topics
        if all(name in known and known[name].partitions for name in names):
            return
        await trio.sleep(AGAIN_SECONDS)


async def _write(cluster: ClassicCluster, places: Sequence[Place]) -> list[Place]:
    """Write a batch to each partition; return the partitions that refused it."""
    batch = memoryview(build_batch([Record(0, time.time_ns() // 1_000_000, None, VALUE, ())]))
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(PartitionProduceData(index, batch))
    topics = [
        TopicProduceData(name, cluster.metadata.topics[name].topic_id or bytes(16), partitions)
        for name, partitions in by_topic.items()
    ]
    request = ProduceRequest(None, _ACKS, _TIMEOUT_MS, topics)
    (node_id,) = cluster.metadata.brokers
    answer: ProduceResponse = await cluster.call_broker(node_id, "Produce", request)
    names = {each.topic_id: name for name, each in cluster.metadata.topics.items()}
    return [
        (topic.name or names[topic.topic_id], each.index)
        for topic in answer.responses
        for each in topic.partition_responses
        if each.error_code
    ]
