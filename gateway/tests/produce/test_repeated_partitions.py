"""A request that names a partition several times, as no client library does."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.wire_client import produce_request, records_batch, wire_world


@pytest.mark.parametrize("others", [0, 3])
async def test_the_last_batch_of_a_partition_counts(others: int, autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 2)
        await world.create_topic("u", 3)
        client = world.connect()
        named = [("t", 0, records_batch(value)) for value in (b"first", b"second", b"last")]
        plain = [("u", index, records_batch(b"plain")) for index in range(others)]
        request = produce_request([*named, ("t", 1, records_batch(b"one")), *plain])
        answer = await client.call("Produce", 9, request)
        found = [
            (topic.name, each.index, each.error_code, each.base_offset)
            for topic in answer.responses
            for each in topic.partition_responses
        ]
        plain_answers = [("u", index, 0, 0) for index in range(others)]
        assert sorted(found) == [("t", 0, 0, 0), ("t", 1, 0, 0), *plain_answers]
        assert await client.fetch_values("t", 0, 0) == [b"last"]


async def test_a_request_of_thousands_for_one_partition_leaves_one_batch(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client, batch = world.connect(), records_batch(b"x")
        answer = await client.call("Produce", 9, produce_request([("t", 0, batch)] * 4_900))
        assert sum(len(topic.partition_responses) for topic in answer.responses) == 1
        assert await client.fetch_values("t", 0, 0) == [b"x"]
