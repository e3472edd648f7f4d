"""The memory of the WAL writer while the store or the log does not answer."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wal_world import make_writer
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.produce.wal_settings import WalSettings
from tidegate_gateway.produce.wal_writer import WalWriter
from tidegate_protocol.records import Record, build_batch, check_batch
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable

SETTINGS = WalSettings(max_object_bytes=10_000, max_in_flight_bytes=40_000)
PUT_SECONDS = 0.05
BATCH = build_batch([Record(0, 1, None, bytes(1000))])


class FirstPutFails(MemoryObjectStore):
    """If `does`, stores all objects but the first, which holds up the commits of the others."""

    def __init__(self, *, does: bool) -> None:
        super().__init__()
        self._does = does
        self.stored_bytes = 0

    async def put(self, key: str, body: Buffer) -> None:
        if self._does and key == "wal/0":
            raise StoreUnavailable("planted")
        await trio.sleep(PUT_SECONDS)
        await super().put(key, body)
        self.stored_bytes += len(body)


class Anybody:
    waiting_client: None = None

    def settle(self, outcome: BatchOutcome) -> None:
        """Take any outcome."""

    def abort(self) -> None:
        raise AssertionError

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        raise AssertionError


async def produce(writer: WalWriter) -> None:
    header = check_batch(memoryview(BATCH))
    while True:
        await writer.wait_for_room()
        writer.append(bytes(16), 0, BATCH, header, Anybody())
        await trio.sleep(0.01)


@pytest.mark.parametrize("culprit", ["log", "first upload"])
async def test_objects_that_cannot_be_committed_do_not_pile_up(
    culprit: str, autojump_clock: MockClock
) -> None:
    silent = FaultyLog(MemoryLog(), LogFaults(read_error=1, lost_append=1), Random(0))
    log: MetadataLog = silent if culprit == "log" else MemoryLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=lambda: 1000.0)
    store = FirstPutFails(does=culprit != "log")
    writer = make_writer(store, coordinator, SETTINGS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        nursery.start_soon(writer.run)
        nursery.start_soon(produce, writer)
        await trio.sleep(29)
        assert 20_000 < store.stored_bytes <= SETTINGS.max_in_flight_bytes
        assert not writer.has_room
        if culprit == "first upload":  # the first object is abandoned, and the others are committed
            await trio.sleep(5)
            assert store.stored_bytes > SETTINGS.max_in_flight_bytes
        nursery.cancel_scope.cancel()


async def test_a_drain_ends_though_clients_go_on(autojump_clock: MockClock) -> None:
    store = FirstPutFails(does=False)
    coordinator = Coordinator(MemoryLog(), ClusterState(), rng=Random(0), wall_clock=lambda: 1000.0)
    last: list[BatchOutcome] = []

    class Last:
        waiting_client: None = None

        def settle(self, outcome: BatchOutcome) -> None:
            last.append(outcome)

        def abort(self) -> None:
            raise AssertionError

        def turned_back(self, topic_id: bytes, records: bytes) -> None:
            raise AssertionError

    writer = make_writer(store, coordinator, SETTINGS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        nursery.start_soon(writer.run)
        for _ in range(8):
            nursery.start_soon(produce, writer)
        await trio.sleep(1)
        writer.append(bytes(16), 0, BATCH, check_batch(memoryview(BATCH)), Last())
        with trio.fail_after(1):
            await writer.drain()
        assert len(last) == 1
        nursery.cancel_scope.cancel()
