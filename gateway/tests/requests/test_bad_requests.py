"""Well-formed requests for missing or forbidden things get Kafka's error codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.requests.bad_rows import (
    Answered,
    alter_row,
    code_of,
    commit_row,
    config,
    create_row,
    delete_records_row,
    fetch,
    fetch_row,
    first,
    grow_row,
    join_request,
    join_row,
    list_row,
    metadata_row,
)
from tests.worlds.cluster.neighbour import TOPIC, neighboured
from tests.worlds.wire_client import WireClient
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import offset_for_leader_epoch as oe
from tidegate_protocol.messages import sync_group as sy

TWICE = ct.CreateTopicsRequest([ct.CreatableTopic("twice", 1, 1)] * 2, 1000)
HUGE = 2**31 - 1

ROWS: dict[str, Answered] = {
    # -- fetch and list offsets -----------------------------------------------------------------
    "fetch behind the end": fetch_row(E.OFFSET_OUT_OF_RANGE, offset=99),
    "fetch at a negative offset": fetch_row(E.OFFSET_OUT_OF_RANGE, offset=-1),
    "fetch at the largest offset": fetch_row(E.OFFSET_OUT_OF_RANGE, offset=2**63 - 1),
    "fetch of an unknown topic": fetch_row(E.UNKNOWN_TOPIC_OR_PARTITION, topic="nowhere"),
    "fetch of an unknown partition": fetch_row(E.UNKNOWN_TOPIC_OR_PARTITION, partition=2),
    "fetch of a negative partition": fetch_row(E.UNKNOWN_TOPIC_OR_PARTITION, partition=-1),
    "fetch with an epoch of the future": fetch_row(E.UNKNOWN_LEADER_EPOCH, epoch=99),
    "fetch of an unknown id": Answered(
        "Fetch",
        13,
        fe.FetchRequest(
            topics=[fe.FetchTopic(topic_id=b"\1" * 16, partitions=[fe.FetchPartition(0)])]
        ),
        E.UNKNOWN_TOPIC_ID,
        first("responses", "partitions"),
    ),
    "unknown fetch session": Answered(
        "Fetch",
        12,
        fe.FetchRequest(session_id=12345, session_epoch=1),
        E.FETCH_SESSION_ID_NOT_FOUND,
        code_of,
    ),
    "offsets of an unknown topic": list_row(E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere", 0),
    "offsets of an unknown partition": list_row(E.UNKNOWN_TOPIC_OR_PARTITION, TOPIC, 9),
    "offsets with an epoch of the future": list_row(E.UNKNOWN_LEADER_EPOCH, TOPIC, 0, epoch=99),
    "epoch of an unknown partition": Answered(
        "OffsetForLeaderEpoch",
        4,
        oe.OffsetForLeaderEpochRequest(
            -1, [oe.OffsetForLeaderTopic("nowhere", [oe.OffsetForLeaderPartition(0)])]
        ),
        E.UNKNOWN_TOPIC_OR_PARTITION,
        first("topics", "partitions"),
    ),
    # -- topics -----------------------------------------------------------------------------------
    "metadata of an unknown topic": metadata_row(E.UNKNOWN_TOPIC_OR_PARTITION, name="nowhere"),
    "metadata of a bad name": metadata_row(E.INVALID_TOPIC_EXCEPTION, name="a/b"),
    "metadata of an unknown id": metadata_row(E.UNKNOWN_TOPIC_ID, name=None, topic_id=b"\1" * 16),
    "topic without a name": create_row(E.INVALID_TOPIC_EXCEPTION, ""),
    "topic called dot": create_row(E.INVALID_TOPIC_EXCEPTION, "."),
    "topic called dots": create_row(E.INVALID_TOPIC_EXCEPTION, ".."),
    "topic with a slash": create_row(E.INVALID_TOPIC_EXCEPTION, "a/b"),
    "topic with a space": create_row(E.INVALID_TOPIC_EXCEPTION, "a b"),
    "topic with a zero byte": create_row(E.INVALID_TOPIC_EXCEPTION, "a\0b"),
    "topic with an umlaut": create_row(E.INVALID_TOPIC_EXCEPTION, "tür"),
    "topic name too long": create_row(E.INVALID_TOPIC_EXCEPTION, "a" * 250),
    "topic that exists": create_row(E.TOPIC_ALREADY_EXISTS, TOPIC),
    "topic twice": Answered("CreateTopics", 7, TWICE, E.INVALID_REQUEST, first("topics")),
    "no partitions": create_row(E.INVALID_PARTITIONS, "t", 0),
    "partitions below -1": create_row(E.INVALID_PARTITIONS, "t", -2),
    "no replicas": create_row(E.INVALID_REPLICATION_FACTOR, "t", 1, 0),
    "replicas below -1": create_row(E.INVALID_REPLICATION_FACTOR, "t", 1, -2),
    "unknown config": create_row(E.INVALID_CONFIG, "t", configs=config("no.such", "1")),
    "config that is no number": create_row(
        E.INVALID_CONFIG, "t", configs=config("retention.ms", "soon")
    ),
    "config out of range": create_row(
        E.INVALID_CONFIG, "t", configs=config("max.message.bytes", "-1")
    ),
    "config of an unknown choice": create_row(
        E.INVALID_CONFIG, "t", configs=config("cleanup.policy", "burn")
    ),
    "assignment with a gap": create_row(
        E.INVALID_REPLICA_ASSIGNMENT,
        "t",
        -1,
        -1,
        assignments=[ct.CreatableReplicaAssignment(1, [1])],
    ),
    "delete of an unknown topic": Answered(
        "DeleteTopics",
        6,
        dt.DeleteTopicsRequest([dt.DeleteTopicState("nowhere")], timeout_ms=1000),
        E.UNKNOWN_TOPIC_OR_PARTITION,
        first("responses"),
    ),
    "delete of an unknown id": Answered(
        "DeleteTopics",
        6,
        dt.DeleteTopicsRequest([dt.DeleteTopicState(None, b"\1" * 16)], timeout_ms=1000),
        E.UNKNOWN_TOPIC_ID,
        first("responses"),
    ),
    "as many partitions as before": grow_row(E.INVALID_PARTITIONS, TOPIC, 2),
    "fewer partitions": grow_row(E.INVALID_PARTITIONS, TOPIC, 1),
    "partitions of an unknown topic": grow_row(E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere", 3),
    "records deleted past the end": delete_records_row(E.OFFSET_OUT_OF_RANGE, TOPIC, 0, 99),
    "records deleted at -2": delete_records_row(E.OFFSET_OUT_OF_RANGE, TOPIC, 0, -2),
    "records of an unknown topic": delete_records_row(
        E.UNKNOWN_TOPIC_OR_PARTITION, "nowhere", 0, 0
    ),
    # -- configs ----------------------------------------------------------------------------------
    "alter an unknown config": alter_row(E.INVALID_CONFIG, 2, TOPIC, "no.such", "1"),
    "alter to no number": alter_row(E.INVALID_CONFIG, 2, TOPIC, "retention.ms", "soon"),
    "alter an unknown topic": alter_row(
        E.UNKNOWN_TOPIC_OR_PARTITION, 2, "nowhere", "retention.ms", "1000"
    ),
    "alter an unknown kind": alter_row(E.INVALID_REQUEST, 77, TOPIC, "retention.ms", "1000"),
    "replace by an unknown config": Answered(
        "AlterConfigs",
        2,
        ac.AlterConfigsRequest(
            [ac.AlterConfigsResource(2, TOPIC, [ac.AlterableConfig("no.such", "1")])]
        ),
        E.INVALID_CONFIG,
        first("responses"),
    ),
    "describe an unknown topic": Answered(
        "DescribeConfigs",
        4,
        dc.DescribeConfigsRequest([dc.DescribeConfigsResource(2, "nowhere", None)]),
        E.UNKNOWN_TOPIC_OR_PARTITION,
        first("results"),
    ),
    # -- groups -----------------------------------------------------------------------------------
    "join without a group id": join_row(E.INVALID_GROUP_ID, group_id=""),
    "session too short": join_row(E.INVALID_SESSION_TIMEOUT, session_timeout_ms=1),
    "session too long": join_row(E.INVALID_SESSION_TIMEOUT, session_timeout_ms=HUGE),
    "negative session": join_row(E.INVALID_SESSION_TIMEOUT, session_timeout_ms=-1),
    "join without protocols": join_row(E.INCONSISTENT_GROUP_PROTOCOL, protocols=[]),
    "join as an unknown member": join_row(E.UNKNOWN_MEMBER_ID, member_id="nobody"),
    "heartbeat of an unknown member": Answered(
        "Heartbeat", 4, hb.HeartbeatRequest("g", 1, "nobody"), E.UNKNOWN_MEMBER_ID, code_of
    ),
    "sync of an unknown member": Answered(
        "SyncGroup", 4, sy.SyncGroupRequest("g", 1, "nobody"), E.UNKNOWN_MEMBER_ID, code_of
    ),
    "sync without a protocol": Answered(
        "SyncGroup", 5, sy.SyncGroupRequest("g", 1, "m"), E.INCONSISTENT_GROUP_PROTOCOL, code_of
    ),
    "leave of an unknown member": Answered(
        "LeaveGroup",
        5,
        lv.LeaveGroupRequest("g", members=[lv.MemberIdentity("nobody")]),
        E.UNKNOWN_MEMBER_ID,
        first("members"),
    ),
    "commit for an unknown topic": commit_row(E.UNKNOWN_TOPIC_OR_PARTITION, topic="nowhere"),
    "commit for an unknown partition": commit_row(E.UNKNOWN_TOPIC_OR_PARTITION, partition=9),
    "commit in an unknown generation": commit_row(E.ILLEGAL_GENERATION, generation=7, member="m"),
    "delete an unknown group": Answered(
        "DeleteGroups",
        2,
        dg.DeleteGroupsRequest(["nobody"]),
        E.GROUP_ID_NOT_FOUND,
        first("results"),
    ),
    "coordinator of an unknown kind": Answered(
        "FindCoordinator",
        4,
        fc.FindCoordinatorRequest(key_type=9, coordinator_keys=["g"]),
        E.INVALID_REQUEST,
        first("coordinators"),
    ),
    # -- transactions -----------------------------------------------------------------------------
    "producer id with too long a time-out": Answered(
        "InitProducerId",
        5,
        ip.InitProducerIdRequest("t", 900_001),
        E.INVALID_TRANSACTION_TIMEOUT,
        code_of,
    ),
    "producer id without time for a transaction": Answered(
        "InitProducerId",
        5,
        ip.InitProducerIdRequest("t", 0),
        E.INVALID_TRANSACTION_TIMEOUT,
        code_of,
    ),
    "producer id that goes on without an epoch": Answered(
        "InitProducerId",
        5,
        ip.InitProducerIdRequest("t", 60_000, 1, -1),
        E.INVALID_REQUEST,
        code_of,
    ),
    "producer id with an empty transactional id": Answered(
        "InitProducerId", 5, ip.InitProducerIdRequest("", 60_000), E.INVALID_REQUEST, code_of
    ),
}


@pytest.mark.parametrize("name", ROWS)
async def test_code(name: str, autojump_clock: MockClock) -> None:
    row = ROWS[name]
    async with neighboured() as scene:
        answer = await scene.offender.call(row.name, row.version, row.request)
        assert row.of(answer) == row.code, answer
        again = await scene.offender.call(row.name, row.version, row.request)
        assert row.of(again) == row.code, again
        assert scene.reasons == []


@pytest.mark.parametrize(
    "row",
    [create_row(E.INVALID_PARTITIONS, "t", HUGE), grow_row(E.INVALID_PARTITIONS, TOPIC, HUGE)],
)
async def test_two_billion_partitions(row: Answered, autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        answer = await scene.offender.call(row.name, row.version, row.request)
        assert row.of(answer) != E.NONE, answer


async def test_names_that_differ_in_dot_and_underscore(autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        await scene.world.create_topic("a.b", 1)
        row = create_row(E.INVALID_TOPIC_EXCEPTION, "a_b")
        answer = await scene.offender.call(row.name, row.version, row.request)
        assert row.of(answer) == row.code


async def test_fetch_session_in_the_wrong_epoch(autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        opening = fetch()
        opening.session_epoch = 0
        opened = await scene.offender.call("Fetch", 12, opening)
        assert opened.session_id
        wrong = fe.FetchRequest(session_id=opened.session_id, session_epoch=7)
        answer = await scene.offender.call("Fetch", 12, wrong)
        assert answer.error_code == E.INVALID_FETCH_SESSION_EPOCH


async def test_member_that_vanishes(autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        lost = await join(scene.offender, "lost")
        await sync(scene.offender, lost, [lost.member_id])
        scene.offender.transport.reset()
        left = scene.connect()
        started = trio.current_time()
        joined = await join(left, "left")
        assert trio.current_time() - started <= 6 + 1
        assert joined.generation_id > lost.generation_id
        assert [each.member_id for each in joined.members] == [joined.member_id]
        await sync(left, joined, [joined.member_id])
        beat = hb.HeartbeatRequest("g", lost.generation_id, lost.member_id)
        assert (await left.call("Heartbeat", 4, beat)).error_code == E.UNKNOWN_MEMBER_ID
        row = commit_row(E.UNKNOWN_MEMBER_ID, generation=lost.generation_id, member=lost.member_id)
        assert row.of(await left.call(row.name, row.version, row.request)) == row.code


async def join(client: WireClient, name: str) -> Any:
    """Join group "g"; the first answer only gives the member its id (KIP-394)."""
    told = await client.call("JoinGroup", 9, join_request())
    assert told.error_code == E.MEMBER_ID_REQUIRED
    joined = await client.call("JoinGroup", 9, join_request(member_id=told.member_id))
    assert joined.error_code == E.NONE, name
    return joined


async def sync(client: WireClient, joined: Any, members: Sequence[str]) -> None:
    shares = [sy.SyncGroupRequestAssignment(each, b"share") for each in members]
    request = sy.SyncGroupRequest(
        "g", joined.generation_id, joined.member_id, None, "consumer", "range", shares
    )
    assert (await client.call("SyncGroup", 5, request)).error_code == E.NONE
