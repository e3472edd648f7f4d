"""Small writes: acknowledged by the metadata log alone, read by all, and moved to the store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.rules.test_wal_rules import World, batch, commit_of
from tests.worlds.wire_client import WireWorld, records_batch, wire_world
from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.events.cluster import Endpoint, GatewayExpired, GatewayRegistered
from tidegate_coordination.logs.memory import WITH_SMALL_WRITES, MemoryLog
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.records import inlining
from tidegate_coordination.state.records.inlined import InlinedObjects
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.inlining.moving import Waits, due, due_of_others
from tidegate_gateway.tools.inspection import look_at, scan
from tidegate_gateway.tools.object_sources import inlined_object
from tidegate_gateway.upkeep.key_taken import KeyTaken
from tidegate_protocol.messages import delete_topics as dt
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectExists


def small_log() -> MemoryLog:
    return MemoryLog(WITH_SMALL_WRITES)


class SlowStore(MemoryObjectStore):
    """Each PUT of a WAL object takes 100 ms.  puts: their keys."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            self.puts.append(key)
            await trio.sleep(0.1)
        await super().put(key, body)


def inlined(world: WireWorld) -> InlinedObjects:
    return world.gateway.coordinator.state.objects.inlined


async def fill(world: WireWorld, count: int) -> list[bytes]:
    client = world.connect()
    values = [b"%d" % each for each in range(count)]
    for at, each in enumerate(values):
        answer = await client.produce("t", 0, records_batch(each))
        assert (answer.error_code, answer.base_offset) == (0, at)
    return values


async def test_a_small_write_waits_for_no_put(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)
        began = trio.current_time()
        values = await fill(world, 20)
        assert trio.current_time() - began < 0.1
        assert not store.puts
        assert len(inlined(world)) == 20
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_small_writes_are_moved_in_one_object(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 20)
        await trio.sleep(15)
        assert len(store.puts) == 1
        state = world.gateway.coordinator.state
        assert (len(inlined(world)), inlined(world).size_bytes) == (0, 0)
        [partition] = state.partitions.values()
        assert len(partition.runs) == 1
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert (await world.connect().produce("t", 0, records_batch(b"x"))).base_offset == 20


@pytest.mark.parametrize("has_snapshot", [False, True])
async def test_a_gateway_that_starts_reads_them_from_the_log(
    autojump_clock: MockClock, has_snapshot: bool
) -> None:
    store, log = SlowStore(), small_log()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 5)
        if has_snapshot:
            await world.gateway.keepers.housekeeper.take_snapshot()
    async with wire_world(store=store, log=log) as world:
        assert inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert not store.puts


async def test_the_writes_of_an_ended_gateway_are_moved(autojump_clock: MockClock) -> None:
    store, log = SlowStore(), small_log()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 5)
    async with wire_world({"wal.inline.max.bytes": "0"}, store=store, log=log) as world:
        await trio.sleep(600)
        assert not inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_large_and_small_writes_keep_their_order(autojump_clock: MockClock) -> None:
    store = SlowStore()
    values = [b"%d" % each * (80_000 if each % 3 == 0 else 1) for each in range(12)]
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)

        async def write(value: bytes) -> None:
            answer = await world.connect().produce("t", 0, records_batch(value))
            assert (answer.error_code, answer.base_offset) == (0, values.index(value))

        async with trio.open_nursery() as nursery:
            for each in values:
                nursery.start_soon(write, each)
                await trio.sleep(0.01)
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert store.puts


async def test_a_gateway_that_stops_moves_its_objects(autojump_clock: MockClock) -> None:
    store, log = SlowStore(), small_log()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 3)
        await world.gateway.drain()
        assert (len(store.puts), len(inlined(world))) == (1, 0)
    async with wire_world(store=store, log=log) as world:
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_objects_that_cannot_be_moved_hold_up_no_others(autojump_clock: MockClock) -> None:
    store, log = SlowStore(), small_log()
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        await fill(world, 1)
    async with wire_world(store=store, log=log, node_id=2) as world:
        [damaged] = inlined(world)
        inlined(world).fill(damaged, b"damaged")
        answer = await world.connect().produce("t", 0, records_batch(b"1"))
        assert (answer.error_code, answer.base_offset) == (0, 1)
        await trio.sleep(15)
        assert (len(store.puts), [*inlined(world)]) == (1, [damaged])


