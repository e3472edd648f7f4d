"""Producer ids: a new id never counts as old, and a gateway takes ids in blocks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, Renew
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, Refusal
from tidegate_coordination.rules.records.producer_ids import ExpireProducers
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.transactions.producer_ids import (
    BLOCK,
    MAX_HOLD_SECONDS,
    ProducerIds,
    hold_seconds,
)

DAY_MS = 86_400_000
TOPIC = b"t" * 16


@asynccontextmanager
async def a_gateway() -> AsyncIterator[Coordinator]:
    begun = 1_700_000_000.0
    one = Coordinator(
        MemoryLog(), ClusterState(), rng=Random(1), wall_clock=lambda: begun + trio.current_time()
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        endpoints = (Endpoint("P", "h", 1),)
        answer = await one.propose(
            Register(1, "k", "az", endpoints, "0", "c" * 22, highest_version=NEWEST)
        )
        assert isinstance(answer, int)
        one.incarnation = answer
        await one.propose(CreateTopics([NewTopic(TOPIC, "t")]))
        yield one
        nursery.cancel_scope.cancel()


async def hours(one: Coordinator, clock: MockClock, count: int) -> None:
    """Let hours of a quiet cluster pass: gateways renew, and old producers expire."""
    for _ in range(count * 2):
        clock.jump(1800)
        await one.propose(Renew())
    await one.propose(ExpireProducers(DAY_MS))


async def send(one: Coordinator, counter: int, producer: int, first: int) -> Refusal | None:
    facts = BatchFacts(TOPIC, 0, 60, 100, 10, 1, 7, producer, 0, first, first + 9)
    [outcome] = await one.propose(CommitWal(WalName(1, counter), 99, [facts]))
    return outcome.refusal


async def test_a_new_id_is_young_however_quiet_the_cluster_is(autojump_clock: MockClock) -> None:
    async with a_gateway() as one:
        ids = ProducerIds(one, hold_seconds(DAY_MS))
        early = await ids.take()
        assert await send(one, 0, early, 0) is None
        await hours(one, autojump_clock, 26)
        late = await ids.take()
        assert not one.state.producer_ids.is_young(early)
        assert one.state.producer_ids.is_young(late)
        # The second batch came first.  The first batch is still on its way, and must not be lost.
        assert await send(one, 1, late, 10) is Refusal.OUT_OF_ORDER_SEQUENCE
        for number in range(8):
            assert await send(one, 2 + number, late, 10 * number) is None
        assert await send(one, 10, late, 0) is Refusal.DUPLICATE_SEQUENCE


async def test_an_id_stays_young_for_nearly_as_long_as_its_state(
    autojump_clock: MockClock,
) -> None:
    async with a_gateway() as one:
        ids = ProducerIds(one, hold_seconds(DAY_MS))
        await ids.take()
        autojump_clock.jump(MAX_HOLD_SECONDS - 1)
        last_of_its_block = await ids.take()
        await hours(one, autojump_clock, 22)
        assert one.state.producer_ids.is_young(last_of_its_block)


async def test_a_busy_gateway_uses_all_of_a_block(autojump_clock: MockClock) -> None:
    async with a_gateway() as one:
        ids = ProducerIds(one)
        taken = [await ids.take() for _ in range(BLOCK + 1)]
        assert taken == list(range(taken[0], taken[0] + BLOCK + 1))


async def test_concurrent_requests_for_producer_ids_share_a_block(
    autojump_clock: MockClock,
) -> None:
    async with a_gateway() as one:
        for held in (MAX_HOLD_SECONDS, 0.0):
            ids, taken = ProducerIds(one, held), list[int]()

            async def take(ids: ProducerIds = ids, taken: list[int] = taken) -> None:
                taken.append(await ids.take())

            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(take)
            assert len(set(taken)) == 5
            blocks = {(each - one.state.producer_ids.own.start) // BLOCK for each in taken}
            assert len(blocks) == (1 if held else 5)


@pytest.mark.parametrize(("expiration_ms", "seconds"), [(DAY_MS, 3600), (240_000, 10), (1, 0)])
def test_ids_are_held_for_a_part_of_what_states_live(expiration_ms: int, seconds: float) -> None:
    assert hold_seconds(expiration_ms) == pytest.approx(seconds, abs=0.001)
    assert hold_seconds(expiration_ms * 1000) <= MAX_HOLD_SECONDS
