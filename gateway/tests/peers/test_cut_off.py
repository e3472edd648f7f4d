"""A gateway that is cut off from the metadata log sends its clients to other gateways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.app_world import pages_of
from tests.worlds.cluster.peer_network import Network
from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster, joined
from tests.worlds.wire_client import Closed, WireClient, records_batch
from tidegate_coordination.log.metadata_log import LogCapabilities
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_gateway.peers.neighbours import Neighbours
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import metadata as md
from tidegate_runtime.name_lookups import NameLookups

LEASE_SECONDS = 12.0
SETTINGS = {"lease.ms": "12000", "group.initial.rebalance.delay.ms": "0"}
SESSION_MS = 10_000
BATCH = records_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)


@dataclass(slots=True)
class Cut:
    """Two gateways.  log: the first gateway's way to the log."""

    old: Running
    new: Running
    log: FaultyLog
    cut_at: float = 0.0

    def begin(self) -> None:
        self.log.faults = LogFaults(outage=1.0)
        self.cut_at = trio.current_time()

    async def is_noticed(self) -> float:
        """Cut the first gateway off; return how long it took to notice this."""
        self.begin()
        with trio.fail_after(5 * LEASE_SECONDS):
            while not self.old.gateway.is_cut_off:  # noqa: ASYNC110 - time makes it true
                await trio.sleep(0.1)
        return trio.current_time() - self.cut_at


async def two(world: Cluster, node_id: int = 1) -> Cut:
    log = FaultyLog(world.log, LogFaults(), Random(0))
    found = Cut(await world.start(node_id, Clock(), log=log), await world.start(2, Clock()), log)
    await found.old.world.create_topic("t", 4)
    await trio.sleep(1)
    return found


async def client_of_cut_off(cut: Cut) -> WireClient:
    """Store one batch, cut the first gateway off, and return a client of it."""
    client = cut.old.world.connect()
    assert (await client.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
    await cut.is_noticed()
    return client


async def fetched(
    client: WireClient, offset: int, *, wait_ms: int = 500, **more: int | str
) -> list[fe.PartitionData]:
    partitions = [fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    request = fe.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fe.FetchTopic("t", partitions=partitions)],
    )
    for name, value in more.items():
        setattr(request, name, value)
    answer: fe.FetchResponse = await client.call("Fetch", 12, request)
    return [each for topic in answer.responses for each in topic.partitions]


async def leaders(client: WireClient) -> set[int]:
    request = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
    answer = await client.call("Metadata", 9, request)
    assert {each.node_id for each in answer.brokers} == {1, 2}
    return {each.leader_id for each in answer.topics[0].partitions}


async def coordinator(client: WireClient) -> tuple[int, int]:
    request = fc.FindCoordinatorRequest(coordinator_keys=["g"])
    found = (await client.call("FindCoordinator", 4, request)).coordinators[0]
    return found.error_code, found.node_id


async def becomes(holds: Callable[[], bool]) -> None:
    with trio.fail_after(5 * LEASE_SECONDS):
        while not holds():  # noqa: ASYNC110 - time makes it true
            await trio.sleep(0.1)


async def ready(running: Running) -> int:
    return (await pages_of(running.gateway).answer("GET", "/readyz")).status


@pytest.mark.parametrize("busy_seconds", [0, 11])
async def test_a_gateway_notices_that_it_is_cut_off_after_about_a_lease(
    autojump_clock: MockClock, busy_seconds: int
) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        await trio.sleep(busy_seconds)
        with capture_logs() as logged:
            took = await cut.is_noticed()
            await trio.sleep(2)
            assert LEASE_SECONDS - 1 <= took <= LEASE_SECONDS * 4 / 3 + 1
            assert await ready(cut.old) == 503
            assert await ready(cut.new) == 200
            assert not cut.new.gateway.is_cut_off
        assert len([each for each in logged if "cut off" in each["event"]]) == 1