async def test_inspect_shows_an_object_of_the_log(autojump_clock: MockClock) -> None:
    async with wire_world(store=SlowStore(), log=small_log()) as world:
        await world.create_topic("t", 1)
        await fill(world, 2)
        state = world.gateway.coordinator.state
        keys = [object_key(state, state.objects.name(each)) for each in inlined(world)]
        source = inlined_object(state, keys[1])
        assert source is not None
        frame = await look_at(source)
        found = [await scan(source, each, lambda _: None) for each in frame.stretches]
        assert [(each.batches, each.problems) for each in found] == [(1, [])]
        assert inlined_object(state, f"{keys[1]}0") is None


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log takes none, though the writer has seen that it would."""
    monkeypatch.setattr(inlining, "may_inline", lambda *_: False)


@pytest.mark.usefixtures("refusing")
async def test_what_the_log_does_not_take_is_stored(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 3)
        assert len(store.puts) == 3
        assert not inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_the_records_of_a_deleted_topic_are_not_moved(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)
        await fill(world, 3)
        request = dt.DeleteTopicsRequest([dt.DeleteTopicState("t")], timeout_ms=1000)
        await world.connect().call("DeleteTopics", 6, request)
        await trio.sleep(15)
        assert not store.puts
        assert not inlined(world)


async def test_a_move_whose_outcome_is_unknown_is_proposed_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    async with wire_world(store=store, log=small_log()) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 3)
        coordinator = world.gateway.coordinator
        propose, asked = coordinator.propose, []

        async def silent_once(proposal: Any) -> Any:
            if isinstance(proposal, inlining.MoveInlined):
                asked.append(proposal)
                if len(asked) == 1:
                    raise CoordinatorUnavailable("no answer")
            return await propose(proposal)

        monkeypatch.setattr(coordinator, "propose", silent_once)
        await trio.sleep(20)
        assert (len(asked), len(store.puts)) == (2, 1)
        assert asked[0] == asked[1]
        assert not inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values


class TakenStore(SlowStore):
    """Each key of a WAL object holds another object already."""

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            with suppress(ObjectExists):
                await MemoryObjectStore.put(self, key, b"of an earlier life of this log")
        await super().put(key, body)


async def test_a_gateway_whose_key_is_taken_stops(autojump_clock: MockClock) -> None:
    store = TakenStore()

    async def write_and_wait() -> None:
        async with wire_world(store=store, log=small_log()) as world:
            await world.create_topic("t", 1)
            await fill(world, 3)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as stopped:
        await write_and_wait()
    assert stopped.group_contains(KeyTaken, match="not its own has the key")


def inline(world: World, author: int) -> None:
    commit = commit_of(WalName(author, world.counter), [batch()])
    world.counter += 1
    decided = inlining.CommitInlined.of(commit, bytes(100)).decide(world.view())
    world.apply(*decided.events, writer=author)


def world_of_three() -> World:
    """Return a world in which gateway 1 of three has committed an inlined object."""
    world = World()
    for each in (2, 3):
        endpoints = (Endpoint("PLAINTEXT", "h", 1),)
        world.apply(GatewayRegistered(each, each, "key", "az1", endpoints, "0", 0))
    inline(world, 1)
    return world


def first_turns(world: World) -> dict[int, int]:
    """Return at which second each gateway moves objects, if the others never do."""
    waits = {each: Waits() for each in world.state.gateways.live}
    found: dict[int, int] = {}
    for second in range(0, 200, 10):
        for me, each in waits.items():
            seconds = each.look(world.state.objects, float(second))
            if due(world.state, me, seconds) or any(due_of_others(world.state, me, seconds)):
                found.setdefault(me, second)
    return found


def test_if_a_gateway_does_not_move_its_objects_the_others_do_in_turn() -> None:
    # Log time stands still here, as it does while it is ahead of all clocks.
    assert first_turns(world_of_three()) == {1: 10, 2: 120, 3: 60}


def test_another_gateway_moves_the_objects_of_one_that_has_ended_at_once() -> None:
    world = world_of_three()
    world.apply(GatewayExpired(1), writer=2)
    assert first_turns(world) == {2: 60, 3: 0}


def test_an_object_waits_since_it_was_seen_first() -> None:
    world, waits = world_of_three(), Waits()
    first = [*world.state.objects.inlined]
    assert waits.look(world.state.objects, 0.0) == {1: 0.0}
    inline(world, 1)
    assert waits.look(world.state.objects, 5.0) == {1: 5.0}
    world.state.objects.inlined.forget(first[0])
    assert waits.look(world.state.objects, 6.0) == {1: 0.0}
    inline(world, 1)
    world.state.objects.inlined.forget(first[0] + 1)
    assert waits.look(world.state.objects, 7.0) == {1: 0.0}
    inline(world, 1)
    assert waits.look(world.state.objects, 9.0) == {1: 2.0}
