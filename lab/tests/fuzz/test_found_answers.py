"""Answers that the gateway could not write to requests that it could read; found by fuzzing."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.wire_client import wire_world
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import describe_groups as dg
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.primitives import MAX_TEXT_BYTES

LONGEST = "x" * MAX_TEXT_BYTES
BROKER = 4


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_refusal_that_quotes_the_longest_name(
    version: int, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        resource = dc.DescribeConfigsResource(BROKER, LONGEST, None)
        answer = await world.connect().call(
            "DescribeConfigs", version, dc.DescribeConfigsRequest([resource])
        )
    [result] = answer.results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.resource_name == LONGEST
    assert "Broker id must be an integer" in result.error_message


async def test_the_longest_instance_id_and_old_clients_that_look_at_its_group(
    autojump_clock: MockClock,
) -> None:
    protocols = [jg.JoinGroupRequestProtocol("range", b"")]
    join = jg.JoinGroupRequest("g", 10_000, 10_000, "", LONGEST, "consumer", protocols)
    async with wire_world() as world:
        joined = await world.connect().call("JoinGroup", 7, join)
        assert joined.error_code == ErrorCode.NONE
        for version in range(7):
            described = await world.connect().call(
                "DescribeGroups", version, dg.DescribeGroupsRequest(["g"])
            )
            [group] = described.groups
            assert group.members[0].member_id == joined.member_id
