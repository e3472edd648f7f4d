"""Cluster states with wide tables, and the requests that might walk a whole table in a step.

The tables are filled without proposals, because 10^6 of them would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tests.worlds.wire_client import NOW_MS, produce_request, records_batch
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.security.acls import Acl
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.producers import KeptBatch, ProducerState
from tidegate_protocol.messages import alter_client_quotas as aq
from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_acls as xa
from tidegate_protocol.messages import delete_groups as xg
from tidegate_protocol.messages import delete_records as xr
from tidegate_protocol.messages import delete_topics as xt
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
from tidegate_protocol.messages import elect_leaders as el
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import get_telemetry_subscriptions as ts
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_config_resources as lc
from tidegate_protocol.messages import list_groups as lg
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import list_partition_reassignments as lr
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import offset_fetch as of

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS: Final = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
CLIENT_METRICS: Final = 16
TOPIC: Final = 2

Request = tuple[str, int, Any]
"""Name, version and message."""


def fold(state: ClusterState, *events: Any) -> None:
    """Fold events into the state as if the log had had them long ago."""
    for each in events:
        state._folds[type(each)][0](each)


def _fill_topics(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        topic_id = (1 << 100 | number).to_bytes(16, "big")
        configs = {"retention.ms": "1"} if number % 2 else {}
        fold(state, ev.TopicCreated(topic_id, f"topic-{number}", 1, 1, configs))


def _fill_partitions(state: ClusterState, rows: int) -> None:
    topic_id = (1 << 101).to_bytes(16, "big")
    fold(state, ev.TopicCreated(topic_id, "wide", rows, 1, {}))


def _fill_records(state: ClusterState, rows: int) -> None:
    [number] = state.topics.by_name["t"].partition_numbers
    producers = state.partitions[number].producers
    for each in range(rows):
        kept = (KeptBatch(0, 0, each, -1),)
        producers[(1 << 41) + each] = ProducerState(0, kept, NOW_MS)


def _fill_offsets(state: ClusterState, rows: int) -> None:
    topic_id = state.topics.by_name["t"].topic_id
    offsets = (gev.CommittedOffset(topic_id, each, 1, -1, "", NOW_MS) for each in range(rows))
    fold(state, gev.OffsetsCommitted("wide", 1, tuple(offsets)))


def _fill_objects(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        name = WalName(1 << 20, number)
        state.objects.fold_committed(name, 10, 0, NOW_MS)  # without a live run


def _fill_groups(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        state.groups.begin(f"group-{number}", NOW_MS)
        fold(state, ev.ClaimTaken(f"group/group-{number}", 1, 1))


def _fill_transactions(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        fold(state, tev.TransactionalIdInitialised(f"id-{number}", number, 0, -1, -1, 60_000))


def _fill_metrics(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        fold(state, ev.ConfigsSet(CLIENT_METRICS, f"metrics-{number}", {"metrics": "x"}))


def _fill_acls(state: ClusterState, rows: int) -> None:
    acls = (Acl(2, 3, f"topic-{each}", f"User:u{each}", "*", 3, 3) for each in range(rows))
    fold(state, sev.AclsChanged(tuple(acls), ()))
    state.acls.changed_at -= 1  # so that the ACLs are no newer than the log


def _fill_users(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        fold(state, sev.ScramCredentialSet(f"u{number}", 1, b"s", b"k", b"k", 4096))


def _fill_quotas(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        quota = QuotaChange(QuotaEntity(f"u{number}"), "producer_byte_rate", 5.0)
        fold(state, sev.ClientQuotasSet((quota,)))


def _fill_tokens(state: ClusterState, rows: int) -> None:
    for number in range(rows):
        owner = f"User:u{number}"
        times = NOW_MS, NOW_MS + 10**9, NOW_MS + 10**9
        token = DelegationToken(f"token-{number}", owner, owner, (), *times)
        fold(state, sev.DelegationTokenSet(token))


def _of_topics() -> Iterator[Request]:
    yield "Metadata", 12, md.MetadataRequest(None, include_topic_authorized_operations=True)
    yield "DescribeTopicPartitions", 0, tp.DescribeTopicPartitionsRequest([])
    yield "DescribeLogDirs", 4, ld.DescribeLogDirsRequest(None)
    yield "ElectLeaders", 2, el.ElectLeadersRequest(0, None)
    yield "ListPartitionReassignments", 0, lr.ListPartitionReassignmentsRequest(1000, None)
    yield "ListConfigResources", 1, lc.ListConfigResourcesRequest([])
    yield "DescribeCluster", 1, dc.DescribeClusterRequest()
    asked = [cfg.DescribeConfigsResource(TOPIC, f"topic-{each}", None) for each in range(300)]
    yield "DescribeConfigs", 4, cfg.DescribeConfigsRequest(asked)
    new = ct.CreatableTopic("new", 1, 1)
    yield "CreateTopics", 7, ct.CreateTopicsRequest([new], 1000)
    yield "CreatePartitions", 3, cp.CreatePartitionsRequest([cp.CreatePartitionsTopic("new", 2)])
    change = ia.AlterableConfig("retention.ms", 0, "5")
    altered = ia.AlterConfigsResource(TOPIC, "new", [change])
    yield "IncrementalAlterConfigs", 1, ia.IncrementalAlterConfigsRequest([altered])
    yield "DeleteTopics", 6, xt.DeleteTopicsRequest([xt.DeleteTopicState("new")])


def _of_partitions() -> Iterator[Request]:
    yield "Metadata", 12, md.MetadataRequest(None)
    yield "DescribeTopicPartitions", 0, tp.DescribeTopicPartitionsRequest([])
    yield "DescribeLogDirs", 4, ld.DescribeLogDirsRequest(None)
    yield "ElectLeaders", 2, el.ElectLeadersRequest(0, None)
    asked = cfg.DescribeConfigsResource(TOPIC, "wide", None)
    yield "DescribeConfigs", 4, cfg.DescribeConfigsRequest([asked])


def _of_records() -> Iterator[Request]:
    yield "DescribeProducers", 0, dp.DescribeProducersRequest([dp.TopicRequest("t", [0])])
    asked = lo.ListOffsetsTopic("t", [lo.ListOffsetsPartition(0, timestamp=5)])
    yield "ListOffsets", 7, lo.ListOffsetsRequest(topics=[asked])
    yield "Produce", 9, produce_request([("t", 0, records_batch(b"x"))])
    deleted = xr.DeleteRecordsTopic("t", [xr.DeleteRecordsPartition(0, 1)])
    yield "DeleteRecords", 2, xr.DeleteRecordsRequest([deleted], 1000)


def _of_offsets() -> Iterator[Request]:
    group = of.OffsetFetchRequestGroup("wide", topics=None)
    yield "OffsetFetch", 8, of.OffsetFetchRequest(groups=[group])
    yield "OffsetFetch", 8, of.OffsetFetchRequest(groups=[group], require_stable=True)


def _of_committed() -> Iterator[Request]:
    topic = oc.OffsetCommitRequestTopic(
        name="t", partitions=[oc.OffsetCommitRequestPartition(0, 5)]
    )
    yield "OffsetCommit", 8, oc.OffsetCommitRequest("wide", topics=[topic])
    gone = od.OffsetDeleteRequestTopic("t", [od.OffsetDeleteRequestPartition(0)])
    yield "OffsetDelete", 0, od.OffsetDeleteRequest("wide", [gone])


def _of_groups() -> Iterator[Request]:
    yield "ListGroups", 4, lg.ListGroupsRequest()
    yield "DescribeGroups", 5, dg.DescribeGroupsRequest(["group-1"])
    yield "FindCoordinator", 4, fc.FindCoordinatorRequest(key_type=0, coordinator_keys=["group-1"])
    yield "DeleteGroups", 2, xg.DeleteGroupsRequest(["group-1"])


def _of_transactions() -> Iterator[Request]:
    yield "ListTransactions", 2, lt.ListTransactionsRequest()
    yield "ListTransactions", 2, lt.ListTransactionsRequest(transactional_id_pattern="id-9.*")


def _of_ids() -> Iterator[Request]:
    yield "DescribeTransactions", 0, dt.DescribeTransactionsRequest(["id-1"])
    yield "InitProducerId", 4, ip.InitProducerIdRequest("id-1", 60_000)


def _of_metrics() -> Iterator[Request]:
    yield "GetTelemetrySubscriptions", 0, ts.GetTelemetrySubscriptionsRequest()
    yield "ListConfigResources", 1, lc.ListConfigResourcesRequest([CLIENT_METRICS])


def _of_acls() -> Iterator[Request]:
    yield "DescribeAcls", 2, da.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield "DescribeAcls", 2, da.DescribeAclsRequest(2, "topic-1", 2, None, None, 1, 1)
    yield (
        "DeleteAcls",
        2,
        xa.DeleteAclsRequest([xa.DeleteAclsFilter(2, "topic-1", 3, None, None, 1, 1)]),
    )
    # A filter that matches all ACLs would remove 10,000 at most, so its steps would not grow beyond
    # that.  This filter matches none.
    nobodys = xa.DeleteAclsFilter(1, None, 1, "User:nobody", None, 1, 1)
    yield "DeleteAcls", 2, xa.DeleteAclsRequest([nobodys])
    added = ca.AclCreation(2, "new", 3, "User:new", "*", 3, 3)
    yield "CreateAcls", 2, ca.CreateAclsRequest([added])
    yield "Metadata", 12, md.MetadataRequest(None)


def _of_users() -> Iterator[Request]:
    yield "DescribeUserScramCredentials", 0, ds.DescribeUserScramCredentialsRequest(None)
    new = asc.ScramCredentialUpsertion("u1", 1, 4096, b"salt", b"p" * 32)
    yield "AlterUserScramCredentials", 0, asc.AlterUserScramCredentialsRequest([], [new])


def _of_quotas() -> Iterator[Request]:
    yield "DescribeClientQuotas", 1, dq.DescribeClientQuotasRequest([], False)
    entity = aq.AlterClientQuotasRequestEntityData("user", "u1")
    entry = aq.AlterClientQuotasRequestEntryData([entity], [aq.OpData("producer_byte_rate", 6.0)])
    yield "AlterClientQuotas", 1, aq.AlterClientQuotasRequest([entry], False)


def _none() -> Iterator[Request]:
    yield "ApiVersions", 2, None


class Table(NamedTuple):
    """fill: adds a number of rows to a state that has a topic `t` of one partition.

    is_listed: some requests list all rows, and take longer the more rows there are.
    """

    fill: Callable[[ClusterState, int], None]
    requests: Callable[[], Iterator[Request]]
    is_listed: bool = True


TABLES: Final = {
    "topics": Table(_fill_topics, _of_topics),
    "partitions": Table(_fill_partitions, _of_partitions),
    "producers": Table(_fill_records, _of_records, is_listed=False),
    "offsets": Table(_fill_offsets, _of_offsets),
    "committed": Table(_fill_offsets, _of_committed, is_listed=False),
    "objects": Table(_fill_objects, _none),
    "groups": Table(_fill_groups, _of_groups),
    "transactions": Table(_fill_transactions, _of_transactions),
    "ids": Table(_fill_transactions, _of_ids, is_listed=False),
    "metrics": Table(_fill_metrics, _of_metrics),
    "acls": Table(_fill_acls, _of_acls),
    "users": Table(_fill_users, _of_users),
    "quotas": Table(_fill_quotas, _of_quotas),
    "tokens": Table(_fill_tokens, _none),
}
