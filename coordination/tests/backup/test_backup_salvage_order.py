"""Salvage and idempotent producers: acknowledged batches are there once, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.backup_fuse import Blown, Fuse, FusedLog, FusedStore
from tests.worlds.backup_world import (
    CLUSTER,
    Writer,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    values,
    writers,
)
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.objects.keys import parse_wal_key
from tidegate_storage.stores.memory_store import MemoryObjectStore

Batch = tuple[int, int]
"""A producer id, and the sequence of the one record."""


def slice_of(batch: Batch) -> tuple[str, bytes]:
    return ("t", batch_of(b"%d:%d" % batch, producer=batch))


async def salvaged(store: MemoryObjectStore, blows_at: int = 1000) -> list[Batch]:
    """Restore, perhaps in two calls; return the batches in the order of their offsets."""
    log = MemoryLog()
    fuse = Fuse(blows_at, after=blows_at % 2 == 0)
    try:
        await restored(FusedStore(store, fuse), FusedLog(log, fuse))
    except* Blown:
        pass
    if fuse.is_blown:
        with suppress(LogMisconfigured):  # only the first backup of the new log was missing
            await restored(store, log)
    found = await values(await replayed(log), store, "t")
    assert sorted(found) == list(range(len(found)))
    return [(int(a), int(b)) for a, b in (found[at].split(b":") for at in sorted(found))]


async def test_a_new_producers_early_batch_does_not_lose_earlier_batches(
    autojump_clock: MockClock,
) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        producer = await writer.coordinator.propose(ReserveProducerIds(10))
        [early] = await writer.write(slice_of((producer, 2)))
        assert early.refusal is not None
        for number in range(3):
            [outcome] = await writer.write(slice_of((producer, number)))
            assert outcome.refusal is None
    assert await salvaged(store) == [(producer, number) for number in range(3)]


async def test_a_gap_within_an_object_does_not_lose_earlier_batches(
    autojump_clock: MockClock,
) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(slice_of((5, 0)))
        await back_up(log, store)
        taken, refused = await writer.write(slice_of((5, 1)), slice_of((5, 3)))
        assert taken.refusal is None
        assert refused.refusal is not None
    assert await salvaged(store) == [(5, 0), (5, 1)]


async def test_a_gap_whose_batch_was_refused_before_is_bridged(autojump_clock: MockClock) -> None:
    """Another gateway had refused the lost batch before; the batches after it are salvaged."""
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1, 2, 3) as [first, second, third]:
        await first.create_topic("t")
        await first.write(slice_of((5, 0)))
        await back_up(log, store)
        objects = ((third, (2, 3)), (third, (1, 2)), (second, (3,)), (first, (4,)), (first, (5,)))
        for writer, numbers in objects:
            await trio.sleep(1)
            await writer.write(*(slice_of((5, number)) for number in numbers))
        lost = f"{CLUSTER}/1/wal/az1/2-{second.coordinator.incarnation}/{0:012}"
    await store.delete_many([lost])
    assert await salvaged(store) == [(5, 0), (5, 1), (5, 2), (5, 4), (5, 5)]


class NoisyStore(MemoryObjectStore):
    """Every second read of an object returns damaged bytes."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self._seen: set[str] = set()

    async def get(self, key: str) -> bytes:
        body = await super().get(key)
        if "/wal/" not in key or key not in self._seen:
            self._seen.add(key)
            return body
        self._seen.discard(key)
        return body[:-1] + bytes([body[-1] ^ 1])


async def test_bytes_damaged_on_their_way_are_read_again(autojump_clock: MockClock) -> None:
    store, log = NoisyStore(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.write(slice_of((5, 0)))
    assert await salvaged(store) == [(5, 0)]


class Traffic:
    """Producers that retry from the first unacknowledged batch on; some send a batch too early."""

    def __init__(self, rng: Random, producers: Sequence[int]) -> None:
        self._rng = rng
        self._next = dict.fromkeys(producers, 0)
        self.objects: dict[Batch, set[WalName]] = {}
        self.acknowledged: set[Batch] = set()

    async def run(self, gateways: Sequence[Writer]) -> None:
        rng = self._rng
        for _ in range(rng.randrange(5, 25)):
            await trio.sleep(1)
            chosen = rng.sample(sorted(self._next), rng.randrange(1, len(self._next) + 1))
            await self._write(
                rng.choice(gateways), [each for p in chosen for each in self._some(p)]
            )

    def _some(self, producer: int) -> list[Batch]:
        begin = max(0, self._next[producer] + self._rng.choice((0, 0, 0, 0, 1, -1)))
        return [(producer, begin + each) for each in range(self._rng.randrange(1, 4))]

    async def _write(self, gateway: Writer, batches: list[Batch]) -> None:
        name, size_bytes, facts = await gateway.store_object(*map(slice_of, batches))
        for batch in batches:
            self.objects.setdefault(batch, set()).add(name)
        if self._rng.random() < 0.1:
            return  # the gateway ended before it was committed
        proposal = CommitWal(name, size_bytes, facts)
        outcomes = await gateway.coordinator.propose(proposal)
        for fact, outcome in zip(facts, outcomes, strict=True):
            if outcome.refusal is None:
                producer, number = fact.producer_id, fact.first_sequence
                self.acknowledged.add((producer, number))
                self._next[producer] = max(self._next[producer], number + 1)


@pytest.mark.parametrize(("is_damaged", "tick_seconds"), [(False, 1), (True, 1), (False, 2)])
@pytest.mark.parametrize("seed", range(30))
async def test_acknowledged_batches_are_there_once_and_in_order(
    seed: int, is_damaged: bool, tick_seconds: int, autojump_clock: MockClock
) -> None:
    """An object is stored every second. tick_seconds: the resolution of the store's clock."""
    rng, log = Random(seed), MemoryLog()
    store = MemoryObjectStore(lambda: trio.current_time() // tick_seconds * tick_seconds)
    async with writers(log, store, 1, 2, 3) as gateways:
        await gateways[0].create_topic("t")
        first = await gateways[0].coordinator.propose(ReserveProducerIds(10))
        traffic = Traffic(rng, range(first, first + 4))
        if rng.random() < 0.7:
            await traffic.run(gateways)
        await back_up(log, store)
        known = {each.key for each in await store.list(f"{CLUSTER}/1/wal/")}
        await traffic.run(gateways)
    async with writers(log, store, 1, 2) as gateways:
        await traffic.run(gateways)
    young = [each.key for each in await store.list(f"{CLUSTER}/1/wal/") if each.key not in known]
    lost = rng.sample(young, 2) if is_damaged else []
    await store.delete_many(lost)
    gone = {WalName(*parse_wal_key(each)[-2:]) for each in lost}
    batches = await salvaged(store, blows_at=rng.randrange(60))
    assert len(set(batches)) == len(batches)
    for producer in range(first, first + 4):
        numbers = [number for found, number in batches if found == producer]
        assert numbers == sorted(numbers)
    safe = {each for each in traffic.acknowledged if not traffic.objects[each] & gone}
    assert safe <= set(batches)
