"""A gateway starts only with its cluster's prefix, where the other gateways find its records."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import records_batch, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import RETRY_SECONDS, load_state
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.startup import PATIENCE_SECONDS, register
from tidegate_gateway.upkeep.prefixes import LOOKS, own_prefix, see_prefix
from tidegate_protocol.error_codes import ErrorCode
from tidegate_storage.objects.keys import OWNER_KEY
from tidegate_storage.objects.ownership import read_owner
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreMisconfigured, StoreUnavailable

ELSEWHERE = "keeps its records elsewhere"


class Moody(MemoryObjectStore):
    """A store that fails for long after each answer, once it has stored the mark."""

    AWAY_SECONDS = PATIENCE_SECONDS - 10

    def __init__(self) -> None:
        super().__init__()
        self._back_at = -inf

    async def put(self, key: str, body: Buffer) -> None:
        await super().put(key, body)
        self._back_at = trio.current_time() + self.AWAY_SECONDS

    async def get(self, key: str) -> bytes:
        if trio.current_time() < self._back_at:
            raise StoreUnavailable("away")
        if self._back_at > 0:
            self._back_at = trio.current_time() + self.AWAY_SECONDS
        return await super().get(key)


class Overwriting(MemoryObjectStore):
    """A store that ignores If-None-Match."""

    async def put(self, key: str, body: Buffer) -> None:
        await self.delete_many([key])
        await super().put(key, body)


class LostAnswers(MemoryObjectStore):
    """Loses the answers to the first puts.  heard: whether the store received each of them."""

    def __init__(self, *heard: bool) -> None:
        super().__init__()
        self.heard = list(heard)

    async def put(self, key: str, body: Buffer) -> None:
        is_heard = self.heard.pop(0) if self.heard else None
        if is_heard is not False:
            await super().put(key, body)
        if is_heard is not None:
            raise StoreUnavailable("no answer")


async def seen(store: MemoryObjectStore, log: MemoryLog, node_id: int) -> ClusterState:
    state = await load_state(log, deadline_seconds=inf)
    return await see_prefix(store, log, state, node_id, deadline_seconds=inf)


async def start(
    store: MemoryObjectStore, log: MemoryLog, node_id: int, *, marks: bool = True
) -> str:
    """Start as a gateway does; return the cluster's id.

    marks: False if the gateway dies before it puts the marker.
    """
    state = await seen(store, log, node_id)
    coordinator = Coordinator(log, state, rng=Random(node_id), wall_clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        new_id = f"cluster of {node_id}"
        await register(coordinator, Register(node_id, f"k{node_id}", "zone", (), "1", new_id))
        try:
            if marks:
                await own_prefix(store, coordinator, node_id, version="1")
        finally:
            nursery.cancel_scope.cancel()
    return state.cluster_id


def refused(text: str) -> pytest.RaisesGroup[Exception]:
    wanted = pytest.RaisesExc(StoreMisconfigured, match=text)
    return pytest.RaisesGroup(wanted, flatten_subgroups=True, allow_unwrapped=True)


async def test_another_prefix_is_refused_and_nothing_is_written(autojump_clock: MockClock) -> None:
    log, elsewhere = MemoryLog(), MemoryObjectStore()
    async with wire_world(store=MemoryObjectStore(), log=log) as world:
        state = world.gateway.coordinator.state
        alive = set(state.gateways.live)
        with refused(ELSEWHERE):
            await start(elsewhere, log, 2)
        await world.gateway.coordinator.catch_up()
        assert set(state.gateways.live) == alive
        assert state.gateways.next_incarnation == 2
    assert await elsewhere.list("") == []


async def test_the_maker_is_refused_elsewhere_as_soon_as_there_are_records(
    autojump_clock: MockClock,
) -> None:
    log = MemoryLog()
    async with wire_world(store=MemoryObjectStore(), log=log) as world:
        await world.create_topic("t", 1)
        answer = await world.connect().produce("t", 0, records_batch(b"a"))
        assert answer.error_code == ErrorCode.NONE
    with refused(ELSEWHERE):
        await start(MemoryObjectStore(), log, 1)


async def test_the_maker_is_refused_elsewhere_while_others_live(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await start(store, log, 1)
    await start(store, log, 2)
    began = trio.current_time()
    with refused(ELSEWHERE), capture_logs() as lines:
        await start(MemoryObjectStore(), log, 1)
    [told] = [each for each in lines if each.get("missing") == OWNER_KEY]
    assert began + told["looks_for_seconds"] == trio.current_time()  # logged before it waited


async def test_two_that_start_at_once_make_one_cluster(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    ids: list[str] = []

    async def begin(node_id: int) -> None:
        ids.append(await start(store, log, node_id))

    async with trio.open_nursery() as nursery:
        for node_id in (1, 2, 3):
            nursery.start_soon(begin, node_id)
    assert len(ids) == 3
    owner = await read_owner(store)
    assert owner is not None
    assert set(ids) == {owner.cluster_id}


async def test_of_two_prefixes_at_once_one_is_refused_and_its_gateway_leaves(
    autojump_clock: MockClock,
) -> None:
    stores, log = (MemoryObjectStore(), MemoryObjectStore()), MemoryLog()
    refusals: list[StoreMisconfigured] = []

    async def begin(node_id: int) -> None:
        try:
            await start(stores[node_id - 1], log, node_id)
        except* StoreMisconfigured as errors:
            refusals.extend(errors.exceptions)  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin, 1)
        nursery.start_soon(begin, 2)
    assert len(refusals) == 1
    assert len([each for each in stores if await read_owner(each) is not None]) == 1
    state = await load_state(log, deadline_seconds=inf)
    assert len(state.gateways.live) == 1


async def test_a_maker_that_died_before_its_mark_sets_it_when_it_is_back(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await start(store, log, 1, marks=False)
    with refused("start node.id=1 alone"):
        await start(store, log, 2)
    assert await read_owner(store) is None
    assert await start(store, log, 1) == "cluster of 1"
    assert await start(store, log, 2) == "cluster of 1"


async def test_gateways_wait_for_a_slow_creation_of_the_owner_marker(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await start(store, log, 1, marks=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start, store, log, 2)
        await trio.sleep(LOOKS * RETRY_SECONDS / 2)
        assert await start(store, log, 1) == "cluster of 1"


async def test_a_lost_log_makes_no_second_cluster(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await start(store, MemoryLog(), 1)
    with refused("the metadata log is empty"):
        await start(store, log, 1)
    assert await log.read(1, 1) == []


async def test_a_start_waits_for_the_store_no_longer_than_once(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    with (
        trio.fail_after(10 * PATIENCE_SECONDS),
        pytest.RaisesGroup(StoreUnavailable, flatten_subgroups=True),
    ):
        await start(Moody(), log, 1)
    assert PATIENCE_SECONDS <= trio.current_time() < PATIENCE_SECONDS + 10
    state = await load_state(log, deadline_seconds=inf)
    assert (state.gateways.next_incarnation, state.gateways.live) == (2, {})


async def test_a_store_that_overwrites_is_refused_and_its_gateway_leaves(
    autojump_clock: MockClock,
) -> None:
    store, log = Overwriting(), MemoryLog()
    with refused("ignores create-if-absent: Tidegate would lose data here"):
        async with wire_world(store=store, log=log):
            raise AssertionError("it started")
    assert (await load_state(log, deadline_seconds=inf)).gateways.live == {}


async def test_a_log_that_overwrites_entries_is_refused_to_joining_gateways(
    autojump_clock: MockClock,
) -> None:
    good, store, log = MemoryObjectStore(), Overwriting(), MemoryLog()
    await start(good, log, 1)
    marker = await good.get(OWNER_KEY)
    await store.put(OWNER_KEY, marker)
    with refused("ignores create-if-absent"):
        await start(store, log, 2)
    assert await store.get(OWNER_KEY) == marker


@pytest.mark.parametrize(
    "heard", [(False,), (True,), (True, False), (True, True), (True, True, False)]
)
async def test_answers_that_are_lost_are_asked_for_again(
    heard: tuple[bool, ...], autojump_clock: MockClock
) -> None:
    store, log = LostAnswers(*heard), MemoryLog()
    assert await start(store, log, 1) == "cluster of 1"
    assert store.heard == []


async def test_a_store_that_gives_no_answer_to_the_second_put_is_no_reason_to_start(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await start(store, log, 1)
    deaf = LostAnswers(*[False] * 1000)
    await MemoryObjectStore.put(deaf, OWNER_KEY, await store.get(OWNER_KEY))
    with pytest.RaisesGroup(StoreUnavailable, flatten_subgroups=True):
        await start(deaf, log, 2)
    assert len((await load_state(log, deadline_seconds=inf)).gateways.live) == 1