async def test_a_log_that_is_slow_is_not_away(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        for _ in range(30):
            world.log.is_away = True
            for _ in range(12):
                await trio.sleep(LEASE_SECONDS / 20)
                assert not cut.old.gateway.is_cut_off
            world.log.is_away = False
            await trio.sleep(3)


async def test_a_gateway_without_others_goes_on(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        log = FaultyLog(world.log, LogFaults(), Random(0))
        alone = await world.start(1, Clock(), log=log)
        await alone.world.create_topic("t", 1)
        member = await joined(alone.world.connect(), "g", SESSION_MS)
        log.faults = LogFaults(outage=1.0)
        for _ in range(20):
            await trio.sleep(3)
            assert await member.beat() == E.NONE
        [partition] = await fetched(alone.world.connect(), 0)
        assert partition.error_code == E.NONE
        assert await ready(alone) == 200


async def test_nothing_is_written(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        client = await client_of_cut_off(cut)
        began = trio.current_time()
        for _ in range(2):  # first the plain path, then the path that knows how requests begin
            answer = await client.produce("t", 0, records_batch(b"b"))
            assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert trio.current_time() - began < 1
        assert (await cut.new.world.connect().produce("t", 0, records_batch(b"c"))).error_code == 0
        await trio.sleep(60)
        assert await cut.new.world.connect().fetch_values("t", 0, 0) == [b"a", b"c"]


@pytest.mark.parametrize("sent_before", [0, 1])
async def test_no_batch_is_written_after_refused_ones_of_its_connection(
    autojump_clock: MockClock, sent_before: int
) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        client = cut.old.world.connect()
        for _ in range(sent_before):  # so that the plain path has learned how requests begin
            assert (await client.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        world.log.is_away = True  # for both gateways, so neither expires the other
        await becomes(lambda: cut.old.gateway.is_cut_off)
        answer = await client.produce("t", 0, records_batch(b"b"))
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        world.log.is_away = False
        await becomes(lambda: not cut.old.gateway.is_cut_off)
        with pytest.raises(Closed):
            await client.produce("t", 0, records_batch(b"c"))
        await cut.old.world.connect().produce("t", 0, records_batch(b"b"))
        values = await cut.new.world.connect().fetch_values("t", 0, 0)
        assert values == [b"a"] * sent_before + [b"b"]


async def test_a_producer_that_waits_may_ask_another_gateway(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        cut = await two(world)
        cut.begin()
        await trio.sleep(LEASE_SECONDS / 2)
        codes: list[int] = []

        async def produce() -> None:
            answer = await cut.old.world.connect().produce("t", 0, BATCH)  # its timeout is 30 s
            codes.append(answer.error_code)

        nursery.start_soon(produce)
        while not cut.old.gateway.is_cut_off:
            assert codes == []
            await trio.sleep(0.1)
        await trio.sleep(1)
        assert codes == [E.REQUEST_TIMED_OUT]
        again = await cut.new.world.connect().produce("t", 0, BATCH)
        assert (again.error_code, again.base_offset) == (E.NONE, 0)


async def test_a_cut_off_gateway_serves_known_records_and_refuses_the_log_end(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        client = await client_of_cut_off(await two(world))
        [behind] = await fetched(client, 0)
        assert (behind.error_code, bool(behind.records)) == (E.NONE, True)
        began = trio.current_time()
        [at_end] = await fetched(client, 1)
        assert at_end.error_code == E.NOT_LEADER_OR_FOLLOWER
        # The answer is delayed, since the client repeats the request at once until it gets another
        # leader.
        assert trio.current_time() - began == pytest.approx(0.5, abs=0.1)


async def test_a_reader_that_stays_at_a_cut_off_gateway_learns_where_to_go(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        client = await client_of_cut_off(await two(world))
        answers = [await fetched(client, 1, rack_id="az-1") for _ in range(3)]
        seen = [(each.error_code, each.preferred_read_replica) for [each] in answers]
        assert seen == [(E.NOT_LEADER_OR_FOLLOWER, named) for named in (-1, 2, -1)]
        [behind] = await fetched(client, 0, rack_id="az-1")
        assert (behind.error_code, behind.preferred_read_replica) == (E.NONE, -1)


async def test_a_fetch_session_learns_when_it_is_over(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        client = cut.old.world.connect()
        request = fe.FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=0,
            topics=[fe.FetchTopic("t", partitions=[fe.FetchPartition(0, partition_max_bytes=99)])],
        )
        session_id = (await client.call("Fetch", 12, request)).session_id
        assert session_id
        answers: list[list[int]] = []

        async def ask(epoch: int) -> None:
            request.session_id, request.session_epoch, request.topics = session_id, epoch, []
            answer = await client.call("Fetch", 12, request)
            answers.append([p.error_code for each in answer.responses for p in each.partitions])

        await ask(1)
        await cut.is_noticed()
        await ask(2)
        await ask(3)
        assert answers == [[], [E.NOT_LEADER_OR_FOLLOWER], [E.NOT_LEADER_OR_FOLLOWER]]


async def test_a_cut_off_gateway_names_the_others_as_leaders(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        client = cut.old.world.connect()
        assert await leaders(client) == {1, 2}
        await joined(client, "g", 60_000)
        assert await coordinator(client) == (E.NONE, 1)
        await cut.is_noticed()
        assert await leaders(client) == {2}
        assert await coordinator(client) == (E.NONE, 2)


async def test_a_cut_off_gateway_names_others_that_do_not_answer_it(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        gateway = cut.old.gateway
        neighbours = Neighbours(gateway.coordinator.state.gateways, 1, [], NameLookups().dial)
        neighbours.absent = frozenset({cut.new.gateway.coordinator.incarnation})
        gateway.view = replace(gateway.view, neighbours=neighbours)
        client = cut.old.world.connect()
        assert await leaders(client) == {1}
        await cut.is_noticed()
        # The gateway itself refuses to write, while the others may not.
        assert await leaders(client) == {2}


class OnlyForwards(FaultyLog):
    """A log that a gateway can read, but not append to."""

    @property
    def capabilities(self) -> LogCapabilities:
        return replace(super().capabilities, can_append=False)


@pytest.mark.parametrize("node_id", [1, 3])  # 1 is the leading gateway, 3 forwards to gateway 2
async def test_a_gateway_that_forwards_can_be_cut_off(
    autojump_clock: MockClock, node_id: int
) -> None:
    async with cluster({**SETTINGS, "forwarding": "on"}) as world:
        world.network = Network(world.nursery)
        cut = await two(world, node_id)
        member = await joined(cut.old.world.connect(), "g", 60_000)
        assert await cut.is_noticed() < 2 * LEASE_SECONDS
        assert await member.beat() == E.NOT_COORDINATOR
        await trio.sleep(5 * LEASE_SECONDS)
        assert cut.old.gateway.is_cut_off
        assert set(cut.new.gateway.coordinator.state.gateways.live) == {2}
        member.client = cut.new.world.connect()
        assert await member.beat() == E.NONE


async def test_a_gateway_that_only_forwards_is_cut_off_if_it_reaches_no_leader(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        world.network = Network(world.nursery)
        other = await world.start(2, Clock())
        log = OnlyForwards(world.log, LogFaults(), Random(0))
        cut = Cut(await world.start(1, Clock(), log=log), other, log)
        await trio.sleep(2 * LEASE_SECONDS)
        world.network.down.add("node2")
        assert LEASE_SECONDS - 1 <= await cut.is_noticed() <= LEASE_SECONDS * 4 / 3 + 1
