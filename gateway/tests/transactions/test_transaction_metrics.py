"""Metrics, status and log lines about transactions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.app_world import pages_of
from tests.worlds.metrics_page import families
from tests.worlds.wire_client import WireClient, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.transactions.steps import ProducerName, TransactionSteps
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm

T = "t"
LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"
Producer = tuple[int, int]


def figures(gateway: Gateway) -> dict[str, float]:
    """Return the metrics of transactions that are not 0, with their labels."""
    return {
        " ".join((each.name, *dict(sorted(each.labels.items(), reverse=True)).values())): each.value
        for family in families(gateway).values()
        if "tidegate_transaction" in family.name or "latetransactions" in family.name
        for each in family.samples
        if each.value
    }


async def init(client: WireClient, name: str = "x", timeout_ms: int = 60_000) -> Producer:
    answer = await client.call("InitProducerId", 4, ip.InitProducerIdRequest(name, timeout_ms))
    return answer.producer_id, answer.producer_epoch


async def add(client: WireClient, producer: Producer, *partitions: int, name: str = "x") -> None:
    topics = [ap.AddPartitionsToTxnTopic(T, list(partitions))]
    request = ap.AddPartitionsToTxnRequest([], name, *producer, topics)
    answer = await client.call("AddPartitionsToTxn", 3, request)
    [result] = answer.results_by_topic_v3_and_below
    assert {each.partition_error_code for each in result.results_by_partition} == {E.NONE}


async def stage(client: WireClient, producer: Producer) -> None:
    adding = ao.AddOffsetsToTxnRequest("x", *producer, "g")
    assert (await client.call("AddOffsetsToTxn", 3, adding)).error_code == E.NONE
    rows = [tc.TxnOffsetCommitRequestPartition(each, 5) for each in (0, 1)]
    topics = [tc.TxnOffsetCommitRequestTopic(T, rows)]
    await client.call(
        "TxnOffsetCommit", 3, tc.TxnOffsetCommitRequest("x", "g", *producer, topics=topics)
    )


async def end(client: WireClient, producer: Producer, *, committed: bool = True) -> None:
    request = et.EndTxnRequest("x", *producer, committed)
    assert (await client.call("EndTxn", 3, request)).error_code == E.NONE


async def abort(client: WireClient, producer: Producer) -> None:
    """Abort a transaction as kafka-transactions.sh does."""
    marker = wm.WritableTxnMarker(*producer, False, [wm.WritableTxnMarkerTopic(T, [0])])
    answer = await client.call("WriteTxnMarkers", 1, wm.WriteTxnMarkersRequest([marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == E.NONE


async def test_open_transactions_are_shown_until_they_end(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = world.connect(), await world.create_topic(T, 3)
        assert figures(world.gateway) == {}
        producer = await init(client)
        await init(client, "idle")
        await add(client, producer, 0)
        await trio.sleep(20)
        await stage(client, producer)
        shown = figures(world.gateway)
        age = shown.pop("tidegate_transaction_oldest_seconds")
        assert 10 <= age <= 21  # log time advances only with entries of gateways
        assert shown == {
            "tidegate_transactional_ids": 2,
            "tidegate_transactions_open": 1,
            "tidegate_transaction_staged_offsets": 2,
        }
        status = json.loads((await pages_of(world.gateway).answer("GET", "/v1/status")).body)
        assert status["transactions"] == {"ids": 2, "open": 1, "oldest_open_seconds": age}
        await end(client, producer)
        assert figures(world.gateway) == {
            "tidegate_transactional_ids": 2,
            "tidegate_transactions_ended_total committed client": 1,
        }


async def test_ends_are_counted_by_their_cause(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = world.connect(), await world.create_topic(T, 1)
        producer = await init(client)
        for committed in (True, False, False):
            await add(client, producer, 0)
            await end(client, producer, committed=committed)
        await end(client, producer, committed=False)  # a duplicate, which ends nothing
        await add(client, producer, 0)
        producer = await init(client)
        await add(client, producer, 0)
        await abort(client, producer)
        producer = await init(client)
        await add(client, producer, 0)
        await trio.sleep(120)
        assert figures(world.gateway) == {
            "tidegate_transactional_ids": 1,
            "tidegate_transactions_ended_total committed client": 1,
            "tidegate_transactions_ended_total aborted client": 2,
            "tidegate_transactions_ended_total aborted init": 1,
            "tidegate_transactions_ended_total aborted operator": 1,
            "tidegate_transactions_ended_total aborted time-out": 1,
        }


async def test_ends_before_a_start_are_not_counted_again(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    async with wire_world(log=log) as world:
        client, _ = world.connect(), await world.create_topic(T, 1)
        producer = await init(client)
        await add(client, producer, 0)
        await abort(client, producer)
    with capture_logs() as lines:
        async with wire_world(log=log) as world:
            assert figures(world.gateway) == {"tidegate_transactional_ids": 1}
            await world.create_topic("other", 1)
    assert [each for each in lines if "transactional_id" in each] == []


async def test_partitions_with_a_late_transaction_are_counted(autojump_clock: MockClock) -> None:
    settings = {
        "transaction.max.timeout.ms": "60000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    }
    async with wire_world(settings) as world:
        client, _ = world.connect(), await world.create_topic(T, 3)
        await add(client, await init(client), 0, 1)
        await add(client, await init(client, "y"), 1, 2, name="y")
        await trio.sleep(300)
        await add(client, await init(client, "z"), 0, 1, 2, name="z")
        assert LATE not in figures(world.gateway)
        await trio.sleep(100)
        assert figures(world.gateway)[LATE] == 3


async def test_aborts_that_no_client_asked_for_are_logged(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = world.connect(), await world.create_topic(T, 1)
        with capture_logs() as lines:
            producer = await init(client)
            await add(client, producer, 0)
            await end(client, producer, committed=False)
            await add(client, producer, 0)
            await abort(client, producer)
            await abort(client, (producer[0], producer[1] + 1))  # no transaction is open
            producer = await init(client)
            await add(client, producer, 0)
            await trio.sleep(120)
    logged = [each for each in lines if "transaction" in each["event"]]
    assert {each["log_level"] for each in logged} == {"info"}
    assert [each["event"] for each in logged] == [
        "an operator aborted a transaction",
        "transactions aborted",
        "a transaction timed out and is aborted",
    ]
    assert [each.get("transactional_id", each.get("names")) for each in logged] == ["x", ["x"], "x"]
    assert (logged[1]["client_id"], logged[1]["peer"].split(":")[0]) == ("test", "client")
    assert logged[2]["timeout_ms"] == 60_000


class Overtaken:
    """A coordinator that lets other requests overtake each proposal."""

    def __init__(self, real: Coordinator, others: Callable[[], Awaitable[None]]) -> None:
        self._real = real
        self._others = others
        self.state = real.state
        self.catch_up = real.catch_up

    async def propose(self, proposal: Proposal[Any]) -> Any:
        await self._others()
        return await self._real.propose(proposal)


async def test_an_end_that_the_next_transaction_overtook_is_counted(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, _ = world.connect(), await world.create_topic(T, 1)
        producer = await init(client)
        await add(client, producer, 0)

        async def begin_the_next() -> None:
            await end(client, producer)
            await add(client, producer, 0)

        steps = world.gateway.transactions
        slow: Any = Overtaken(world.gateway.coordinator, begin_the_next)
        late = TransactionSteps(slow, steps.producer_ids, steps.counters)
        began = await late.began(Call(4, "test", Peer("client", 1, "PLAINTEXT")), "x")
        name = ProducerName("x", *producer)
        answer = await late.end(name, committed=True, bumps=False, began=began)
        assert answer.refusal is TransactionRefusal.CONCURRENT
        assert figures(world.gateway)["tidegate_transactions_concurrent_total"] == 1
