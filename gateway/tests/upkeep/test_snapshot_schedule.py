"""When snapshots are taken: often enough although gateways restart, and by one gateway only."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, OutageLog, Running, cluster
from tests.worlds.wire_client import records_batch
from tidegate_coordination.log.metadata_log import LogCorrupt, Snapshot, Trimmed

SETTINGS = {"snapshot.interval.entries": "20", "housekeeping.interval.ms": "10000"}


class CountingLog(OutageLog):
    """A log that counts the snapshots saved in it."""

    saved = 0

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        self.saved += 1
        await super().save_snapshot(position, chunks)


async def write(gateway: Running, count: int) -> None:
    client = gateway.world.connect()
    for number in range(count):
        assert (await client.produce("t", 0, records_batch(b"%d" % number))).error_code == 0


async def first_life(world: Cluster) -> None:
    gateway = await world.start(1, Clock())
    await gateway.world.create_topic("t", 1)
    gateway.stop()


async def test_lives_shorter_than_the_interval_take_snapshots(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        world.log = CountingLog()
        await first_life(world)
        for _ in range(6):
            gateway = await world.start(1, Clock())
            await write(gateway, 8)
            await trio.sleep(11)
            gateway.stop()
        assert isinstance(await world.log.read(1, 1), Trimmed)
        last = await world.start(1, Clock())
        assert last.gateway.coordinator.state.partitions[0].next_offset == 48


async def test_one_gateway_takes_the_snapshot_that_is_due(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        log = world.log = CountingLog()
        await first_life(world)
        gateways: list[Running] = []
        for node_id in range(1, 5):
            gateways.append(await world.start(node_id, Clock()))
            await trio.sleep(1)  # so that the gateways do not check at the same moment
        await write(gateways[0], 30)
        await trio.sleep(12)
        assert log.saved == 1


class DamagingLog(OutageLog):
    """A log that stores snapshots, and cannot read them back."""

    is_damaged = True

    async def load_snapshot(self) -> Snapshot | None:
        if self.is_damaged and self.position_of_snapshot:
            raise LogCorrupt("it was the disk")
        return await super().load_snapshot()

    position_of_snapshot = 0

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        self.position_of_snapshot = position
        await super().save_snapshot(position, chunks)


async def test_an_unreadable_snapshot_trims_nothing_and_stops_no_gateway(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        log = world.log = DamagingLog()
        await first_life(world)
        gateway = await world.start(1, Clock())
        await write(gateway, 30)
        await trio.sleep(25)
        assert gateway.gateway.keepers.housekeeper.failed_snapshots == 2
        assert not isinstance(await log.read(1, 1), Trimmed)
        await write(gateway, 5)
        log.is_damaged = False
        await trio.sleep(12)
        assert isinstance(await log.read(1, 1), Trimmed)
