"""Switched topics return to a classic cluster, the model, with the records written meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import records_batch
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_coordination.rules.migration.returns import FenceReturn, ReverseTopics
from tidegate_coordination.state.migration.switches import Switched
from tidegate_gateway.migration.back.batch_sender import BatchSender, Line
from tidegate_gateway.migration.back.batches import sendable
from tidegate_gateway.migration.back.partition import PartitionReverse
from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.records import walk
from tidegate_simulation.classic.log.model_log import WATERMARK

from .test_mirrors import MAX_BYTES, World, becomes, mirroring
from .test_switches import limit, produced, switched, switches, topic

SERVERS = "b1:9092,b2:9092"


async def propose(world: World, proposal: Any) -> Any:
    return await world.gateways[0].gateway.coordinator.propose(proposal)


async def here(world: World, *, at_source: int = 1) -> None:
    """Have the topic switched after some records were written at its source."""
    link = SetLink("src", world.source.cluster_id, SERVERS, ("t",), forwards=True)
    assert await propose(world, link) is None
    for _ in range(at_source):
        world.write(1)
    await world.copied()
    await switched(world)


async def opened(world: World) -> None:
    """Begin to write back, and wait until the source takes writes."""
    assert await propose(world, ReverseTopics("src", ("t",))) == ["t"]
    await becomes(lambda: limit(world) is None)


async def fenced(world: World) -> None:
    number = await propose(world, FenceReturn("src", ("t",)))
    assert isinstance(number, int), number


async def returned(world: World) -> None:
    assert await propose(world, ReverseTopics("src", ("t",))) == ["t"]
    await becomes(lambda: world.log().high_watermark == end(world))
    await fenced(world)
    await becomes(lambda: not switches(world).fences)
    assert is_back(world)


def end(world: World) -> int:
    copy = world.copy()
    assert copy is not None
    return copy.next_offset


def is_back(world: World) -> bool:
    state = world.gateways[0].gateway.coordinator.state
    return bool(state.topics.by_name["t"].link)


def left(world: World) -> Switched:
    return switches(world).switched[topic(world).topic_id]


def at_source(world: World) -> list[tuple[int, int]]:
    """The base offsets and producers of the batches that the source holds."""
    found = world.log().read(world.log().log_start, MAX_BYTES, WATERMARK, whole_first=True)
    return [(each.base_offset, each.producer_id) for _, each in walk(memoryview(found.records))]


async def test_what_came_since_the_switch_is_at_the_source(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await here(world)
        for sequence in range(3):
            head = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            assert await produced(world, sequence % 2, **head) == (E.NONE, 1 + sequence)
        await produced(world)
        await returned(world)
        assert at_source(world) == [(0, -1), (1, 7), (2, 7), (3, 7), (4, -1)]
        assert limit(world) is None
        # Gateways forward later batches, and their sequences continue at the source.
        again = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 2}
        assert await produced(world, **again) == (E.NONE, 3)
        following = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}
        assert await produced(world, **following) == (E.NONE, 5)
        await becomes(lambda: end(world) == 6)


async def test_a_topic_goes_to_and_fro(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        for expected in range(1, 7, 2):
            assert await produced(world) == (E.NONE, expected)
            await returned(world)
            assert await produced(world) == (E.NONE, expected + 1)
            await becomes(lambda: end(world) == world.log().high_watermark)
            await switched(world)
        assert end(world) == 7


async def test_writers_wait_while_the_topic_returns(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        found: list[tuple[int, int]] = []

        async def write() -> None:
            found.append(await produced(world))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(write)
            await fenced(world)
            for _ in range(20):
                nursery.start_soon(write)
        assert sorted(found) == [(E.NONE, offset) for offset in range(1, 41)]
        assert is_back(world)
        await becomes(lambda: end(world) == world.log().high_watermark == 41)


async def test_a_topic_stays_if_its_source_does_not_take_the_rest(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        world.source.hold_watermark("t", 0)
        assert await produced(world) == (E.NONE, 1)
        begun = trio.current_time()
        await fenced(world)
        await becomes(lambda: not switches(world).fences)
        assert trio.current_time() - begun < 5
        assert not is_back(world)
        assert await produced(world) == (E.NONE, 2)
        world.source.release_watermark("t", 0)
        await becomes(lambda: world.log().high_watermark == 3)
        assert left(world).reached != ()


async def test_another_client_of_the_source_ends_it(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        await becomes(lambda: reverse_of(world).position == 1)
        world.write(1)
        with capture_logs() as logs:
            assert await produced(world) == (E.NONE, 1)
            await becomes(lambda: not left(world).reached)
        assert "put the batch of offset 1 at 2" in left(world).problem
        assert any("cannot go back" in each["event"] for each in logs)
        await becomes(lambda: limit(world) == "0")
        assert "put the batch" in str(await propose(world, FenceReturn("src", ("t",))))
        assert await produced(world) == (E.NONE, 2)


def reverse_of(world: World, at: int = 0) -> PartitionReverse:
    reversing = world.gateways[at].gateway.links.running["src"].reversing
    assert reversing is not None
    return next(each for each in reversing.partitions.values() if each.index == 0)


async def test_a_batch_whose_answer_was_lost_is_not_written_twice(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = PartitionReverse._take, list[int]()

    def take(self: PartitionReverse, batch: Any, answer: Any) -> None:
        if not lost:
            lost.append(1)
            answer.error_code = E.REQUEST_TIMED_OUT
        real(self, batch, answer)

    monkeypatch.setattr(PartitionReverse, "_take", take)
    async with mirroring() as world:
        await here(world)
        for _ in range(3):
            await produced(world)
        await returned(world)
        assert lost
        assert at_source(world) == [(each, -1) for each in range(4)]


async def here_and_led_by_one(world: World) -> None:
    """Have the empty topic switched; one broker leads it at the source."""
    for index in (0, 1):
        world.source.move_leader("t", index, 2)
    await here(world, at_source=0)


async def both_written(world: World, count: int) -> None:
    """Write to both partitions."""
    client = world.gateways[0].world.connect()
    for _ in range(count):
        for index in (0, 1):
            answer = await client.produce("t", index, records_batch(b"own"))
            assert answer.error_code == E.NONE


async def test_the_partitions_of_a_leader_share_requests(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sizes = BatchSender._send, list[int]()

    async def send(self: BatchSender, connection: Any, lines: list[Line]) -> None:
        sizes.append(len(lines))
        await real(self, connection, lines)

    monkeypatch.setattr(BatchSender, "_send", send)
    async with mirroring() as world:
        await here_and_led_by_one(world)
        await both_written(world, 10)
        await propose(world, ReverseTopics("src", ("t",)))
        await becomes(lambda: left(world).reached == (10, 10))
        assert sum(sizes) == 20
        assert sizes.count(2) > 7
        assert at_source(world) == [(each, -1) for each in range(10)]


async def test_a_partition_whose_replicas_are_slow_stops_no_other(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here_and_led_by_one(world)
        await opened(world)
        await becomes(lambda: reverse_of(world).position == 0)
        world.source.hold_watermark("t", 0)
        begun = trio.current_time()
        await both_written(world, 10)
        await becomes(lambda: world.log(1).high_watermark == 10)
        assert trio.current_time() - begun < 7  # one request waited until its time-out
        assert world.log().end_offset == 1
        world.source.release_watermark("t", 0)
        await becomes(lambda: left(world).reached == (10, 10))
        assert at_source(world) == [(each, -1) for each in range(10)]


async def test_another_gateway_goes_on_where_one_stopped(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await here(world)
        await propose(world, ReverseTopics("src", ("t",)))
        for _ in range(3):
            await produced(world)
        await becomes(lambda: world.log().high_watermark == 4)
        for _ in range(3):
            await produced(world, 1)
        await world.gateways[1].drain()
        for _ in range(3):
            await produced(world)
        await becomes(lambda: world.log().high_watermark == 10)
        assert at_source(world) == [(each, -1) for each in range(10)]
        assert left(world).problem == ""


async def test_a_batch_that_arrives_late_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stood still names its log end, and then appends batches of another gateway."""
    async with mirroring() as world:
        await here(world)
        real = PartitionReverse._end

        async def end_of(self: PartitionReverse) -> int:
            found = await real(self)
            if self.index == 0 and not late:
                late.append(1)
                own = await self._batch_at(1)
                world.write_raw(bytes(sendable(own, read_header(own, 0), 1)))
            return found

        late = list[int]()
        monkeypatch.setattr(PartitionReverse, "_end", end_of)
        assert await produced(world) == (E.NONE, 1)
        await propose(world, ReverseTopics("src", ("t",)))
        assert await produced(world) == (E.NONE, 2)
        await becomes(lambda: left(world).reached == (3, 0))
        assert late
        assert at_source(world) == [(0, -1), (1, -1), (2, -1)]


