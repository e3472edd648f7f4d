"""Quotas of partitions that are created, added and deleted (KIP-599)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.quotas.quota_world import connect_as, set_quota
from tests.worlds.wire_client import WireClient, wire_world
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import metadata as md

NONE, OVER = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def create(
    client: WireClient, *topics: tuple[str, int], version: int = 7, validate_only: bool = False
) -> tuple[list[int], int]:
    """Return the codes by name, in the order asked, and the throttle time."""
    asked = [ct.CreatableTopic(name, count, 1) for name, count in topics]
    request = ct.CreateTopicsRequest(asked, 1_000, validate_only)
    answer = await client.call("CreateTopics", version, request)
    codes = {each.name: each.error_code for each in answer.topics}
    return [codes[name] for name, _ in topics], answer.throttle_time_ms


async def delete(client: WireClient, *names: str, version: int = 5) -> tuple[list[int], int]:
    request = dt.DeleteTopicsRequest(topic_names=list(names), timeout_ms=1_000)
    answer: Any = await client.call("DeleteTopics", version, request)
    codes = {each.name: each.error_code for each in answer.responses}
    return [codes[name] for name in names], answer.throttle_time_ms


async def test_new_versions_refuse_topics_beyond_the_quota(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=1)
        client = connect_as(world, "slow")
        # Eleven tokens: the first two topics leave -9.
        codes, throttle_ms = await create(client, ("a", 10), ("b", 10), ("c", 1))
        assert codes == [NONE, NONE, OVER]
        assert 8_000 < throttle_ms <= 9_000
        begun = trio.current_time()
        assert await create(client, ("c", 1)) == ([NONE], 0)
        assert trio.current_time() - begun >= throttle_ms / 1_000
        codes, throttle_ms = await create(connect_as(world, "free"), ("d", 50))
        assert (codes, throttle_ms) == ([NONE], 0)


async def test_the_smallest_number_is_a_quota_too(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=5e-324)
        client = connect_as(world, "slow")
        codes, throttle_ms = await create(client, ("a", 1), ("b", 1))
        assert codes == [NONE, OVER]
        assert throttle_ms > 10**9


@pytest.mark.parametrize("validate_only", [False, True])
async def test_topics_that_fail_use_nothing_up(
    autojump_clock: MockClock, validate_only: bool
) -> None:
    async with wire_world() as world:
        await world.create_topic("there", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=1)
        client = connect_as(world, "slow")
        codes, throttle_ms = await create(
            client, ("there", 100), ("a", 12), ("b", 1), validate_only=validate_only
        )
        assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS, NONE, OVER]
        assert throttle_ms > 0
        assert ("a" in world.gateway.coordinator.state.topics.by_name) != validate_only


async def test_old_versions_do_it_all_and_throttle(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=1)
        client = connect_as(world, "slow")
        codes, throttle_ms = await create(client, ("a", 10), ("b", 10), version=5)
        assert codes == [NONE, NONE]
        assert 8_000 < throttle_ms <= 9_000
        codes, throttle_ms = await delete(client, "a", "b", version=4)
        assert codes == [NONE, NONE]
        assert 18_000 < throttle_ms <= 20_000


async def test_deleting_and_growing_count_too(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        for name in ("a", "b", "c"):
            await world.create_topic(name, 8)
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=1)
        client = connect_as(world, "slow")
        codes, _ = await delete(client, "a", "b", "c", "unknown")
        assert codes == [NONE, NONE, OVER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        growth = [cp.CreatePartitionsTopic("c", 20, None)]
        request = cp.CreatePartitionsRequest(growth, 1_000)
        answer = await client.call("CreatePartitions", 3, request)
        assert answer.results[0].error_code == NONE
        growth[0].count = 21
        answer = await client.call("CreatePartitions", 3, request)
        assert answer.results[0].error_code == OVER
        answer = await client.call("CreatePartitions", 3, request)
        assert answer.results[0].error_code == NONE  # the request waited until no token was missing
        growth[0].count = 40
        answer = await client.call("CreatePartitions", 2, request)
        assert answer.results[0].error_code == NONE
        assert answer.throttle_time_ms > 0


async def test_topics_that_a_client_creates_by_naming_them_count(
    autojump_clock: MockClock,
) -> None:
    async with wire_world({"num.partitions": "12"}) as world:
        await set_quota(world.connect(), {"client-id": "slow"}, controller_mutation_rate=1)
        client = connect_as(world, "slow")
        request = md.MetadataRequest([md.MetadataRequestTopic(name=name) for name in "ab"], True)
        answer = await client.call("Metadata", 9, request)
        codes = {each.name: each.error_code for each in answer.topics}
        assert codes == {"a": NONE, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert answer.throttle_time_ms > 0
        answer = await client.call("Metadata", 9, request)
        assert not any(each.error_code for each in answer.topics)
