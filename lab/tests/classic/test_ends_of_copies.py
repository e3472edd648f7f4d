"""The end offsets that a gateway answers while its copy lacks records of the source, the model."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.transaction_client import COMMITTED
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import offset_for_leader_epoch as oe
from tidegate_simulation.classic.log.faults import truncate
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_4_3, Profile

from .forward.test_forwarded_groups import SERVERS, propose
from .test_mirrors import World, becomes, mirroring

LATEST = -1
EARLIEST = -2


async def linked(world: World, *, forwards: bool = True) -> None:
    link = SetLink("src", world.source.cluster_id, SERVERS, ("t",), forwards=forwards)
    assert await propose(world, link) is None
    world.write(2)
    await world.copied()
    await becomes(lambda: all(each.gateway.links.running for each in world.gateways))


async def listed(
    world: World, *, isolation: int = 0, version: int = 7, time: int = LATEST, at: int = 0
) -> tuple[int, int, int]:
    """Return error code, offset and leader epoch of partition 0."""
    part = lo.ListOffsetsPartition(0, -1, time)
    request = lo.ListOffsetsRequest(-1, isolation, [lo.ListOffsetsTopic("t", [part])])
    client = world.gateways[at].world.connect()
    answer = await client.call("ListOffsets", version, request)
    [row] = answer.topics[0].partitions
    return row.error_code, row.offset, row.leader_epoch


async def epoch_end(world: World, epoch: int) -> tuple[int, int, int]:
    """Return error code, epoch and end offset that partition 0 has for an epoch."""
    part = oe.OffsetForLeaderPartition(0, -1, epoch)
    request = oe.OffsetForLeaderEpochRequest(-1, [oe.OffsetForLeaderTopic("t", [part])])
    client = world.gateways[0].world.connect()
    answer = await client.call("OffsetForLeaderEpoch", 4, request)
    [row] = answer.topics[0].partitions
    return row.error_code, row.leader_epoch, row.end_offset


@pytest.mark.parametrize("profile", [KAFKA_2_1, KAFKA_4_3])
@pytest.mark.parametrize("version", [1, 4, 11])
async def test_an_end_is_the_sources_while_the_copy_is_behind(
    version: int, profile: Profile, autojump_clock: MockClock
) -> None:
    """Kafka Streams restores its stores up to this end, and a consumer may begin there."""
    async with mirroring(gateways=2, profile=profile) as world:
        await linked(world)
        world.write(5)
        copy = world.copy()
        assert copy is not None
        for at in (0, 1):
            code, end, _ = await listed(world, version=version, at=at)
            assert (code, end) == (E.NONE, 7)


async def test_a_last_stable_offset_is_the_sources(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        head = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
        world.write(3, producer_id=7, **head)
        await world.copied()
        world.write(1)
        assert (await listed(world))[1] == 6
        assert (await listed(world, isolation=COMMITTED))[1] == 2
        world.mark(7, committed=True)
        assert (await listed(world, isolation=COMMITTED))[1] == 7


async def test_what_is_here_alone_counts(autojump_clock: MockClock) -> None:
    """The source ends earlier than the copy, as while a topic goes back to its source."""
    async with mirroring() as world:
        await linked(world)
        truncate(world.log(), 1)
        assert await listed(world) == (E.NONE, 2, 0)
        assert await listed(world, isolation=COMMITTED) == (E.NONE, 2, 0)


async def test_a_leader_that_moved_is_found(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        await listed(world)
        world.source.move_leader("t", 0, 2)
        # The copy has no batch of the new epoch yet, so Metadata has the old epoch.  A client that
        # got the new epoch would take this Metadata for outdated.
        assert await listed(world) == (E.NONE, 2, -1)
        world.write(1)
        assert (await listed(world))[:2] == (E.NONE, 3)
        await world.copied()
        assert await listed(world) == (E.NONE, 3, 1)


async def test_a_link_that_does_not_forward_shows_its_copy(autojump_clock: MockClock) -> None:
    """A copy of a link that does not forward has to be readable without its source."""
    async with mirroring() as world:
        await linked(world, forwards=False)
        world.write(5)
        assert await listed(world) == (E.NONE, 2, 0)


async def test_without_an_answer_clients_ask_again(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        begun = trio.current_time()
        code, _, _ = await listed(world)
        assert code == E.NOT_LEADER_OR_FOLLOWER
        assert trio.current_time() - begun < 10
        assert await listed(world, time=EARLIEST) == (E.NONE, 0, 0)


async def test_an_epoch_that_goes_on_cuts_no_reader_of_the_source(
    autojump_clock: MockClock,
) -> None:
    """A consumer that has read at the source would go back to the end of the copy."""
    async with mirroring() as world:
        await linked(world, forwards=False)
        world.write(5)
        code, epoch, end = await epoch_end(world, 0)
        assert (code, epoch) == (E.NONE, 0)
        assert end >= 7


async def test_an_epoch_that_is_not_here_yet_is_waited_for(autojump_clock: MockClock) -> None:
    """An answer of -1 would make the consumer start again."""
    async with mirroring() as world:
        await linked(world, forwards=False)
        world.source.move_leader("t", 0, 2)
        world.write(1)
        assert (await epoch_end(world, 1))[0] == E.UNKNOWN_LEADER_EPOCH
        await world.copied()
        code, epoch, end = await epoch_end(world, 1)
        assert (code, epoch) == (E.NONE, 1)
        assert end >= 3
        assert await epoch_end(world, 0) == (E.NONE, 0, 2)
