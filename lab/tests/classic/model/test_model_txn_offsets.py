"""The model's offsets of transactions: staged, then published or dropped by a marker."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import classic_world
from tests.worlds.classic_members import join_together, member, stable_group, sync_together
from tests.worlds.classic_transactions import (
    GROUP,
    NAME,
    Transactor,
    committed,
    described,
    settled,
    shown_state,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import offset_fetch as of
from tidegate_simulation.classic.model_topics import CommittedOffset, PartitionKey
from tidegate_simulation.classic.offsets_partition import GroupKey, OffsetsPartition
from tidegate_simulation.classic.profiles import KAFKA_2_1
from tidegate_simulation.classic.refusals import Refused
from tidegate_simulation.classic.rights import (
    DESCRIBE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Denial,
)
from tidegate_simulation.classic.rights import GROUP as GROUP_RESOURCE

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
T0 = PartitionKey("t", 0)
KINDS = pytest.mark.parametrize("knows_v2", [True, False])


async def staging(producer: Transactor, offset: int, *, index: int = 0) -> None:
    """Stage an offset as the producer's version does."""
    if not producer.knows_v2:
        assert await producer.add_offsets() == 0
    assert await producer.commit(offset, index=index) == 0


@KINDS
async def test_staged_offsets_count_once_the_marker_is_written(
    knows_v2: bool, autojump_clock: MockClock
) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world, knows_v2=knows_v2)
        await producer.init()
        world.cluster.commit_offset(GROUP, T0, CommittedOffset(3, -1, ""))
        await staging(producer, 7)
        assert await committed(world, indexes=(0, 1)) == [(0, 3), (0, -1)]
        assert await committed(world, stable=True, indexes=(0, 1)) == [(UNSTABLE, -1), (0, -1)]
        await producer.end()
        assert await committed(world, stable=True) == [(UNSTABLE, -1)]
        await settled(world)
        assert await committed(world, stable=True) == [(0, 7)]
        await staging(producer, 9)
        await producer.end(commits=False)
        await settled(world)
        assert await committed(world, stable=True) == [(0, 7)]


