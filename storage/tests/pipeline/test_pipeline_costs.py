"""The pipeline's requests to the store are written beside the gateways' sums, each once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.existing import open_existing_log
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.logs.objects.log import open_objects
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_pipeline.commands.options import Options
from tidegate_pipeline.commands.parts import Shared, living_driver
from tidegate_pipeline.commands.stopping import Stopping
from tidegate_pipeline.costs import WRITE_SECONDS, CostBook
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.tasks.work import Asked, MergeTask, UnitResult
from tidegate_storage.objects.cost_sums import PIPELINE, CostSums, decode, merged
from tidegate_storage.objects.keys import cost_prefix, parse_cost_key
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable

ASKED = Asked({"get wal": 3, "put segments": 1}, {"segments": 700}, {"wal": 800})


class Store(MemoryObjectStore):
    """Loses requests or answers, as `fails` says; or has a bug."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.fails = ""
        self.tries = 0

    async def put(self, key: str, body: Buffer) -> None:
        self.tries += 1
        if self.fails == "before":
            raise StoreUnavailable("no route")
        if self.fails == "strangely":
            raise ZeroDivisionError
        await super().put(key, body)
        if self.fails == "after":
            raise StoreUnavailable("no answer")


class Scene:
    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.store = Store()
        self.book = CostBook(lambda: self.seconds)

    async def write(self, incarnation: int = 7) -> None:
        await self.book.write(self.store, "c", 1, incarnation)

    async def written(self) -> dict[str, CostSums]:
        keys = [each.key for each in await self.store.list(cost_prefix("c", 1))]
        return {key: decode(await self.store.get(key)) for key in keys}


async def test_sums_have_all_that_was_asked_since_the_last_ones() -> None:
    scene = Scene()
    scene.book.add(ASKED)
    scene.book.add(ASKED)
    scene.seconds = 2_000.0
    await scene.write()
    scene.book.add(ASKED)
    scene.seconds = 3_000.0
    await scene.write(incarnation=8)

    first, second = (await scene.written()).values()
    assert (first.node_id, first.begin_ms, first.end_ms) == (PIPELINE, 1_000_000, 2_000_000)
    assert first.requests == {"get wal": 6, "put segments": 2, "put costs": 1}
    assert (first.stored_bytes, first.got_bytes) == ({"segments": 1_400}, {"wal": 1_600})
    assert (second.begin_ms, second.end_ms) == (2_000_000, 3_000_000)
    assert second.requests == {"get wal": 3, "put segments": 1, "put costs": 1}
    assert second.stored_bytes["costs"] > 0
    assert [parse_cost_key(each).incarnation for each in await scene.written()] == [7, 8]


async def test_nothing_is_written_of_nothing() -> None:
    scene = Scene()
    await scene.write()
    assert await scene.written() == {}


@pytest.mark.parametrize("fails", ["before", "after"])
async def test_sums_that_could_not_be_stored_are_stored_once_later(fails: str) -> None:
    scene = Scene()
    scene.book.add(ASKED)
    scene.store.fails = fails
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await scene.write()
    scene.book.add(ASKED)
    scene.store.fails = ""
    await scene.write(incarnation=8)

    whole = merged((await scene.written()).values())
    assert whole.requests["get wal"] == 6
    assert whole.requests["put costs"] == scene.store.tries


async def test_what_the_driver_and_its_log_ask_is_in_the_sums() -> None:
    scene = Scene()
    log = await open_objects(MemoryObjectStore(lambda: 0.0), "log", in_loop=True)
    counted = scene.book.counted(scene.store, MovableLog(log, open_existing_log))
    await scene.store.put("c/00001/wal/x", b"abc")
    assert await counted.get("c/00001/wal/x") == b"abc"
    _ = await log.append(1, b"entry")
    await scene.write()

    [found] = (await scene.written()).values()
    assert found.requests["get wal"] == 1
    assert found.got_bytes["wal"] == 3
    assert found.requests["put log"] >= 1
    assert found.stored_bytes["log"] >= len(b"entry")


async def test_what_the_log_of_a_driver_asked_that_an_error_ended_is_in_the_next_sums() -> None:
    scene = Scene()
    logs = [
        await open_objects(MemoryObjectStore(lambda: 0.0), "log", in_loop=True) for _ in range(2)
    ]
    for log in logs:
        _ = scene.book.counted(scene.store, MovableLog(log, open_existing_log))
        _ = await log.append(1, b"entry")
    await scene.write()

    [found] = (await scene.written()).values()
    assert found.stored_bytes["log"] == sum(log.requests.stored_bytes for log in logs)


class Idle:
    """A runner that no driver needs."""

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        return
        yield

    def stop(self) -> None:
        pass


@asynccontextmanager
async def driving(scene: Scene) -> AsyncIterator[Driver]:
    """Make a driver as the commands do, for a cluster that a gateway created."""
    log = MemoryLog()
    gateway = Coordinator(log, ClusterState(), rng=Random(1), wall_clock=lambda: scene.seconds)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.run)
        await gateway.propose(Register(1, "g", "", (), "1", "c", highest_version=NEWEST))
        nursery.cancel_scope.cancel()
    await claim_prefix(scene.store, "c", timeline=1, created_by="1")
    movable = MovableLog(log, open_existing_log)
    counted = scene.book.counted(scene.store, movable)
    shared = Shared(movable, "memory:", counted, scene.store, "memory:", scene.book)
    options = Options(
        Path(),
        None,
        None,
        "local",
        "",
        max_failures=1,
        speculation=False,
        segment_bytes=1 << 20,
        rest_ms=0,
        patience_ms=0,
    )
    async with living_driver(
        shared, Idle(), options, lambda _done, _planned: None, stopping=Stopping()
    ) as driver:
        yield driver


async def test_a_driver_writes_each_hour_and_at_its_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scene = Scene()
    async with driving(scene):
        scene.book.add(ASKED)
        await trio.sleep(WRITE_SECONDS + 1)
        assert [each.requests["put segments"] for each in (await scene.written()).values()] == [1]
        scene.book.add(ASKED)

    assert [each.requests["get wal"] for each in (await scene.written()).values()] == [3, 3]


@pytest.mark.parametrize("fails", ["before", "strangely"])
async def test_an_error_of_writing_costs_the_driver_nothing(
    fails: str, autojump_clock: trio.testing.MockClock
) -> None:
    scene = Scene()
    async with driving(scene):
        scene.book.add(ASKED)
        scene.store.fails = fails
        await trio.sleep(2 * WRITE_SECONDS + 1)
        scene.store.fails = ""

    whole = merged((await scene.written()).values())
    assert whole.requests["get wal"] == 3
