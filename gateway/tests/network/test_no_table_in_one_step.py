"""Requests that list all, and snapshots, walk no table in one step of the event loop.

The lines of Python are counted that the longest step executes, with small tables and with larger
ones: so the test does not depend on how fast the machine is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, produce_request, records_batch, wire_world
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.log.snapshots import encode_state
from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.producers import KeptBatch, ProducerState
from tidegate_protocol.messages import describe_acls as da
from tidegate_protocol.messages import describe_client_quotas as dq
from tidegate_protocol.messages import describe_cluster as dc
from tidegate_protocol.messages import describe_configs as cfg
from tidegate_protocol.messages import describe_groups as dg
from tidegate_protocol.messages import describe_log_dirs as ld
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import describe_topic_partitions as tp
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import describe_user_scram_credentials as ds
from tidegate_protocol.messages import get_telemetry_subscriptions as ts
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_config_resources as lc
from tidegate_protocol.messages import list_groups as lg
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import list_partition_reassignments as lr
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of

pytestmark = pytest.mark.slow

FEW: Final = 3_000
MANY: Final = 9_000
LINES_A_ROW: Final = 1.5
"""A step may copy, sort or filter a table: a line for each row.  What makes answers has more."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
CLIENT_METRICS = 16


class Lines(trio.abc.Instrument):
    """Counts the lines of each step of all tasks but the test's own and those of upkeep."""

    def __init__(self, own: trio.lowlevel.Task) -> None:
        self.most = 0
        self._own = own
        self._count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._count = 0
        if task is not self._own and not task.name.endswith("Upkeep.keep_running"):
            sys.settrace(self._trace)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.settrace(None)
        if self._count > self.most:
            self.most = self._count

    def _trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            self._count += 1
        return self._trace


def fold(state: ClusterState, *events: Any) -> None:
    """Change the state as if the log had said so long ago."""
    for each in events:
        state._folds[type(each)](each)