async def test_the_older_form_of_offset_fetch(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await staging(producer, 7)
        client = await world.client()
        topics = [of.OffsetFetchRequestTopic("t", [0])]
        request = of.OffsetFetchRequest(GROUP, topics, require_stable=True)
        [topic] = (await client.call("OffsetFetch", 7, request)).topics
        assert topic.partitions[0].error_code == UNSTABLE
        request.topics = None
        assert (await client.call("OffsetFetch", 7, request)).topics == []  # none is committed
        old = of.OffsetFetchRequest(GROUP, topics)
        [topic] = (await client.call("OffsetFetch", 6, old)).topics
        assert topic.partitions[0].error_code == 0


@pytest.mark.parametrize(("version", "code"), [(3, 48), (4, 120), (5, 0)])
async def test_the_group_must_have_been_added_before_version_5(
    version: int, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        assert await producer.commit(5, version=version) == code
        assert await shown_state(world) == ("Empty" if code else "Ongoing")
        assert await producer.add_offsets() == 0
        assert await producer.commit(5, version=version) == 0


async def test_before_kafka_3_6_coordinators_did_not_ask(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init(version=1)
        assert await producer.commit(5, version=2) == 0
        assert world.cluster.transactions[NAME].partitions == {}
        assert await producer.add_offsets(version=1) == 0
        await producer.end(version=1)
        await settled(world)
        assert world.cluster.groups[GROUP].offsets[T0].offset == 5


async def test_a_later_plain_commit_stands(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await staging(producer, 7, index=0)
        await staging(producer, 8, index=1)
        world.cluster.commit_offset(GROUP, T0, CommittedOffset(2, -1, ""))
        await producer.end()
        await settled(world)
        assert await committed(world, indexes=(0, 1)) == [(0, 2), (0, 8)]


async def test_a_late_commit_is_part_of_the_end_under_way(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world, knows_v2=False)
        await producer.init()
        await staging(producer, 7)
        await producer.end()
        assert await producer.commit(8) == 0  # the marker is not there yet
        await settled(world)
        assert await committed(world) == [(0, 8)]
        assert await producer.commit(9) == ErrorCode.TRANSACTION_ABORTABLE


async def test_an_old_release_fences_by_its_log(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        zombie, producer = (Transactor(world, knows_v2=False) for _ in range(2))
        await zombie.init(version=1)
        assert await zombie.add_offsets(version=1) == 0
        assert await zombie.commit(5, version=2) == 0
        assert await producer.init(version=1) == ErrorCode.CONCURRENT_TRANSACTIONS
        await settled(world)
        assert await zombie.commit(6, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_partition_of_offsets_knows_who_is_open() -> None:
    log, key = OffsetsPartition(), GroupKey(GROUP, T0)
    log.stage(1, 3, key, CommittedOffset(7, -1, ""))
    assert [log.is_open(1, 3), log.is_open(1, 4), log.is_open(2, 3)] == [True, False, False]
    with pytest.raises(Refused):
        log.stage(1, 2, key, CommittedOffset(8, -1, ""))
    assert log.end(2, 3, commits=True) == {}
    assert log.end(1, 4, commits=True) == {key: CommittedOffset(7, -1, "")}
    assert (log.is_open(1, 4), log.is_pending(key)) == (False, False)
    with pytest.raises(Refused):
        log.stage(1, 3, key, CommittedOffset(9, -1, ""))


async def test_a_transaction_shows_its_group(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        await producer.write(1)
        await staging(producer, 7)
        topics = {each.topic: each.partitions for each in (await described(world)).topics}
        assert topics == {"t": [1], "__consumer_offsets": [ord("g") % 50]}


async def test_zombies_and_strangers_commit_nothing(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        zombie, producer = Transactor(world), Transactor(world)
        assert await zombie.commit(5) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        await zombie.init()
        await producer.init()
        assert await zombie.commit(5) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.add_offsets() == ErrorCode.PRODUCER_FENCED
        assert await zombie.add_offsets(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        await staging(producer, 6)
        await producer.end()
        await settled(world)
        producer.epoch -= 1
        assert await producer.commit(8) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await committed(world) == [(0, 6)]
        world.cluster.groups[GROUP].is_loading = True
        producer.epoch += 1
        assert await producer.commit(8, version=5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await producer.commit(8, version=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_members_are_checked(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        assert await producer.commit(1, generation_id=0) == ErrorCode.ILLEGAL_GENERATION
        [first] = await stable_group(world, None)
        own: dict[str, Any] = {"member_id": first.member_id, "generation_id": first.generation}
        assert await producer.commit(1, **own) == 0
        assert await producer.commit(2, **(own | {"generation_id": 9})) == 22
        assert await producer.commit(2, **(own | {"member_id": "x"})) == 25
        assert await producer.commit(3) == 0  # accepted: it names no member
        second = await member(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.join)
            await trio.sleep(1)
            await join_together(first)
        own["generation_id"] = first.generation
        assert await producer.commit(4, **own) == 0  # although the rebalance is not complete
        await sync_together(first, second, leader=first)
        await producer.end()
        await settled(world)
        assert await committed(world) == [(0, 4)]


async def test_rights_and_places(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world)
        await producer.init()
        assert await producer.commit(1, index=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        other = "gg"
        assert world.cluster.coordinator_of(other) != world.cluster.coordinator_of(GROUP)
        assert await producer.commit(1, group_id=other) == 0
        assert await Misled(producer).commit(1) == ErrorCode.NOT_COORDINATOR
        denied = world.cluster.rights.denied
        for denial, code in (
            (Denial(READ, TOPIC, "t"), 29),
            (Denial(READ, GROUP_RESOURCE, GROUP), 30),
            (Denial(WRITE, TRANSACTIONAL_ID, NAME), 53),
        ):
            denied.add(denial)
            assert await producer.commit(1) == code
            if code == 29:
                denied.add(Denial(DESCRIBE, TOPIC, "t"))
                assert await committed(world, other, stable=True) == [(29, -1)]
        assert await producer.add_offsets() == 53
        denied.discard(Denial(WRITE, TRANSACTIONAL_ID, NAME))
        assert await producer.add_offsets() == 30


class Misled(Transactor):
    """A producer that sends its requests to the wrong one of two brokers."""

    def __init__(self, other: Transactor) -> None:
        super().__init__(other.world, other.name)
        self.producer_id, self.epoch = other.producer_id, other.epoch

    async def call(self, api: str, version: int, request: Any, node_id: int | None = None) -> Any:
        """See Transactor."""
        return await super().call(api, version, request, 3 - (node_id or 1))


async def test_deletions_drop_staged_offsets(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        producer = Transactor(world)
        await producer.init()
        client = await world.client()
        await staging(producer, 7, index=0)
        await staging(producer, 8, index=1)
        topic = od.OffsetDeleteRequestTopic("t", [od.OffsetDeleteRequestPartition(0)])
        answer = await client.call("OffsetDelete", 0, od.OffsetDeleteRequest(GROUP, [topic]))
        assert answer.topics[0].partitions[0].error_code == 0
        assert await committed(world, stable=True, indexes=(0, 1)) == [(0, -1), (UNSTABLE, -1)]
        await producer.end()
        await settled(world)
        assert await committed(world, indexes=(0, 1)) == [(0, -1), (0, 8)]
        await staging(producer, 9)
        gone = await client.call("DeleteGroups", 2, dg.DeleteGroupsRequest([GROUP]))
        assert gone.results[0].error_code == 0
        await producer.end()
        await settled(world)
        assert GROUP not in world.cluster.groups
        await staging(producer, 9)
        world.cluster.recreate_topic("t")
        await producer.end()
        await settled(world)
        assert await committed(world) == [(0, -1)]


async def test_staged_offsets_survive_a_move_of_the_group(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        producer = Transactor(world)
        await producer.init()
        await staging(producer, 7)
        world.servers.stop_broker(world.cluster.coordinator_of(GROUP))
        assert await committed(world, stable=True) == [(UNSTABLE, -1)]
        await producer.end()
        await settled(world)
        assert await committed(world, stable=True) == [(0, 7)]
