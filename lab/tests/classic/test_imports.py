"""An import copies the backlog of a link's topics while the gateways' mirrors stand aside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.properties.client import read_client_properties
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.visitor import keep_lease
from tidegate_coordination.rules.gateways import ReleaseClaim
from tidegate_coordination.rules.migration.import_claims import import_claim
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_pipeline.importing import broker_reader, partition_import
from tidegate_pipeline.importing.broker_bounds import BrokerBounds
from tidegate_pipeline.importing.broker_reader import BrokerOrigin
from tidegate_pipeline.importing.import_driver import ImportDriver
from tidegate_pipeline.importing.local_import import LocalImportRunner
from tidegate_pipeline.importing.visit import begin_visit, leave_link, take_link
from tidegate_pipeline.importing.work import ImportTask, UnitDone
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_simulation.classic.log.faults import raise_log_start, remove_records, truncate

from .test_mirrors import World, becomes, mirroring

PROPERTIES = read_client_properties("bootstrap.servers=b1:9092,b2:9092", "test")


@dataclass
class Hurt:
    """A runner whose tasks get lost, come late, or come twice.

    losing: the number of tasks that return nothing.  die_after: the driver dies with this task.
    """

    inner: LocalImportRunner
    losing: int = 0
    die_after: int = 1 << 30
    object_bytes: int = 200
    late: tuple[int, float] = (-1, 0.0)
    tasks: list[ImportTask] = field(default_factory=list)

    async def slots(self) -> int:
        return 3

    async def run(self, task: ImportTask) -> Sequence[UnitDone]:
        self.tasks.append(task)
        count = len(self.tasks)
        if count > self.die_after:
            await trio.sleep_forever()
        done = await self.inner.run(replace(task, object_bytes=self.object_bytes))
        await trio.sleep(Random(count).random())
        if task.units[0].partition == self.late[0]:
            await trio.sleep(self.late[1])
        if count <= self.losing:
            return ()
        return done


@dataclass
class Importing:
    """An import's process."""

    driver: ImportDriver
    coordinator: Coordinator
    runner: Hurt

    async def run(self, *names: str) -> None:
        await self.coordinator.catch_up()
        topics = self.coordinator.state.links.topics_of("src")
        await self.driver.run([each for each in topics if each.name in (names or ("t",))])

    @property
    def problems(self) -> list[str]:
        return [each.problem for each in self.driver.partitions if each.problem]


@asynccontextmanager
async def importing(
    world: World, seed: int = 1, *, decompressed_bytes: int | None = 1 << 20
) -> AsyncIterator[Importing]:
    async with trio.open_nursery() as nursery:
        coordinator = Coordinator(
            world.ours.log, ClusterState(), rng=Random(seed), wall_clock=Clock()
        )
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        cluster = ClassicCluster(nursery, world.servers.dial, PROPERTIES, rng=Random(seed))
        cluster_id = world.source.cluster_id
        origin = BrokerOrigin(PROPERTIES, cluster_id, lambda _: world.servers.dial)
        runner = Hurt(LocalImportRunner(world.ours.store, origin))
        driver = ImportDriver(
            coordinator,
            runner,
            BrokerBounds(cluster, cluster_id),
            "src",
            decompressed_bytes=decompressed_bytes,
        )
        await begin_visit(coordinator, rng=Random(seed), software_version="0")
        nursery.start_soon(keep_lease, coordinator)
        await take_link(coordinator, "src", lambda: None)
        yield Importing(driver, coordinator, runner)
        nursery.cancel_scope.cancel()


async def linked(world: World) -> None:
    await world.link()
    await becomes(lambda: world.copy(1) is not None)


def next_offset(driver: Importing, index: int = 0) -> int:
    """Return where the copy of a partition of t ends."""
    state = driver.coordinator.state
    return state.partitions[state.topics.by_name["t"].partition_numbers[index]].next_offset