async def test_the_fence_of_a_return_is_lifted_while_the_source_is_away(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        again = SetLink(
            "src", world.source.cluster_id, "nowhere:1", ("t",), replaces=True, forwards=True
        )
        assert await propose(world, again) is None
        await produced(world)
        await fenced(world)
        with trio.fail_after(6):
            await becomes(lambda: not switches(world).fences)
        assert not is_back(world)
        assert await produced(world) == (E.NONE, 2)


async def test_a_client_that_never_stops_at_the_source_is_told(
    autojump_clock: MockClock,
) -> None:
    """The source's log end keeps moving; its records beyond this cluster's end are foreign."""
    async with mirroring() as world, trio.open_nursery() as nursery:
        await here(world)

        async def write() -> None:
            while True:
                world.write(1)
                await trio.sleep(0.5)

        await propose(world, ReverseTopics("src", ("t",)))
        nursery.start_soon(write)
        with trio.fail_after(10):
            await becomes(lambda: left(world).problem)
        assert "the source has a record at offset 1 that is not here" in left(world).problem
        nursery.cancel_scope.cancel()


def switches_of(world: World) -> Switched:
    [found] = switches(world).switched.values()
    return found


async def test_another_topic_of_the_name_gets_nothing(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world, at_source=0)
        assert await produced(world) == (E.NONE, 0)
        world.source.delete_topic("t")
        world.source.create_topic("t", 2, replication_factor=2)
        await propose(world, ReverseTopics("src", ("t",)))
        await becomes(lambda: switches_of(world).problem)
        assert "another topic t" in switches_of(world).problem
        assert world.log().end_offset == 0
