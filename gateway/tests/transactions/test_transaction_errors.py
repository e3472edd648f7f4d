"""The error codes that transactional clients get in each version, as from Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import OutageLog
from tests.worlds.transaction_client import COMMITTED, Producer, T, end_offset, init, started, write
from tests.worlds.wire_client import WireClient, WireWorld, records_batch, wire_world
from tidegate_coordination.events.fields import LAST_EPOCH
from tidegate_coordination.events.transactions import TransactionalIdInitialised
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import txn_offset_commit as tc

FENCED = {True: E.PRODUCER_FENCED, False: E.INVALID_PRODUCER_EPOCH}
UNKNOWN = E.INVALID_PRODUCER_ID_MAPPING


@dataclass(frozen=True)
class SetEpoch:
    """Gives "x" a later epoch, as many ended transactions would."""

    epoch: int
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def decide(self, view: View) -> Decided[Producer]:
        row = view.state.transactions.get("x")
        assert row is not None
        fields = (row.producer_id, self.epoch, -1, -1, row.timeout_ms)
        event = TransactionalIdInitialised("x", *fields)
        return Decided([event], (row.producer_id, self.epoch))


async def with_last_epoch(world: WireWorld, client: WireClient) -> Producer:
    await init(client)
    return await world.gateway.coordinator.propose(SetEpoch(LAST_EPOCH))


async def initialised(
    client: WireClient,
    name: str | None = "x",
    *,
    timeout_ms: int = 60_000,
    expected: Producer = (-1, -1),
    version: int = 5,
) -> tuple[int, int, int]:
    """Return the code, the producer id and the epoch."""
    request = ip.InitProducerIdRequest(name, timeout_ms, *expected)
    answer = await client.call("InitProducerId", version, request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def ended(
    client: WireClient,
    producer: Producer,
    *,
    committed: bool = True,
    version: int = 5,
    name: str = "x",
) -> tuple[int, int, int]:
    """Return the code, the producer id and the epoch."""
    request = et.EndTxnRequest(name, *producer, committed)
    answer = await client.call("EndTxn", version, request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def added(
    client: WireClient,
    producer: Producer,
    topics: Sequence[tuple[str, int]] = ((T, 0),),
    *,
    version: int = 3,
    name: str = "x",
    verify: bool = False,
) -> list[int]:
    """Add partitions, or verify that they were added; return their codes."""
    named = [ap.AddPartitionsToTxnTopic(topic, [index]) for topic, index in topics]
    if version < 4:
        request = ap.AddPartitionsToTxnRequest([], name, *producer, named)
    else:
        transaction = ap.AddPartitionsToTxnTransaction(name, *producer, verify, named)
        request = ap.AddPartitionsToTxnRequest([transaction])
    answer = await client.call("AddPartitionsToTxn", version, request)
    results = answer.results_by_topic_v3_and_below
    if version >= 4:
        [transaction] = answer.results_by_transaction
        results = transaction.topic_results
    return [row.partition_error_code for each in results for row in each.results_by_partition]


async def group_added(
    client: WireClient, producer: Producer, *, version: int = 4, name: str = "x"
) -> int:
    request = ao.AddOffsetsToTxnRequest(name, *producer, "g")
    return int((await client.call("AddOffsetsToTxn", version, request)).error_code)


async def staged(client: WireClient, producer: Producer, *, version: int = 5) -> int:
    rows = [tc.TxnOffsetCommitRequestTopic(T, [tc.TxnOffsetCommitRequestPartition(0, 7)])]
    request = tc.TxnOffsetCommitRequest("x", "g", *producer, topics=rows)
    answer = await client.call("TxnOffsetCommit", version, request)
    return int(answer.topics[0].partitions[0].error_code)


# -- all requests ----------------------------------------------------------------------------------


async def test_a_transactional_id_must_not_be_empty(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        for version in range(6):
            assert (await initialised(client, "", version=version))[0] == E.INVALID_REQUEST
            assert (await ended(client, producer, name="", version=version))[0] == E.INVALID_REQUEST
            codes = await added(client, producer, name="", version=version)
            assert codes == [E.INVALID_REQUEST]
        for version in range(5):
            code = await group_added(client, producer, name="", version=version)
            assert code == E.INVALID_REQUEST
        request = dt.DescribeTransactionsRequest(["", "no"])
        answer = await client.call("DescribeTransactions", 0, request)
        codes = [each.error_code for each in answer.transaction_states]
        assert codes == [E.INVALID_REQUEST, E.TRANSACTIONAL_ID_NOT_FOUND]


async def test_an_unknown_id_and_anothers_producer_id_are_told(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        other = (producer[0] + 500, producer[1])
        for name, who in (("no", producer), ("x", other)):
            for version in range(6):
                assert (await ended(client, who, name=name, version=version))[0] == UNKNOWN
                for verify in (False, True):
                    codes = await added(client, who, name=name, version=version, verify=verify)
                    assert codes == [UNKNOWN]
            for version in range(5):
                assert await group_added(client, who, name=name, version=version) == UNKNOWN
            for version in (3, 11, 12, 13):
                assert await write(client, topic_id, who, 0, name=name, version=version) == UNKNOWN


@pytest.mark.parametrize("ahead", [-1, 1])
async def test_a_wrong_epoch_is_fenced(ahead: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        await init(client)
        producer_id, epoch = await init(client)
        who = (producer_id, epoch + ahead)
        for version in range(3, 6):
            answer = await initialised(client, expected=(producer_id, epoch + 2), version=version)
            assert answer == (FENCED[version >= 4], -1, -1)
        for version in range(6):
            assert (await ended(client, who, version=version))[0] == FENCED[version >= 2]
            assert await added(client, who, version=version) == [FENCED[version >= 2]]
            assert await staged(client, who, version=version) == E.INVALID_PRODUCER_EPOCH
        for version in range(5):
            assert await group_added(client, who, version=version) == FENCED[version >= 2]
        # The epoch is checked before the state: the partition was not added, either.
        for version in (3, 10, 11, 12, 13):
            code = await write(client, topic_id, who, 0, version=version)
            assert code == E.INVALID_PRODUCER_EPOCH


async def test_while_the_log_is_away_clients_repeat_their_requests(
    autojump_clock: MockClock,
) -> None:
    log = OutageLog()
    async with wire_world(log=log) as world:
        client, _ = await started(world)
        producer = await init(client)
        log.is_away = True
        away = E.COORDINATOR_NOT_AVAILABLE
        assert (await initialised(client))[0] == away
        assert await added(client, producer) == [away]
        assert await group_added(client, producer) == away
        for version in (4, 5):
            assert (await ended(client, producer, version=version))[0] == away
        assert await staged(client, producer) in (away, E.NOT_COORDINATOR)
        log.is_away = False
        await trio.sleep(60)
        assert (await initialised(client))[0] == E.NONE


# -- InitProducerId --------------------------------------------------------------------------------


async def test_an_initialisation_with_wrong_fields_is_refused(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer_id, epoch = await init(client)
        for half in ((producer_id, -1), (-1, epoch)):
            answer = await initialised(client, expected=half)
            assert answer == (E.INVALID_REQUEST, -1, -1)
        for timeout_ms in (-1, 0, 900_001, 2**31 - 1):
            answer = await initialised(client, timeout_ms=timeout_ms)
            assert answer == (E.INVALID_TRANSACTION_TIMEOUT, -1, -1)
        # Without a transactional id, the timeout is ignored.
        assert (await initialised(client, None, timeout_ms=-1))[0] == E.NONE
        assert await initialised(client, timeout_ms=900_000) == (E.NONE, producer_id, epoch + 1)


async def test_a_client_may_go_on_with_its_epoch_or_repeat_that(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        following = (E.NONE, producer[0], 1)
        assert await initialised(client, expected=producer) == following
        assert await initialised(client, expected=producer) == following
        assert await initialised(client, expected=following[1:]) == (E.NONE, producer[0], 2)
        fenced = (E.PRODUCER_FENCED, -1, -1)
        assert await initialised(client, expected=producer) == fenced
        assert await initialised(client, expected=(producer[0] + 500, 0)) == fenced


async def test_after_the_last_epoch_another_producer_id_follows(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        last = await with_last_epoch(world, client)
        code, producer_id, epoch = await initialised(client, expected=last)
        assert (code, epoch) == (E.NONE, 0)
        assert producer_id != last[0]
        assert await initialised(client, expected=last) == (E.NONE, producer_id, 0)


# -- Produce ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs_differ", [False, True])
async def test_a_request_of_two_producers_is_refused_as_a_whole(
    epochs_differ: bool, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        one, other = await init(client), await init(client, "y")
        if epochs_differ:
            other = (one[0], one[1] + 1)
        parts = [
            pr.PartitionProduceData(
                index,
                records_batch(
                    b"v",
                    attributes=TRANSACTIONAL,
                    producer_id=who[0],
                    producer_epoch=who[1],
                    base_sequence=0,
                ),
            )
            for index, who in enumerate((one, other))
        ]
        request = pr.ProduceRequest("x", -1, 30_000, [pr.TopicProduceData(T, topic_id, parts)])
        answer = await client.call("Produce", 13, request)
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        assert codes == [UNKNOWN, UNKNOWN]
        assert await end_offset(client, 0) == 0


@pytest.mark.parametrize("version", range(3, 14))
async def test_a_partition_that_was_not_added(version: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        code = {11: E.TRANSACTION_ABORTABLE, 12: E.NONE, 13: E.NONE}.get(
            version, E.INVALID_TXN_STATE
        )
        assert await write(client, topic_id, producer, 0, version=version) == code


async def test_a_new_epoch_begins_at_sequence_zero(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        assert await write(client, topic_id, producer, 3) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await write(client, topic_id, producer, 0) == E.NONE
        assert await write(client, topic_id, producer, 0) == E.NONE  # a duplicate
        assert await end_offset(client, 0) == 1


# -- AddPartitionsToTxn ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5])
async def test_a_check_adds_nothing(version: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        absent = E.TRANSACTION_ABORTABLE
        assert await added(client, producer, version=version, verify=True) == [absent]
        await write(client, topic_id, producer, 0)
        both = [(T, 0), (T, 1)]
        codes = await added(client, producer, both, version=version, verify=True)
        assert codes == [E.NONE, absent]
        await ended(client, producer)
        assert [await end_offset(client, each) for each in (0, COMMITTED)] == [2, 2]


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added_all_or_none(version: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        topics = [(T, 0), (T, 7), ("no", 0)]
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        codes = await added(client, producer, topics, version=version)
        assert codes == [E.OPERATION_NOT_ATTEMPTED, unknown, unknown]
        assert (await ended(client, producer, version=4))[0] == E.INVALID_TXN_STATE


@pytest.mark.parametrize("version", range(6))
async def test_clients_add_no_internal_topics(version: int, autojump_clock: MockClock) -> None:
    """From version 4 on, brokers send the request in Kafka, not clients."""
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        await client.call("FindCoordinator", 4, fc.FindCoordinatorRequest(coordinator_keys=["g"]))
        topics = [(OFFSETS_TOPIC, 0), (T, 0)]
        denied = [E.TOPIC_AUTHORIZATION_FAILED, E.OPERATION_NOT_ATTEMPTED]
        codes = await added(client, producer, topics, version=version)
        assert codes == (denied if version < 4 else [E.NONE, E.NONE])


# -- tools -----------------------------------------------------------------------------------------


async def test_a_list_names_the_states_that_do_not_exist(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        await init(client)
        request = lt.ListTransactionsRequest(["Asleep", "Empty", "PrepareCommit"])
        answer = await client.call("ListTransactions", 0, request)
        assert answer.unknown_state_filters == ["Asleep"]
        assert [each.transactional_id for each in answer.transaction_states] == ["x"]
        request = lt.ListTransactionsRequest(transactional_id_pattern="(")
        answer = await client.call("ListTransactions", 2, request)
        assert answer.error_code == E.INVALID_REGULAR_EXPRESSION


async def started_at(client: WireClient) -> Any:
    answer = await client.call("DescribeTransactions", 0, dt.DescribeTransactionsRequest(["x"]))
    return answer.transaction_states[0].transaction_start_time_ms


async def listed(client: WireClient, longer_than_ms: int) -> list[str]:
    request = lt.ListTransactionsRequest(duration_filter=longer_than_ms)
    answer = await client.call("ListTransactions", 1, request)
    return [each.transactional_id for each in answer.transaction_states]


async def test_the_start_of_a_transaction_is_shown_until_the_next_initialisation(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        assert await started_at(client) == -1
        # As in Kafka, an id without a start time passes every duration filter.
        assert await listed(client, 10**6) == ["x"]
        await write(client, topic_id, producer, 0)
        begun = await started_at(client)
        assert begun > 0
        assert await listed(client, 30_000) == []
        await trio.sleep(50)
        assert await listed(client, 30_000) == ["x"]
        _, *following = await ended(client, producer)
        assert await started_at(client) == begun
        assert await listed(client, 30_000) == ["x"]
        assert await listed(client, -5) == ["x"]
        await ended(client, (following[0], following[1]), committed=False)
        assert await started_at(client) > begun
        assert await listed(client, 30_000) == []
        await init(client)
        assert await started_at(client) == -1
