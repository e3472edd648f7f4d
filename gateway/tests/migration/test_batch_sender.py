"""Batches of many partitions share requests to their leader, and none overtakes another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.wire_client import records_batch
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, Disconnected
from tidegate_gateway.migration.back.batch_sender import (
    HELD_BYTES,
    LANES,
    PATIENCE_SECONDS,
    BatchSender,
    Line,
)
from tidegate_gateway.migration.back.produce_round import Outgoing, answers, produce_request
from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import produce as pr

LEADER = 1


class Wrong(Exception):
    """An answer that its partition refuses."""


class Connection:
    """A connection to a broker that answers when the test says so."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._closed = trio.Event()

    async def call(self, _name: str, request: Callable[[int], Any], **_: Any) -> pr.ProduceResponse:
        sent = Request(request(9))
        self._broker.requests.append(sent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lose, nursery.cancel_scope)
            await sent.is_answered.wait()
            nursery.cancel_scope.cancel()
        if self._closed.is_set():
            raise Disconnected("closed")
        return sent.answer

    async def _lose(self, scope: trio.CancelScope) -> None:
        await self._closed.wait()
        scope.cancel()

    def close(self) -> None:
        self._closed.set()


class Request:
    """A request that the broker has received."""

    def __init__(self, request: pr.ProduceRequest) -> None:
        self.is_answered = trio.Event()
        self.answer = pr.ProduceResponse()
        self.places = [
            (topic.name, each.index)
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        self.topics = [topic.name for topic in request.topic_data]

    def accept(self, codes: dict[tuple[str, int], int] | None = None) -> None:
        """Answer the request.  codes: the errors of some partitions."""
        for topic in dict(self.places):
            parts = [
                pr.PartitionProduceResponse(index, (codes or {}).get((name, index), 0))
                for name, index in self.places
                if name == topic
            ]
            self.answer.responses.append(pr.TopicProduceResponse(topic, partition_responses=parts))
        self.is_answered.set()


class Broker:
    """The source: one broker."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.lanes: dict[str, Connection] = {}
        self.is_away = False

    @property
    def only_lane(self) -> Connection:
        """The only connection that was opened."""
        [found] = self.lanes.values()
        return found

    async def connection(self, node_id: int, name: str) -> Connection:
        await trio.lowlevel.checkpoint()
        assert node_id == LEADER
        if self.is_away:
            raise BrokerUnreachable("away")
        return self.lanes.setdefault(name, Connection(self))


class Partition:
    """A partition whose batches are sent."""

    def __init__(self, sender: BatchSender, topic: str, index: int) -> None:
        self.taken: list[int] = []
        self.line = Line(self._take)
        self._sender = sender
        self._place = (topic, index)

    def _take(self, batch: Outgoing, answer: pr.PartitionProduceResponse | None) -> None:
        if answer is None or answer.error_code:
            raise Wrong(answer and answer.error_code)
        self.taken.append(len(batch.records))

    async def put(self, size_bytes: int = 100) -> None:
        await self._sender.leader(LEADER).room.take(size_bytes)
        header = read_header(records_batch(b"v"), 0)
        topic, index = self._place
        records = memoryview(bytes(size_bytes))
        self._sender.put(self.line, Outgoing(LEADER, topic, bytes(16), index, records, header))


class World:
    def __init__(self) -> None:
        self.broker = Broker()
        self.may_write = True
        cluster = cast("ClassicCluster", self.broker)
        self.sender = BatchSender(cluster, lambda: self.may_write)

    def partitions(self, count: int, topic: str = "t") -> list[Partition]:
        return [Partition(self.sender, topic, index) for index in range(count)]

    @property
    def held_bytes(self) -> int:
        return self.sender.leader(LEADER).room.used_bytes

    async def requests(self) -> list[Request]:
        """Return the requests without an answer, once all tasks are blocked."""
        await wait_all_tasks_blocked()
        return [each for each in self.broker.requests if not each.is_answered.is_set()]


@asynccontextmanager
async def sending() -> AsyncIterator[World]:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.sender.run)
        yield world
        nursery.cancel_scope.cancel()


async def test_one_request_has_the_batches_of_all_partitions(autojump_clock: MockClock) -> None:
    async with sending() as world:
        every = [*world.partitions(3), *world.partitions(2, "u"), *world.partitions(1, "t2")]
        for each in every:
            await each.put()
        [request] = await world.requests()
        assert sorted(request.places) == [
            *(("t", 0), ("t", 1), ("t", 2)),
            *(("t2", 0), ("u", 0), ("u", 1)),
        ]
        assert sorted(request.topics) == ["t", "t2", "u"]
        request.accept()
        for each in every:
            await each.line.until(0)
            assert each.taken == [100]
        assert world.held_bytes == 0


async def test_the_next_batch_waits_for_the_answer(autojump_clock: MockClock) -> None:
    async with sending() as world:
        [one] = world.partitions(1)
        for size_bytes in (101, 102, 103):
            await one.put(size_bytes)
        for left in (2, 1, 0):
            await trio.sleep(1)
            [request] = await world.requests()
            request.accept()
            await one.line.until(left)
        assert one.taken == [101, 102, 103]


async def test_a_refused_partition_sends_nothing_more_and_stops_no_other(
    autojump_clock: MockClock,
) -> None:
    async with sending() as world:
        one, other = world.partitions(2)
        for each in (one, other, one, other):
            await each.put()
        [request] = await world.requests()
        request.accept({("t", 0): E.NOT_ENOUGH_REPLICAS})
        [request] = await world.requests()
        assert request.places == [("t", 1)]
        with pytest.raises(Wrong):
            await one.line.until(0)
        request.accept()
        await other.line.until(0)
        await one.put()
        assert await world.requests() == []
        world.sender.close(one.line)
        assert world.held_bytes == 0


async def test_a_slow_request_does_not_hold_up_other_partitions(
    autojump_clock: MockClock,
) -> None:
    async with sending() as world:
        slow, *others = world.partitions(3)
        await slow.put()
        await world.requests()
        begun = trio.current_time()
        for each in others:
            await each.put()
        assert len(await world.requests()) == 1
        await trio.sleep(PATIENCE_SECONDS)
        [_, request] = await world.requests()
        assert trio.current_time() - begun == pytest.approx(PATIENCE_SECONDS)
        assert request.places == [("t", 1), ("t", 2)]
        for _ in range(5):
            request.accept()
            for each in others:
                await each.line.until(0)
                await each.put()
            await trio.sleep(PATIENCE_SECONDS)
            [_, request] = await world.requests()


async def test_large_batches_go_in_requests_of_their_own(autojump_clock: MockClock) -> None:
    async with sending() as world:
        every = world.partitions(LANES + 2)
        for each in every:
            await each.put(900_000)
        requests = await world.requests()
        assert [len(each.places) for each in requests] == [1] * LANES
        requests[0].accept()
        await every[0].line.until(0)
        assert len(await world.requests()) == LANES


async def test_one_batch_larger_than_all_bounds_is_sent(autojump_clock: MockClock) -> None:
    async with sending() as world:
        [one] = world.partitions(1)
        await one.put(HELD_BYTES + 1)
        [request] = await world.requests()
        request.accept()
        await one.line.until(0)
        assert world.held_bytes == 0


async def test_nothing_is_sent_without_a_lease(autojump_clock: MockClock) -> None:
    async with sending() as world:
        every = world.partitions(2)
        world.may_write = False
        for each in every:
            await each.put()
        for each in every:
            with pytest.raises(BrokerUnreachable, match="lease"):
                await each.line.until(0)
        assert world.broker.requests == []
        assert world.held_bytes == 0


async def test_the_lease_is_looked_at_when_the_request_is_made(autojump_clock: MockClock) -> None:
    async with sending() as world:
        one, other = world.partitions(2)
        await one.put()
        [request] = await world.requests()
        await other.put()
        world.may_write = False
        request.accept()
        await one.line.until(0)
        with pytest.raises(BrokerUnreachable, match="lease"):
            await other.line.until(0)
        assert len(world.broker.requests) == 1


async def test_a_lost_connection_leaves_all_of_its_batches_unknown(
    autojump_clock: MockClock,
) -> None:
    async with sending() as world:
        every = world.partitions(3)
        for each in (*every, *every):
            await each.put()
        await world.requests()
        world.broker.only_lane.close()
        for each in every:
            with pytest.raises(Disconnected):
                await each.line.until(0)
            world.sender.close(each.line)
        assert len(world.broker.requests) == 1
        assert world.held_bytes == 0


async def test_a_broker_that_is_away_fails_what_waits_for_it(autojump_clock: MockClock) -> None:
    async with sending() as world:
        every = world.partitions(2)
        world.broker.is_away = True
        for each in every:
            await each.put()
        for each in every:
            with pytest.raises(BrokerUnreachable, match="away"):
                await each.line.until(0)
        world.broker.is_away = False
        [fresh] = world.partitions(1)
        await fresh.put()
        [request] = await world.requests()
        request.accept()
        await fresh.line.until(0)
        assert world.held_bytes == 0


async def test_a_closed_line_sends_nothing_more_of_what_is_under_way(
    autojump_clock: MockClock,
) -> None:
    async with sending() as world:
        one, other = world.partitions(2)
        for _ in range(2):
            await one.put()
        await world.requests()
        await other.put()
        world.sender.close(one.line)
        world.sender.close(other.line)
        await wait_all_tasks_blocked()
        assert world.broker.only_lane._closed.is_set()
        assert [each.places for each in world.broker.requests] == [[("t", 0)]]
        assert world.held_bytes == 0


async def test_its_end_leaves_no_batch_held(autojump_clock: MockClock) -> None:
    world = World()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.sender.run)
        [one] = world.partitions(1)
        for _ in range(2):
            await one.put()
        await world.requests()
        nursery.cancel_scope.cancel()
    world.sender.close(one.line)
    assert world.broker.only_lane._closed.is_set()
    assert world.held_bytes == 0


def outgoing(topic: str, topic_id: bytes, index: int) -> Outgoing:
    records = records_batch(b"v")
    return Outgoing(1, topic, topic_id, index, memoryview(records), read_header(records, 0))


@pytest.mark.parametrize("has_names", [True, False])
def test_answers_are_found_in_any_order(has_names: bool) -> None:
    a, b = b"a" * 16, b"b" * 16
    batches = [outgoing("a", a, 0), outgoing("b", b, 0), outgoing("a", a, 1), outgoing("b", b, 7)]
    request = produce_request(batches)
    assert [each.name for each in request.topic_data] == ["a", "b"]
    names = {a: "a", b: "b"} if has_names else {a: "", b: ""}
    parts = [(b, [(0, 2)]), (a, [(1, 3), (0, 1)])]
    response = pr.ProduceResponse(
        [
            pr.TopicProduceResponse(
                names[topic_id],
                bytes(16) if has_names else topic_id,
                [pr.PartitionProduceResponse(index, base_offset=offset) for index, offset in rows],
            )
            for topic_id, rows in parts
        ]
    )
    found = [each and each.base_offset for each in answers(batches, response)]
    assert found == [1, 2, 3, None]
