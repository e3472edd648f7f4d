"""The model's transactions, as tools see them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import ClassicWorld, Closed, classic_world
from tests.worlds.classic_transactions import NAME, TIMEOUT_SECONDS, Transactor, described, settled
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import list_transactions as lt
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9
from tidegate_simulation.classic.rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID, Denial


async def listed(
    world: ClassicWorld, node_id: int = 1, *, version: int = 2, **filters: object
) -> lt.ListTransactionsResponse:
    """Return a broker's answer to ListTransactions."""
    client = await world.client(node_id)
    request = lt.ListTransactionsRequest(**filters)  # type: ignore[arg-type]
    answer = await client.call("ListTransactions", version, request)
    assert isinstance(answer, lt.ListTransactionsResponse)
    return answer


async def names(world: ClassicWorld, **filters: object) -> list[str]:
    """Return the ids that pass the filters."""
    answer = await listed(world, **filters)  # type: ignore[arg-type]
    assert answer.error_code == 0
    return [each.transactional_id for each in answer.transaction_states]


async def test_transactions_are_listed_by_filters(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        made = {each: Transactor(world, each) for each in ("empty", "open", "ended")}
        for each in made.values():
            await each.init()
        await made["open"].write(0)
        await made["ended"].write(1)
        await made["ended"].end()
        await settled(world)
        await trio.sleep(5)
        answer = await listed(world)
        assert [
            (each.transactional_id, each.transaction_state) for each in (answer.transaction_states)
        ] == [("empty", "Empty"), ("open", "Ongoing"), ("ended", "CompleteCommit")]
        assert await names(world, state_filters=["Ongoing", "Empty"]) == ["empty", "open"]
        filtered = await listed(world, state_filters=["Ongoing", "Torn"])
        assert (filtered.unknown_state_filters, len(filtered.transaction_states)) == (["Torn"], 1)
        assert await names(world, state_filters=["Torn"]) == []
        wanted = [made["ended"].producer_id]
        assert await names(world, producer_id_filters=wanted) == ["ended"]
        assert await names(world, duration_filter=4_000) == ["empty", "open", "ended"]
        assert await names(world, duration_filter=60_000) == ["empty"]  # it never began
        assert await names(world, transactional_id_pattern="e.*") == ["empty", "ended"]
        bad = await listed(world, transactional_id_pattern="(")
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        denied = world.cluster.rights.denied
        denied.add(Denial(DESCRIBE, TRANSACTIONAL_ID, "open"))
        assert await names(world) == ["empty", "ended"]
        world.cluster.transactions["ended"].is_loading = True
        loading = await listed(world)
        assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_each_broker_lists_its_own(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        for each in ("a", "b"):
            await Transactor(world, each).init()
        found = [(await listed(world, each)).transaction_states for each in (1, 2)]
        assert [[each.transactional_id for each in one] for one in found] == [["b"], ["a"]]


async def test_a_transaction_is_described(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        await trio.sleep(2)
        producer = Transactor(world)
        await producer.init()
        await producer.write(1, 0)
        began = world.cluster.transactions[NAME].started_ms
        state = await described(world)
        assert state == dt.TransactionState(
            0,
            NAME,
            "Ongoing",
            int(TIMEOUT_SECONDS * 1000),
            began,
            producer.producer_id,
            0,
            [dt.TopicData("t", [0, 1])],
        )
        assert began == world.servers.now_ms()
        world.cluster.rights.denied.add(Denial(DESCRIBE, TOPIC, "t"))
        assert (await described(world)).topics == []
        assert (await described(world, "unknown")).error_code == 105
        assert (await described(world, "")).error_code == ErrorCode.INVALID_REQUEST
        stray = await world.client(3 - world.cluster.coordinator_of(NAME))
        request = dt.DescribeTransactionsRequest([NAME])
        [other] = (await stray.call("DescribeTransactions", 0, request)).transaction_states
        assert (other.error_code, other.transactional_id) == (ErrorCode.NOT_COORDINATOR, NAME)
        world.cluster.rights.denied.add(Denial(DESCRIBE, TRANSACTIONAL_ID, NAME))
        assert (await described(world)).error_code == 53


async def test_releases_without_lists(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_3_9) as world:
        assert (await listed(world, version=1)).error_code == 0
        with pytest.raises(Closed):
            await listed(world, version=2)
    async with classic_world(profile=KAFKA_2_1) as world:
        for ask in (listed(world, version=0), described(world)):
            with pytest.raises(Closed):
                await ask
