"""A gateway starts only with the prefix of its cluster: others would not find its records."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.wire_client import wire_world
from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.prefixes import (
    FOUNDING_SECONDS,
    claim_or_join,
    founder_of,
    own_prefix,
    see_prefix,
)
from tidegate_gateway.startup import load_state, register
from tidegate_storage.keys import CLAIM_KEY, OWNER_KEY
from tidegate_storage.memory_store import MemoryObjectStore
from tidegate_storage.object_store import StoreMisconfigured
from tidegate_storage.ownership import Claim, read_claim, read_owner


def claim(name: str, cluster_id: str = "") -> Claim:
    return Claim(cluster_id or f"cluster of {name}", founder_of(name), "1")


async def claimed(
    store: MemoryObjectStore, log: MemoryLog, name: str, cluster_id: str = ""
) -> tuple[ClusterState, str]:
    state = await load_state(log, deadline_seconds=inf)
    wanted = claim(name, cluster_id)
    return await claim_or_join(store, log, state, wanted, deadline_seconds=inf)


async def made(store: MemoryObjectStore, log: MemoryLog, name: str, *, marks: bool = True) -> str:
    """Go the way of a start; return the id of the cluster."""
    state, cluster_id = await claimed(store, log, name)
    coordinator = Coordinator(log, state, rng=Random(1), wall_clock=lambda: 1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        node_id = int.from_bytes(name.encode()[:2], "big")
        await register(coordinator, Register(node_id, name, "zone", (), "1", cluster_id))
        if marks:
            await own_prefix(store, coordinator, version="1")
        nursery.cancel_scope.cancel()
    return state.cluster_id


async def test_another_prefix_is_refused_and_nothing_is_written(autojump_clock: MockClock) -> None:
    log, elsewhere = MemoryLog(), MemoryObjectStore()
    async with wire_world(store=MemoryObjectStore(), log=log) as world:
        end = world.gateway.coordinator.state.position
        state = await load_state(log, deadline_seconds=inf)
        for founder in ("", founder_of("any")):
            with pytest.raises(StoreMisconfigured, match="keeps its records elsewhere"):
                await see_prefix(elsewhere, log, state, deadline_seconds=inf, founder=founder)
        with pytest.RaisesGroup(
            pytest.RaisesExc(StoreMisconfigured, match="keeps its records elsewhere"),
            flatten_subgroups=True,
        ):
            async with wire_world(store=elsewhere, log=log):
                raise AssertionError("it started")
        assert world.gateway.coordinator.state.position == end
    assert await elsewhere.list("") == []


async def test_a_prefix_that_was_claimed_for_another_cluster_is_refused() -> None:
    here, elsewhere, log = MemoryObjectStore(), MemoryObjectStore(), MemoryLog()
    state, cluster_id = await claimed(elsewhere, MemoryLog(), "a")
    assert (state.cluster_id, cluster_id) == ("", "cluster of a")
    await made(here, log, "b")
    with pytest.raises(StoreMisconfigured, match="keeps its records elsewhere"):
        await claimed(elsewhere, log, "a")
    assert await read_owner(elsewhere) is None


async def test_two_that_start_at_once_make_one_cluster(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    ids: list[str] = []

    async def start(name: str) -> None:
        ids.append(await made(store, log, name))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start, "a")
        nursery.start_soon(start, "b")
    assert len(ids) == 2
    assert len(set(ids)) == 1
    owner = await read_owner(store)
    assert owner is not None
    assert owner.cluster_id == ids[0]


async def test_whoever_died_before_the_cluster_was_made_makes_it_when_it_is_back() -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await claimed(store, log, "a", "first")
    _, cluster_id = await claimed(store, log, "a", "second")
    assert cluster_id == "first"


async def test_others_wait_for_it_and_say_what_can_be_done(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await claimed(store, log, "a")
    begun = trio.current_time()
    with pytest.raises(StoreMisconfigured, match=f"remove {CLAIM_KEY}"):
        await claimed(store, log, "b")
    assert trio.current_time() - begun >= FOUNDING_SECONDS
    assert await log.read(1, 1) == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made, store, log, "b")
        await trio.sleep(FOUNDING_SECONDS / 2)
        assert await made(store, log, "a") == "cluster of a"


async def test_any_gateway_marks_the_prefix_of_a_founder_that_died(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await made(store, log, "a", marks=False)
    assert await read_owner(store) is None
    assert await made(store, log, "b") == "cluster of a"
    assert await read_owner(store) is not None


async def test_a_founder_whose_log_was_lost_makes_no_second_cluster() -> None:
    store = MemoryObjectStore()
    await made(store, MemoryLog(), "a")
    other = MemoryLog()
    with pytest.raises(StoreMisconfigured, match="the metadata log is empty"):
        await claimed(store, other, "a")
    assert await other.read(1, 1) == []


async def test_a_log_that_another_cluster_took_meanwhile_leaves_the_prefix_alone() -> None:
    """It was claimed for a cluster that was not made: another gateway has another prefix."""
    store, log = MemoryObjectStore(), MemoryLog()
    await claimed(store, log, "a")
    await made(MemoryObjectStore(), log, "b")
    coordinator = Coordinator(
        log, await load_state(log, deadline_seconds=inf), rng=Random(1), wall_clock=lambda: 1.0
    )
    with pytest.raises(StoreMisconfigured, match="keeps its records elsewhere"):
        await own_prefix(store, coordinator, version="1")
    assert await read_owner(store) is None
    assert (await read_claim(store)) == claim("a")


async def test_clusters_of_older_releases_have_no_claim() -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    await made(store, log, "a")
    await store.delete_many([CLAIM_KEY])
    assert await made(store, log, "b") == "cluster of a"
    await store.delete_many([OWNER_KEY])
    with pytest.raises(StoreMisconfigured, match="keeps its records elsewhere"):
        await claimed(store, log, "b")