def by_importer(world: World, driver: Importing, index: int = 0) -> int:
    """Return how many runs of a partition the import has written."""
    state = world.gateways[0].gateway.coordinator.state
    copy = world.copy(index)
    assert copy is not None
    names = [state.objects.name(copy.runs[at].object_number) for at in range(len(copy.runs))]
    return sum(
        isinstance(each, WalName) and each.incarnation == driver.coordinator.incarnation
        for each in names
    )


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of a few batches."""
    monkeypatch.setattr(partition_import, "UNIT_BYTES", 300)
    monkeypatch.setattr(partition_import, "FIRST_UNIT_BYTES", 100)
    monkeypatch.setattr(broker_reader, "FETCH_BYTES", 200)


async def test_an_import_copies_while_the_mirrors_stand_aside(
    autojump_clock: MockClock, small_units: None
) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for number in range(40):
            world.write(1 + number % 4, number % 2)
        await trio.sleep(60)
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 0
        await first.run()
        assert first.problems == []
        assert len({task.units[0].number for task in first.runner.tasks}) > 4
        world.write(3)
        await leave_link(first.coordinator, "src")
        for index in (0, 1):
            await world.copied(index)
            assert by_importer(world, first, index) > 2


async def test_transactions_gaps_and_markers_are_the_sources(
    autojump_clock: MockClock, small_units: None
) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        head = {"producer_epoch": 0, "attributes": TRANSACTIONAL}
        for number in range(12):
            world.write(2, producer_id=7, base_sequence=2 * number, **head)
            world.write(3)
            if number % 3 == 2:
                world.mark(7, committed=number % 2 == 0)
        remove_records(world.log(), {2, 3, 4, 12, 13, 14, 30})
        await first.run()
        assert first.problems == []
        assert next_offset(first) == world.log().high_watermark
        await leave_link(first.coordinator, "src")
        await world.copied()


@pytest.mark.parametrize("start", [3, 4, 6, 9])
async def test_a_source_whose_log_begins_late(
    autojump_clock: MockClock, small_units: None, start: int
) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(3):
            world.write(3)
        raise_log_start(world.log(), start)
        await first.run()
        assert first.problems == []
        await leave_link(first.coordinator, "src")
        await world.copied()


async def test_lost_tasks_are_done_again(autojump_clock: MockClock, small_units: None) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(30):
            world.write(2)
        first.runner.losing = 3
        await first.run()
        assert first.problems == []
        await leave_link(first.coordinator, "src")
        await world.copied()


async def test_a_driver_that_died_is_followed_by_another_one(
    autojump_clock: MockClock, small_units: None
) -> None:
    async with mirroring() as world:
        for _ in range(60):
            world.write(2)
        async with importing(world) as first:
            await linked(world)
            first.runner.die_after = 6
            with trio.move_on_after(30):
                await first.run()
            assert 0 < next_offset(first) < world.log().high_watermark
        async with importing(world, 2) as second:
            await second.run()
            assert second.problems == []
            assert all(each.units[0].start > 0 for each in second.runner.tasks)
            await leave_link(second.coordinator, "src")
        await world.copied()


async def test_mirrors_go_on_once_the_lease_of_a_dead_import_has_run_out(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        async with importing(world):
            await linked(world)
            world.write(2)
        await world.copied()


async def test_two_writers_double_nothing(autojump_clock: MockClock, small_units: None) -> None:
    """The second import took the claim while the first one stood still; both continue."""
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(60):
            world.write(2)
        await first.coordinator.propose(ReleaseClaim(import_claim("src")))
        async with importing(world, 2) as second, trio.open_nursery() as nursery:
            nursery.start_soon(first.run)
            nursery.start_soon(second.run)
        await leave_link(first.coordinator, "src")
        await world.copied()


async def test_a_topic_that_was_made_anew_at_the_source_is_a_problem(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        world.source.delete_topic("t")
        world.source.create_topic("t", 2, replication_factor=2)
        await first.run()
        assert first.problems == ["the source has another topic of this name now"] * 2


async def test_records_that_the_source_lost_meanwhile_are_a_problem(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(4):
            world.write(2)

        async def loses() -> None:
            await becomes(lambda: next_offset(first) == 8)
            truncate(world.log(), 4)
            world.source.move_leader("t", 0, 2)
            world.write(9)

        world.write(1, 1)
        first.runner.late = (1, 30.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loses)
            await first.run()
        assert "lost records from offset 4 on" in first.problems[0]


@pytest.mark.parametrize("seed", range(3))
async def test_a_gap_that_is_wider_than_units_drops_nothing_before_it(
    autojump_clock: MockClock, small_units: None, seed: int
) -> None:
    """A unit may begin in a gap, above the last batch, although no record has expired."""
    async with mirroring() as world, importing(world, seed) as first:
        await linked(world)
        for _ in range(60):
            world.write(2)
        rng = Random(seed)
        gap = rng.randrange(10, 60)
        remove_records(world.log(), set(range(gap, gap + rng.randrange(30, 50))))
        await first.run()
        assert first.problems == []
        await leave_link(first.coordinator, "src")
        assert (await world.copied()).log_start == 0
