"""Fetch sessions (KIP-227): sent and omitted partitions, and sessions that keep their slot."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import World, batch, fetch_world, records_of
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)


def asked(*offsets: tuple[int, int], limit: int = 1000) -> list[FetchTopic]:
    """Return the part of a request for (partition, offset) pairs of topic a."""
    partitions = [FetchPartition(p, fetch_offset=o, partition_max_bytes=limit) for p, o in offsets]
    return [FetchTopic("a", partitions=partitions)] if partitions else []


async def ask(
    world: World, session_id: int, epoch: int, *offsets: tuple[int, int], version: int = 12
) -> FetchResponse:
    request = FetchRequest(
        min_bytes=1, session_id=session_id, session_epoch=epoch, topics=asked(*offsets)
    )
    return await world.ask(request, version)


def got(response: FetchResponse) -> dict[int, list[tuple[int, str]]]:
    """Return the records of an answer, by partition."""
    return {
        data.partition_index: records_of(data)
        for topic in response.responses
        for data in topic.partitions
    }


async def test_a_session_sends_only_changed_partitions() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, batch("0")))
        first = await ask(world, 0, 0, (0, 0), (1, 0))
        session = first.session_id
        nothing = await ask(world, session, 1, (0, 1))
        await world.write(("a", 1, batch("x")))
        news = await ask(world, session, 2)
        again = await ask(world, session, 3)
        done = await ask(world, session, 4, (1, 1))

    assert session > 0
    assert got(first) == {0: [(0, "0")], 1: []}
    assert nothing.session_id == session
    assert got(nothing) == {}
    assert got(news) == {1: [(0, "x")]}
    assert got(again) == {1: [(0, "x")]}  # the session's offset did not change
    assert got(done) == {}


async def test_errors_are_always_sent_and_their_end_too() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        first = await ask(world, 0, 0, (0, 0), (1, 0))
        second = await ask(world, first.session_id, 1)
        await world.delete("a")
        await world.create("a", 2)
        healed = await ask(world, first.session_id, 2)

    codes = [data.error_code for data in second.responses[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    [data] = healed.responses[0].partitions
    assert (data.partition_index, data.error_code) == (1, 0)


async def test_forgotten_partitions_go_and_an_empty_session_ends() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        first = await ask(world, 0, 0, (0, 0), (1, 0))
        await world.write(("a", 0, batch("0")), ("a", 1, batch("0")))
        request = FetchRequest(min_bytes=1, session_id=first.session_id, session_epoch=1)
        request.forgotten_topics_data = [ForgottenTopic("a", partitions=[0])]
        second = await world.ask(request)
        request.session_epoch = 2
        request.forgotten_topics_data = [ForgottenTopic("a", partitions=[1])]
        third = await world.ask(request)

    assert got(second) == {1: [(0, "0")]}
    assert (third.session_id, third.responses) == (0, [])
    assert len(world.sessions) == 0


async def test_wrong_ids_epochs_and_kinds_of_key() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        unknown = await ask(world, 77, 1)
        session = (await ask(world, 0, 0, (0, 0))).session_id
        skipped = await ask(world, session, 2)
        by_id = await ask(world, session, 1, version=13)
        fine = await ask(world, session, 1)
        repeated = await ask(world, session, 1)
        closed = await ask(world, session, -1, (0, 0))
        gone = await ask(world, session, 2)

    codes = [each.error_code for each in (unknown, skipped, by_id, fine, repeated, closed, gone)]
    assert codes == [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.NONE,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.NONE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ]
    assert closed.session_id == 0


async def test_a_full_fetch_replaces_the_session() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        first = await ask(world, 0, 0, (0, 0))
        second = await ask(world, first.session_id, 0, (0, 0))
        assert len(world.sessions) == 1

    assert second.session_id not in (0, first.session_id)


async def test_epochs_wrap_to_one() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        session = (await ask(world, 0, 0, (0, 0))).session_id
        world.sessions._sessions[session].epoch = 2**31 - 1
        last = await ask(world, session, 2**31 - 1)
        wrapped = await ask(world, session, 1)

    assert (last.error_code, wrapped.error_code) == (0, 0)


async def test_at_the_bound_only_an_idle_session_makes_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        first = (await ask(world, 0, 0, (0, 0))).session_id
        second = (await ask(world, 0, 0, (0, 0))).session_id
        await trio.sleep(60)
        refused = await ask(world, 0, 0, (0, 0))
        await ask(world, first, 1)
        await trio.sleep(61)
        third = (await ask(world, 0, 0, (0, 0))).session_id
        kept = await ask(world, first, 2)
        evicted = await ask(world, second, 1)

    assert (refused.error_code, refused.session_id) == (0, 0)
    assert third > 0
    assert kept.error_code == 0
    assert evicted.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_in_use_keeps_its_slot(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        sessions = [(await ask(world, 0, 0, (0, 0))).session_id for _ in range(2)]
        await trio.sleep(100)
        for session in sessions:
            await ask(world, session, 1)
        await trio.sleep(100)
        refused = await ask(world, 0, 0, (0, 0))

    assert refused.session_id == 0


async def test_a_partition_that_got_records_goes_to_the_end_of_its_session() -> None:
    big = "x" * 1000
    async with fetch_world() as [world]:
        await world.create("a", 3)
        session = (await ask(world, 0, 0, (0, 0), (1, 0), (2, 0))).session_id
        await world.write(*[("a", p, batch(big)) for p in (0, 1, 2)])
        served = []
        for epoch in (1, 2, 3, 4):
            request = FetchRequest(
                min_bytes=1, max_bytes=10, session_id=session, session_epoch=epoch
            )
            response = await world.ask(request)
            served.append([p for p, records in got(response).items() if records])

    assert served == [[0], [1], [2], [0]]


async def test_a_second_use_while_the_first_waits_ends_the_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers: list[FetchResponse] = []
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("a")
        session = (await ask(world, 0, 0, (0, 0))).session_id

        async def slow() -> None:
            request = FetchRequest(
                max_wait_ms=1000, min_bytes=1, session_id=session, session_epoch=1
            )
            answers.append(await world.ask(request))

        nursery.start_soon(slow)
        await trio.testing.wait_all_tasks_blocked()
        second = await ask(world, session, 2)

    assert second.error_code == 0
    assert answers[0].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("version", [13, 18])
async def test_sessions_by_topic_id(version: int) -> None:
    async with fetch_world() as [world]:
        topic_id = await world.create("a")
        request = FetchRequest(min_bytes=1, session_epoch=0)
        request.topics = [FetchTopic(topic_id=topic_id, partitions=asked((0, 0))[0].partitions)]
        first = await world.ask(request, version)
        await world.write(("a", 0, batch("0")))
        second = await ask(world, first.session_id, 1, version=version)

    assert got(second) == {0: [(0, "0")]}
    assert second.responses[0].topic_id == topic_id
