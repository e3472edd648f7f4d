"""The model's transaction coordinator: producers begin, write and end transactions."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import classic_world, raw_of
from tests.worlds.classic_transactions import (
    NAME,
    Transactor,
    described,
    markers,
    read,
    settled,
    shown_state,
)
from tidegate_protocol.control_batches import commits
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
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
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
KINDS = pytest.mark.parametrize("knows_v2", [True, False])


@KINDS
async def test_a_commit_is_seen_once_its_markers_are_written(
    knows_v2: bool, autojump_clock: MockClock
) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world, knows_v2=knows_v2)
        assert await producer.init() == 0
        assert (producer.producer_id % 1000, producer.epoch) == (0, 0)
        assert await shown_state(world) == "Empty"
        await producer.write(0, 1)
        assert await shown_state(world) == "Ongoing"
        found = await read(world)
        assert (found.last_stable_offset, found.high_watermark, raw_of(found)) == (0, 1, b"")
        assert await producer.end() == 0
        assert await shown_state(world) == "PrepareCommit"
        assert (await read(world)).last_stable_offset == 0
        await settled(world)
        assert await shown_state(world) == "CompleteCommit"
        epoch = 1 if knows_v2 else 0
        assert (markers(world, 0), markers(world, 1)) == ([(1, epoch)], [(1, epoch)])
        found = await read(world, index=1)
        assert (found.last_stable_offset, found.aborted_transactions) == (2, [])
        assert commits(raw_of(found)[-17:]) is True
        assert producer.epoch == epoch


@KINDS
async def test_an_abort_is_listed(knows_v2: bool, autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=knows_v2)
        await producer.init()
        await producer.write(0)
        assert await producer.end(commits=False) == 0
        assert await shown_state(world) == "PrepareAbort"
        await settled(world)
        assert await shown_state(world) == "CompleteAbort"
        found = await read(world)
        assert found.aborted_transactions == [fe.AbortedTransaction(producer.producer_id, 0)]
        assert found.last_stable_offset == 2
        client = await world.client()
        assert (await client.fetch("t", 0)).aborted_transactions is None
        await producer.write(0)
        await producer.end()
        await settled(world)
        found = await read(world)
        assert found.aborted_transactions == [fe.AbortedTransaction(producer.producer_id, 0)]
        assert found.last_stable_offset == 4


async def test_partitions_without_records_get_a_marker_too(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        assert await producer.add(0, 1) == [0, 0]
        assert await producer.produce(index=0) == 0
        await producer.end()
        await settled(world)
        assert (markers(world, 0), markers(world, 1)) == ([(1, 0)], [(0, 0)])


@pytest.mark.parametrize(("version", "code"), [(10, 48), (11, 120), (12, 0)])
async def test_produce_needs_the_partition_before_version_12(
    version: int, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        assert await producer.produce(version=version) == code
        assert await shown_state(world) == ("Empty" if code else "Ongoing")
        assert (await producer.add(0)) == [0]
        assert await producer.produce(version=version) == 0


async def test_before_kafka_3_6_leaders_did_not_ask(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        producer = Transactor(world, knows_v2=False)
        assert await producer.init(version=1) == 0
        assert await producer.produce(version=7) == 0
        assert await producer.end(version=1) == WRONG_STATE
        assert world.cluster.partition("t", 0).log.last_stable_offset == 0


async def test_a_late_batch_is_not_part_of_the_next_transaction(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.write(0)
        await producer.end()
        assert await producer.produce() == 0  # the marker is not there yet
        await settled(world)
        assert markers(world) == [(2, 0)]
        assert await producer.produce() == ErrorCode.TRANSACTION_ABORTABLE
        producer.knows_v2 = True
        assert await producer.produce() == 0  # begins the next one
        late = producer.sequences["t", 0]
        await producer.end()
        await settled(world)
        assert await producer.produce(producer_epoch=0, base_sequence=late) == OLD_EPOCH


async def test_the_transaction_may_end_while_a_batch_waits_for_its_append(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.add(0)
        world.servers.append_pause = lambda: 5.0
        codes: list[int] = []

        async def late() -> None:
            codes.append(await producer.produce())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            await trio.sleep(1)
            assert await producer.end() == 0
        assert (codes, markers(world)) == ([WRONG_STATE], [(0, 0)])


async def test_an_end_under_way_delays_the_next_transaction(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.transaction_settings.marker_seconds = 0.02
        producer = Transactor(world)
        await producer.init()
        await producer.write(0)
        await producer.end()
        began = trio.current_time()
        assert await producer.produce() == 0  # waits for the markers
        assert 0 < trio.current_time() - began <= 0.1
        assert markers(world) == [(1, 1)]


async def test_an_end_that_takes_long_is_told(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        admin = await world.client()
        old, new = Transactor(world, "old", knows_v2=False), Transactor(world)
        for each in (old, new):
            await each.init()
            await each.write(0)
        await admin.alter("t", "max.message.bytes", "0")
        for each in (old, new):
            assert await each.end() == 0
            assert await each.add(1) == [BUSY]
        assert await new.produce(index=1) == BUSY
        assert await old.produce(index=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert [await each.end() for each in (old,)] == [BUSY]


async def test_a_fence_keeps_markers_out_until_it_is_lifted(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.create_topic("open", 1)
        admin = await world.client()
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await producer.write(0)
        assert await producer.add(0, topic="open") == [0]
        await admin.alter("t", "max.message.bytes", "0")
        assert await producer.end() == 0
        await trio.sleep(600)
        state = await described(world)
        assert state.transaction_state == "PrepareCommit"
        assert [(each.topic, each.partitions) for each in state.topics] == [("t", [0])]
        assert await producer.init() == BUSY
        assert (await read(world)).last_stable_offset == 0
        await admin.alter("t", "max.message.bytes", None, operation=1)
        await trio.sleep(1)
        assert await shown_state(world) == "CompleteCommit"
        assert (markers(world), (await read(world)).last_stable_offset) == ([(1, 0)], 2)
        assert (await producer.init(), producer.epoch) == (0, 1)


async def test_a_batch_that_a_fence_refuses_has_added_its_partition(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        admin, producer = await world.client(), Transactor(world)
        await producer.init()
        await admin.alter("t", "max.message.bytes", "0")
        assert await producer.produce() == ErrorCode.MESSAGE_TOO_LARGE
        assert await producer.end(commits=False) == 0
        await settled(world)
        assert (await shown_state(world), markers(world)) == ("PrepareAbort", [])


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
        moved = Transactor(world, NAME)
        moved.producer_id, moved.epoch = producer.producer_id, producer.epoch
        other = 3 - world.cluster.coordinator_of(NAME)
        world.cluster.coordinator_of = lambda _: other  # type: ignore[method-assign]
        assert await moved.add(0) == [0]
        world.cluster.coordinator_of = lambda _: 3 - other  # type: ignore[method-assign]
        stray = ap.AddPartitionsToTxnRequest(
            [], NAME, producer.producer_id, 0, [ap.AddPartitionsToTxnTopic("t", [0])]
        )
        answer = await producer.call("AddPartitionsToTxn", 3, stray, other)
        [topic] = answer.results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == ErrorCode.NOT_COORDINATOR


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
