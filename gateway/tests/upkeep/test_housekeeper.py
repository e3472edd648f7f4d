"""Background work: retention, deletion of objects, and snapshots.

Also starts from a trimmed log and beside a dead gateway.
"""

from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, WireWorld, records_batch, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import FIRST, NEWEST
from tidegate_coordination.log.metadata_log import Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.inlining import CommitInlined
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.startup import NodeIdInUse, register
from tidegate_protocol.records import Record, build_batch
from tidegate_storage.stores.memory_store import MemoryObjectStore

GRACE = {"object.delete.grace.ms": "1000"}
VALUE = bytes(1000)


def coordinator_on(log: MemoryLog) -> Coordinator:
    return Coordinator(
        log, ClusterState(), rng=Random(9), wall_clock=lambda: NOW_MS / 1000 + trio.current_time()
    )


async def wal_objects(store: MemoryObjectStore) -> int:
    return sum("/wal/" in each.key for each in await store.list(""))


async def write(world: WireWorld, topic: str, count: int) -> None:
    client = world.connect()
    for number in range(count):
        answer = await client.produce(topic, 0, records_batch(b"%d" % number + VALUE))
        assert answer.error_code == 0


def log_start(world: WireWorld, topic: str) -> int:
    state = world.gateway.coordinator.state
    return state.partitions[state.topics.by_name[topic].partition_numbers[0]].log_start


async def test_retention_by_size_cuts_whole_runs_and_their_objects_go(
    autojump_clock: MockClock,
) -> None:
    store = MemoryObjectStore()
    async with wire_world(GRACE, store=store) as world:
        await world.create_topic("t", 1, retention_bytes="5000")
        await write(world, "t", 10)
        await world.gateway.keepers.housekeeper.keep_house_once()
        start = log_start(world, "t")
        assert start == 5  # five runs of 1,080 bytes stay: four would be less than 5,000
        assert await wal_objects(store) == 10
        await trio.sleep(61)  # a renewal moves log time past the grace period
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert await wal_objects(store) == 10 - start
        assert len(world.gateway.coordinator.state.objects) == 10 - start
        values = await world.connect().fetch_values("t", 0, start)
        assert values[0] == b"%d" % start + VALUE


async def test_retention_by_time_cuts_what_is_old_and_never_a_compacted_topic(
    autojump_clock: MockClock,
) -> None:
    stamped = {"message_timestamp_type": "LogAppendTime"}
    async with wire_world() as world:
        await world.create_topic("brief", 1, retention_ms="30000", **stamped)
        await world.create_topic("usual", 1, **stamped)
        await world.create_topic("kept", 1, cleanup_policy="compact", retention_ms="1", **stamped)
        await write(world, "brief", 3)
        await write(world, "usual", 3)
        keyed = build_batch([Record(0, NOW_MS, b"k", b"v", ())])
        assert (await world.connect().produce("kept", 0, keyed)).error_code == 0
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert log_start(world, "brief") == 0
        await trio.sleep(61)  # renewals move log time
        await world.gateway.keepers.housekeeper.keep_house_once()
        assert [log_start(world, name) for name in ("brief", "usual", "kept")] == [3, 0, 0]


async def test_a_gateway_starts_from_a_snapshot_and_a_trimmed_log(
    autojump_clock: MockClock,
) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    settings = {"snapshot.interval.entries": "1"}
    written = (0, 1, 2, 3, 4, 0, 1)
    async with wire_world(settings, store=store, log=log) as world:
        await world.create_topic("t", 1)
        await write(world, "t", 5)
        await world.gateway.keepers.housekeeper.take_snapshot()
        await write(world, "t", 2)
    assert isinstance(await log.read(1, 1), Trimmed)
    async with wire_world(settings, store=store, log=log) as world:
        after = world.gateway.coordinator.state
        assert after.partitions[0].next_offset == 7
        values = await world.connect().fetch_values("t", 0, 0)
        assert [value and value[:1] for value in values] == [b"%d" % number for number in written]


async def test_the_log_is_not_trimmed_of_bytes_that_the_store_lacks(
    autojump_clock: MockClock,
) -> None:
    log = MemoryLog()
    settings = {"snapshot.interval.entries": "1"}
    async with wire_world(settings, log=log) as world:
        await world.create_topic("t", 1)
        coordinator = world.gateway.coordinator
        [topic_id] = coordinator.state.topics.by_id
        batch = BatchFacts(topic_id, 0, 0, 9, 1, NOW_MS, 5, -1, -1, -1, -1)
        name = WalName(coordinator.incarnation, 100)
        commit = CommitWal(name, 9, [batch], frozenset())
        assert await coordinator.propose(CommitInlined.of(commit, b"some body")) is not None
        kept = coordinator.state.position
        await write(world, "t", 3)
        await world.gateway.keepers.housekeeper.take_snapshot()
    assert await log.read(1, 1) == Trimmed(kept)


async def test_a_gateway_writes_its_highest_version_again_after_a_snapshot_dropped_it(
    autojump_clock: MockClock,
) -> None:
    """A snapshot of an older release drops it, and a busy gateway has no other reason to renew."""
    async with wire_world() as world:
        await world.create_topic("t", 1)
        coordinator = world.gateway.coordinator
        me = coordinator.state.gateways.live[coordinator.incarnation]
        assert me.highest_version == NEWEST
        me.highest_version = FIRST
        for _ in range(8):
            await write(world, "t", 1)
            await trio.sleep(1)
        assert me.highest_version == NEWEST


async def test_a_dead_lone_gateway_frees_its_node_id_after_its_lease(
    autojump_clock: MockClock,
) -> None:
    log = MemoryLog()
    async with wire_world(log=log):
        pass  # the gateway ends without leaving, and its instance key is lost
    taken = coordinator_on(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taken.run)
        started = trio.current_time()
        assert await register(taken, Register(1, "other key", "az1", (), "0", "c")) == 2
        assert 30 < trio.current_time() - started < 40
        assert list(taken.state.gateways.live) == [2]
        nursery.cancel_scope.cancel()


async def test_a_live_gateway_keeps_its_node_id(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    async with wire_world(log=log), trio.open_nursery() as nursery:
        refused = coordinator_on(log)
        nursery.start_soon(refused.run)
        with pytest.raises(NodeIdInUse):
            await register(refused, Register(1, "other key", "az1", (), "0", "c"))
        nursery.cancel_scope.cancel()


async def test_a_gateway_that_waits_for_its_node_id_logs_advice_once(
    autojump_clock: MockClock,
) -> None:
    log = MemoryLog()
    async with wire_world(log=log), trio.open_nursery() as nursery:
        refused = coordinator_on(log)
        nursery.start_soon(refused.run)
        with capture_logs() as lines, pytest.raises(NodeIdInUse):
            await register(refused, Register(1, "other key", "az1", (), "0", "c"))
        nursery.cancel_scope.cancel()
    waits = [each for each in lines if each["event"].startswith("the node id is in use")]
    assert ["advice" in each for each in waits] == [True] + [False] * (len(waits) - 1)
    assert "another node.id" in waits[0]["advice"]
    assert 5 <= len(waits) <= 7  # in a minute
