"""Security holes of APIs that demanded no right, or the wrong one."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

from tests.security.known_holes.hole import Hole, Plant
from tests.security.known_holes.of_rights import SETTINGS, allow, topic_acl
from tests.worlds.wire_client import wire_world
from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.groups import feature as groups
from tidegate_gateway.requests.transactions import feature as transactions
from tidegate_gateway.security.guard import open_to_all
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import describe_groups as dg
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import txn_offset_commit as tc

GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def all_may(feature: ModuleType, api: str) -> Plant:
    """Return the plant that lets everybody use an API of a feature."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(feature, f"guard_{api}", open_to_all)

    plant.__name__ = f"all_may_{api}"
    return plant


async def coordinators_are_found_with_rights() -> None:
    """Ask FindCoordinator for groups and transactional ids, with one key and with several."""
    async with wire_world(SETTINGS) as world:
        client = world.connect()
        for kind, code in ((0, GROUP_DENIED), (1, ID_DENIED)):
            request = fc.FindCoordinatorRequest("x", kind)
            answer = await client.call("FindCoordinator", 3, request)
            assert (answer.error_code, answer.node_id, answer.port) == (code, -1, -1)
            several = fc.FindCoordinatorRequest(key_type=kind, coordinator_keys=["x", "y"])
            rows = (await client.call("FindCoordinator", 4, several)).coordinators
            assert [(each.error_code, each.node_id) for each in rows] == [(code, -1)] * 2


def _partition_code(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


_STEPS: Final[tuple[tuple[str, int, Callable[[], Any], Callable[[Any], int]], ...]] = (
    ("InitProducerId", 4, lambda: ip.InitProducerIdRequest("x", 30_000), lambda a: a.error_code),
    (
        "AddPartitionsToTxn",
        3,
        lambda: ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=5,
            v3_and_below_topics=[ap.AddPartitionsToTxnTopic("t", [0])],
        ),
        _partition_code,
    ),
    (
        "AddOffsetsToTxn",
        3,
        lambda: ao.AddOffsetsToTxnRequest("x", 5, 0, "g"),
        lambda answer: answer.error_code,
    ),
    ("EndTxn", 3, lambda: et.EndTxnRequest("x", 5, 0, False), lambda answer: answer.error_code),
    (
        "TxnOffsetCommit",
        3,
        lambda: tc.TxnOffsetCommitRequest(
            "x",
            "g",
            5,
            0,
            topics=[
                tc.TxnOffsetCommitRequestTopic("t", [tc.TxnOffsetCommitRequestPartition(0, 1)])
            ],
        ),
        lambda answer: answer.topics[0].partitions[0].error_code,
    ),
)


async def transactions_need_rights() -> None:
    """Try each step of another client's transaction."""
    async with wire_world(SETTINGS) as world:
        await allow(world, topic_acl(Operation.ALL))
        client = world.connect()
        await world.create_topic("t", 1)
        denied = {
            name: code_of(await client.call(name, version, request()))
            for name, version, request, code_of in _STEPS
        }
        assert denied == dict.fromkeys(denied, ID_DENIED)


async def groups_are_described_with_rights() -> None:
    """A right to the group's topic is no right to see the group's members."""
    async with wire_world(SETTINGS) as world:
        await allow(world, topic_acl(Operation.ALL))
        client = world.connect()
        answer = await client.call("DescribeGroups", 5, dg.DescribeGroupsRequest(["g"], True))
        [group] = answer.groups
        assert (group.error_code, group.members) == (GROUP_DENIED, [])


HOLES: Final = (
    Hole("CVE-2026-41115", groups_are_described_with_rights, (all_may(groups, "describe_groups"),)),
    Hole(
        "Redpanda #5370", coordinators_are_found_with_rights, (all_may(groups, "find_coordinator"),)
    ),
    Hole(
        "Redpanda #14969",
        transactions_need_rights,
        (
            all_may(transactions, "init_producer_id"),
            all_may(transactions, "add_partitions_to_txn"),
            all_may(transactions, "add_offsets_to_txn"),
            all_may(transactions, "end_txn"),
            all_may(transactions, "txn_offset_commit"),
        ),
    ),
)
