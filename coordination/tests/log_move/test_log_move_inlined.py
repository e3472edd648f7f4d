"""A log is moved only when the store has all bytes: a copy begins with a snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, replayed
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events import inlined as iev
from tidegate_coordination.events.cluster import (
    Event,
    MetadataVersionSet,
    Run,
    TopicCreated,
    WalCommitted,
)
from tidegate_coordination.events.metadata_versions import INLINED
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.rules.proposal import HEADS, Decided, View

PARTITION = 0


@dataclass(frozen=True)
class Append:
    """Append some events."""

    events: tuple[Event, ...]
    reads: frozenset[str] = field(default=frozenset(), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        return Decided(self.events, None)


async def inline(gateway: Coordinator, body: bytes = b"body") -> None:
    await gateway.propose(
        Append((MetadataVersionSet(INLINED), TopicCreated(b"t" * 16, "t", 1, 1, {})))
    )
    author = gateway.incarnation
    run = Run(PARTITION, 0, len(body), 0, 1, 5, 1, 0)
    committed = WalCommitted(author, 1, len(body), (run,), ())
    await gateway.propose(Append((committed, iev.BatchesInlined(author, 1, body))))


async def move_to_store(gateway: Coordinator) -> None:
    run = Run(PARTITION, 0, 50, 0, 1, 5, 1, 0)
    stretch = iev.MovedStretch(PARTITION, 0, 1, (run,))
    await gateway.propose(Append((iev.InlineMoved(gateway.incarnation, 2, 60, (stretch,)),)))


async def test_the_copy_begins_when_the_store_has_all_bytes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(1)
    async with gateways(world, 2) as found:
        await inline(found[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.move, "b")
            await trio.sleep(10)
            assert found[1].state.log_moves.present is not None
            assert await world.logs["b"].load_snapshot() is None
            await move_to_store(found[0])
    assert not (await replayed(world.logs["b"])).objects.inlined
    assert found[1].state.log_moves.last.url == "b"


async def test_a_move_ends_if_the_gateways_do_not_move_the_bytes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(2)
    async with gateways(world, 1) as found:
        await inline(found[0])
        begun = trio.current_time()
        refusal = r"1 small writes are in this log only, .* in 20 s: see that gateways run"
        with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match=refusal)):
            await world.move("b", ready_seconds=20)
        assert 20 <= trio.current_time() - begun < 25
        assert found[0].state.log_moves.present is None
        assert await world.logs["b"].load_snapshot() is None
        await world.work(found[0], 3)


async def test_a_move_without_gateways_is_refused_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(3)
    async with gateways(world, 1) as found:
        await inline(found[0])
        await found[0].leave()
    begun = trio.current_time()
    with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match="start a gateway")):
        await world.move("b")
    assert trio.current_time() - begun < 5
    state = await replayed(world.logs["a"])
    assert state.log_moves.present is None