def fill_topics(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        topic_id = (1 << 100 | number).to_bytes(16, "big")
        configs = {"retention.ms": "1"} if number % 2 else {}
        fold(state, ev.TopicCreated(topic_id, f"topic-{number}", 1, 1, configs))


def fill_records(state: ClusterState, rows: int) -> None:
    topic_id = state.topics.by_name["t"].topic_id
    [number] = state.topics.by_name["t"].partition_numbers
    producers = state.partitions[number].producers
    for each in range(rows):
        kept = (KeptBatch(0, 0, each, -1),)
        producers[(1 << 41) + each] = ProducerState(0, kept, NOW_MS)
    offsets = (gev.CommittedOffset(topic_id, each, 1, -1, "", NOW_MS) for each in range(rows))
    fold(state, gev.OffsetsCommitted("wide", 1, tuple(offsets)))


def fill_names(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        state.groups.begin(f"group-{number}", NOW_MS)
        fold(
            state,
            tev.TransactionalIdInitialised(f"id-{number}", number, 0, -1, -1, 60_000),
            ev.ConfigsSet(CLIENT_METRICS, f"metrics-{number}", {"metrics": "x"}),
        )


def fill_security(state: ClusterState, rows: int) -> None:
    acls = (Acl(2, 3, f"topic-{each}", f"User:u{each}", "*", 3, 3) for each in range(rows))
    fold(state, sev.AclsChanged(tuple(acls), ()))
    for number in range(rows):
        quota = QuotaChange(QuotaEntity(f"u{number}"), "producer_byte_rate", 5.0)
        credential = sev.ScramCredentialSet(f"u{number}", 1, b"s", b"k", b"k", 4096)
        fold(state, sev.ClientQuotasSet((quota,)), credential)


def of_topics() -> Iterator[tuple[str, int, Any]]:
    yield "Metadata", 12, md.MetadataRequest(None)
    yield "DescribeTopicPartitions", 0, tp.DescribeTopicPartitionsRequest([])
    yield "DescribeLogDirs", 4, ld.DescribeLogDirsRequest(None)
    yield "ListPartitionReassignments", 0, lr.ListPartitionReassignmentsRequest(1000, None)
    yield "ListConfigResources", 1, lc.ListConfigResourcesRequest([])
    yield "DescribeCluster", 1, dc.DescribeClusterRequest()
    asked = cfg.DescribeConfigsResource(2, "topic-1", None)
    yield "DescribeConfigs", 4, cfg.DescribeConfigsRequest([asked])


def of_records() -> Iterator[tuple[str, int, Any]]:
    yield "DescribeProducers", 0, dp.DescribeProducersRequest([dp.TopicRequest("t", [0])])
    asked = lo.ListOffsetsTopic("t", [lo.ListOffsetsPartition(0, timestamp=5)])
    yield "ListOffsets", 7, lo.ListOffsetsRequest(topics=[asked])
    yield "Produce", 9, produce_request([("t", 0, records_batch(b"x"))])
    group = of.OffsetFetchRequestGroup("wide", topics=None)
    yield "OffsetFetch", 8, of.OffsetFetchRequest(groups=[group])
    topic = oc.OffsetCommitRequestTopic(
        name="t", partitions=[oc.OffsetCommitRequestPartition(0, 5)]
    )
    yield "OffsetCommit", 8, oc.OffsetCommitRequest("wide", topics=[topic])


def of_names() -> Iterator[tuple[str, int, Any]]:
    yield "ListGroups", 4, lg.ListGroupsRequest()
    yield "DescribeGroups", 5, dg.DescribeGroupsRequest(["group-1"])
    yield "ListTransactions", 2, lt.ListTransactionsRequest()
    yield "ListTransactions", 2, lt.ListTransactionsRequest(transactional_id_pattern="id-9.*")
    yield "DescribeTransactions", 0, dt.DescribeTransactionsRequest(["id-1"])
    yield "InitProducerId", 4, ip.InitProducerIdRequest("id-1", 60_000)
    yield "GetTelemetrySubscriptions", 0, ts.GetTelemetrySubscriptionsRequest()
    yield "ListConfigResources", 1, lc.ListConfigResourcesRequest([CLIENT_METRICS])


def of_security() -> Iterator[tuple[str, int, Any]]:
    every = da.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield "DescribeAcls", 2, every
    yield "DescribeClientQuotas", 1, dq.DescribeClientQuotasRequest([], False)
    yield "DescribeUserScramCredentials", 0, ds.DescribeUserScramCredentialsRequest(None)
    yield "ApiVersions", 2, None


CASES: list[
    tuple[Callable[[ClusterState, int], None], Callable[[], Iterator[tuple[str, int, Any]]]]
] = [
    (fill_topics, of_topics),
    (fill_records, of_records),
    (fill_names, of_names),
    (fill_security, of_security),
]


async def longest_steps(
    fill: Callable[[ClusterState, int], None],
    requests: Callable[[], Iterator[tuple[str, int, Any]]],
    rows: int,
) -> dict[str, int]:
    """Return the lines of the longest step of each request, and of a snapshot."""
    found: dict[str, int] = {}
    async with wire_world(settings=SETTINGS) as world:
        await world.create_topic("t", 1)
        client = world.connect()
        state = world.gateway.coordinator.state
        fill(state, rows)

        async def watched(name: str, work: Callable[[], Any]) -> None:
            lines = Lines(trio.lowlevel.current_task())
            trio.lowlevel.add_instrument(lines)
            try:
                await work()
            finally:
                trio.lowlevel.remove_instrument(lines)
            found[name] = lines.most

        async def snapshot() -> None:
            # A task of its own: the test's is not watched.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(encode_state, state)

        for number, (name, version, request) in enumerate(requests()):
            ask = partial(client.call, name, version, request)
            await watched(f"{number} {name}", ask)
        if fill is not fill_security:  # users, and quotas of them, are few
            await watched("snapshot", snapshot)
    return found


@pytest.mark.parametrize(("fill", "requests"), CASES, ids=["topics", "records", "names", "rights"])
async def test_no_step_grows_with_a_table(
    fill: Callable[[ClusterState, int], None],
    requests: Callable[[], Iterator[tuple[str, int, Any]]],
    autojump_clock: MockClock,
) -> None:
    few = await longest_steps(fill, requests, FEW)
    many = await longest_steps(fill, requests, MANY)
    grown = {name: (few[name], many[name]) for name in many}
    most = LINES_A_ROW * (MANY - FEW)
    assert {name: each for name, each in grown.items() if each[1] - each[0] > most} == {}
