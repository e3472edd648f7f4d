"""A gateway never reads its own new objects from the store, even if another gateway commits."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.cluster.peer_network import Network
from tests.worlds.cluster.several_gateways import Clock, Running, cluster
from tests.worlds.fetch_world import Store
from tests.worlds.wire_client import records_batch
from tidegate_gateway.admin.metrics import render_metrics
from tidegate_protocol.messages import fetch as fe


async def wait_for_a_record(running: Running, offset: int) -> None:
    asked = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = fe.FetchRequest(
        max_wait_ms=10_000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fe.FetchTopic(topic="t", partitions=[asked])],
    )
    answer = await running.world.connect().call("Fetch", 12, request)
    [found] = answer.responses[0].partitions
    assert found.error_code == 0
    assert found.records


async def test_waiting_readers_find_it_in_memory_where_another_gateway_appends(
    autojump_clock: MockClock,
) -> None:
    async with cluster({"forwarding": "on"}) as several:
        store = several.store = Store()
        several.network = Network(several.nursery)
        gateways = [await several.start(each, Clock()) for each in (1, 2)]
        await gateways[0].world.create_topic("t", 1)
        await trio.sleep(1)
        for offset, running in enumerate(gateways * 8):
            async with trio.open_nursery() as nursery:
                for each in gateways:
                    nursery.start_soon(wait_for_a_record, each, offset)
                await wait_all_tasks_blocked()
                producer = running.world.connect()
                assert (await producer.produce("t", 0, records_batch(b"x"))).error_code == 0
        assert several.network.statuses["node1", 200] + several.network.statuses["node2", 200] > 2
        assert not [key for key, _, _ in store.reads if "/wal/" in key]
        pages = [(await render_metrics(each.gateway)).decode() for each in gateways]
        assert sum(_value(page, "tidegate_peer_reads_hits_total") for page in pages) > 0
        assert sum(_value(page, "tidegate_peer_reads_served_total") for page in pages) > 0


def _value(page: str, name: str) -> float:
    [found] = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(found.split()[1])
