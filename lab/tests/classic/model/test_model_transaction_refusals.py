"""Refusals of the model's transaction coordinator, and the features of a release of Kafka."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.classic_client import classic_world
from tests.worlds.classic_transactions import (
    NAME,
    Transactor,
    shown_state,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import produce as pr
from tidegate_simulation.classic.profiles import (
    KAFKA_2_1,
    KAFKA_3_9,
    KAFKA_4_3,
    KAFKA_4_3_V1,
    Profile,
)
from tidegate_simulation.classic.rights import (
    CLUSTER,
    CLUSTER_ACTION,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Denial,
)

FENCED = ErrorCode.PRODUCER_FENCED
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
OTHER_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
KINDS = pytest.mark.parametrize("knows_v2", [True, False])


@KINDS
async def test_steps_of_others_are_refused(knows_v2: bool, autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer, zombie = Transactor(world, knows_v2=knows_v2), Transactor(world)
        assert await producer.add(0) == [OTHER_ID]
        assert await producer.produce(version=12) == OTHER_ID
        assert await producer.end() == OTHER_ID
        await producer.init()
        zombie.producer_id, zombie.epoch = producer.producer_id, producer.epoch
        assert (await producer.init(), producer.epoch) == (0, 1)
        zombie.knows_v2 = knows_v2
        assert await zombie.add(0) == [FENCED]
        assert await zombie.add(0, version=1) == [OLD_EPOCH]
        assert await zombie.produce() == OLD_EPOCH
        assert await zombie.end() == FENCED
        assert await zombie.end(version=1) == OLD_EPOCH
        zombie.producer_id += 1
        assert (await zombie.add(0), await zombie.end()) == ([OTHER_ID], OTHER_ID)


async def test_partitions_are_added_all_or_none(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        assert await producer.add(0, 9) == [55, 3]
        assert await producer.add(0, topic="__consumer_offsets") == [29]
        assert await shown_state(world) == "Empty"
        denied = world.cluster.rights.denied
        denied.add(Denial(WRITE, TOPIC, "t"))
        assert await producer.add(0, 1) == [29, 29]
        denied.add(Denial(WRITE, TRANSACTIONAL_ID, NAME))
        assert await producer.add(0, 1) == [53, 53]
        assert (await producer.end(), await producer.init()) == (53, 53)
        assert await producer.produce(version=12) == 53


async def test_brokers_verify_and_add(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)

        async def ask(*indexes: int, verify_only: bool = True) -> list[int]:
            topic = ap.AddPartitionsToTxnTopic("t", list(indexes))
            one = ap.AddPartitionsToTxnTransaction(
                NAME, producer.producer_id, producer.epoch, verify_only, [topic]
            )
            request = ap.AddPartitionsToTxnRequest([one])
            answer = await producer.call("AddPartitionsToTxn", 5, request)
            if answer.error_code:
                return [answer.error_code]
            [result] = answer.results_by_transaction
            [found] = result.topic_results
            return [each.partition_error_code for each in found.results_by_partition]

        assert await ask(0, 1) == [0, 120]
        assert await ask(1, verify_only=False) == [0]
        assert await ask(0, 1) == [0, 0]
        world.cluster.rights.denied.add(Denial(CLUSTER_ACTION, CLUSTER))
        assert await ask(0) == [31]


async def test_one_request_has_one_producer(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = Transactor(world), Transactor(world, "other")
        await first.init()
        await second.init()
        rows = [
            pr.PartitionProduceData(index, first.batch(b"v", producer_id=each.producer_id))
            for index, each in enumerate((first, second))
        ]
        topic = pr.TopicProduceData("t", partition_data=rows)
        answer = await first.call("Produce", 12, pr.ProduceRequest(NAME, -1, 9000, [topic]), 1)
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        assert codes == [OTHER_ID, OTHER_ID]
        assert await shown_state(world) == "Empty"
        second.name = NAME
        assert await second.produce() == OTHER_ID


async def test_coordinators_are_found_and_keep_to_their_ids(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world)
        client = await world.client()
        keys = [NAME, "ty"]
        found = await client.call("FindCoordinator", 4, fc.FindCoordinatorRequest("", 1, keys))
        assert [each.node_id for each in found.coordinators] == [
            world.cluster.coordinator_of(each) for each in keys
        ]
        assert len({each.node_id for each in found.coordinators}) == 2
        await producer.init()
        other = 3 - world.cluster.coordinator_of(NAME)
        stray = ap.AddPartitionsToTxnRequest(
            [], NAME, producer.producer_id, 0, [ap.AddPartitionsToTxnTopic("t", [0])]
        )
        answer = await producer.call("AddPartitionsToTxn", 3, stray, other)
        [topic] = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == ErrorCode.NOT_COORDINATOR
        assert await producer.add(0) == [0]


@pytest.mark.parametrize(
    ("profile", "level", "ranges"),
    [
        (KAFKA_4_3, 2, [(0, 5), (0, 4), (0, 5), (0, 5), (0, 0), (0, 2)]),
        (KAFKA_4_3_V1, 1, [(0, 5), (0, 4), (0, 5), (0, 5), (0, 0), (0, 2)]),
        (KAFKA_3_9, None, [(0, 5), (0, 4), (0, 4), (0, 4), (0, 0), (0, 1)]),
        (KAFKA_2_1, None, [(0, 1), (0, 1), (0, 1), (0, 2), None, None]),
    ],
)
async def test_a_release_announces_its_transactions(
    profile: Profile,
    level: int | None,
    ranges: list[tuple[int, int] | None],
    autojump_clock: MockClock,
) -> None:
    async with classic_world(profile=profile) as world:
        client = await world.client()
        version = 3 if profile.speaks(18, 3) else 2
        answer = await client.call("ApiVersions", version, av.ApiVersionsRequest("a", "1"))
        found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert [found.get(each) for each in (24, 25, 26, 28, 65, 66)] == ranges
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        assert levels.get("transaction.version") == level
