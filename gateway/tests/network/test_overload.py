"""Clients offer more than the object store takes, in virtual time: memory stays bounded.

Fetches, groups and a small producer continue meanwhile. compat-tests/overload does the same with a
real process, a real store and real clients.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Member, joined
from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

MIB = 1 << 20
CAP_BYTES_PER_SECOND = 16e6
BUFFERED_BYTES = 128 * MIB
CACHE_BYTES = 32 * MIB
SETTINGS = {
    "buffered.bytes.max": str(BUFFERED_BYTES),
    "fetch.cache.bytes": str(CACHE_BYTES),
    "group.initial.rebalance.delay.ms": "0",
}
PRODUCERS = 48
IN_FLIGHT = 8
RECORD_BYTES = 1_000_000
OVERLOAD_SECONDS = 30.0
RELIEF_SECONDS = 10.0
KEPT_OBJECTS = 8


@dataclass(slots=True)
class _Narrow:
    """A link that all uploads share."""

    free_at: float = 0.0

    async def carry(self, size_bytes: int) -> None:
        self.free_at = max(self.free_at, trio.current_time()) + size_bytes / CAP_BYTES_PER_SECOND
        await trio.sleep_until(self.free_at)


class NarrowStore(MemoryObjectStore):
    """A store with a bound of bytes a second, which drops old objects to save memory."""

    def __init__(self) -> None:
        super().__init__()
        self._link = _Narrow()
        self._kept: deque[str] = deque()
        self.stored_bytes = 0

    async def put(self, key: str, body: Buffer) -> None:
        await self._link.carry(len(body))
        await super().put(key, body)
        self.stored_bytes += len(body)
        if "/wal/" in key:
            self._kept.append(key)
        while len(self._kept) > KEPT_OBJECTS:
            await self.delete_many([self._kept.popleft()])


@dataclass(slots=True)
class Seen:
    """The figures during the overload; seconds are virtual."""

    large_bytes: list[int] = field(default_factory=list)
    cache_bytes: list[int] = field(default_factory=list)
    probe: list[tuple[float, float]] = field(default_factory=list)
    fetched: list[tuple[float, int]] = field(default_factory=list)


async def flood(client: WireClient, topic: str, number: int) -> None:
    """Keep IN_FLIGHT Produce requests in flight."""
    batch = records_batch(bytes(RECORD_BYTES))
    data = request_frame("Produce", 9, produce_request([(topic, number % 8, batch)]))
    for _ in range(IN_FLIGHT):
        await client.send(data)
    while True:
        await client.receive()
        await client.send(data)


async def probe(world: WireWorld, seen: Seen) -> None:
    """Produce one small record a second, and read it; note both times."""
    writer, reader = world.connect(), world.connect()
    while True:
        sent = trio.current_time()
        answer = await writer.produce("probe", 0, records_batch(b"p"))
        assert answer.error_code == E.NONE
        seen.probe.append((sent, trio.current_time() - sent))
        asked = trio.current_time()
        values = await reader.fetch_values("probe", 0, len(seen.probe) - 1)
        seen.fetched.append((trio.current_time() - asked, len(values)))
        await trio.sleep(1)


async def beat(member: Member) -> None:
    while True:
        await trio.sleep(2)
        await member.beat()
        assert await member.commit("probe", len(member.answers)) == E.NONE


async def watch(world: WireWorld, seen: Seen) -> None:
    while True:
        await trio.sleep(0.25)
        seen.large_bytes.append(world.gateway.writes.pool.large_bytes)
        seen.cache_bytes.append(world.gateway.reads.cache.used_bytes)


async def test_a_fivefold_overload_delays_only_its_senders(autojump_clock: MockClock) -> None:
    store, seen = NarrowStore(), Seen()
    async with wire_world(SETTINGS, store=store) as world, trio.open_nursery() as nursery:
        await world.create_topic("flood", 8)
        await world.create_topic("probe", 1)
        member = await joined(world.connect(), "g", session_ms=6_000)
        for task in (probe, watch):
            nursery.start_soon(task, world, seen)
        nursery.start_soon(beat, member)
        await trio.sleep(5)
        async with trio.open_nursery() as floods:
            for number in range(PRODUCERS):
                floods.start_soon(flood, world.connect(), "flood", number)
            await trio.sleep(OVERLOAD_SECONDS)
            floods.cancel_scope.cancel()
        relieved = trio.current_time()
        await trio.sleep(2 * RELIEF_SECONDS)
        nursery.cancel_scope.cancel()
    assert store.stored_bytes > 0.9 * CAP_BYTES_PER_SECOND * OVERLOAD_SECONDS
    assert BUFFERED_BYTES // 2 < max(seen.large_bytes) <= BUFFERED_BYTES
    assert max(seen.cache_bytes) <= CACHE_BYTES
    assert set(member.answers) == {E.NONE}
    assert len(member.answers) > OVERLOAD_SECONDS / 4
    assert max(seconds for seconds, _ in seen.fetched) < 1
    assert all(count > 0 for _, count in seen.fetched)
    assert max(took for _, took in seen.probe) > 1
    after = [took for sent, took in seen.probe if sent > relieved + RELIEF_SECONDS]
    assert after
    assert max(after) < 0.1
