"""One request of every API, in each version, that may be asked again and again.  Pure.

A request changes nothing, or fails after the broker has checked the rights for it, or has the same
effect each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from transactions.differential.wire import Request

from acls.group_questions import find, leave, offset_commit, offset_fetch, txn_commit
from acls.world import MISSING, World
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.messages import add_offsets_to_txn as aot
from tidegate_protocol.messages import add_partitions_to_txn as apt
from tidegate_protocol.messages import alter_client_quotas as acq
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import alter_partition_reassignments as apr
from tidegate_protocol.messages import alter_replica_log_dirs as ald
from tidegate_protocol.messages import alter_user_scram_credentials as aus
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_acls as da
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import describe_acls as sa
from tidegate_protocol.messages import describe_client_quotas as scq
from tidegate_protocol.messages import describe_cluster as dc
from tidegate_protocol.messages import describe_configs as sc
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import describe_log_dirs as sld
from tidegate_protocol.messages import describe_producers as sp
from tidegate_protocol.messages import describe_quorum as sq
from tidegate_protocol.messages import describe_topic_partitions as stp
from tidegate_protocol.messages import describe_transactions as st
from tidegate_protocol.messages import describe_user_scram_credentials as sus
from tidegate_protocol.messages import elect_leaders as el
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import incremental_alter_configs as iac
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import list_config_resources as lcr
from tidegate_protocol.messages import list_groups as lsg
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import list_partition_reassignments as lpr
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import offset_for_leader_epoch as ofl
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import sync_group as syg
from tidegate_protocol.messages import update_features as uf
from tidegate_protocol.messages import write_txn_markers as wtm
from tidegate_protocol.primitives import ZERO_UUID

from .rights import GROUP, HIDDEN_TOPIC, TOPIC, TRANSACTIONAL_ID

TOPIC_CONFIG, BROKER_CONFIG, GROUP_CONFIG, METRICS_CONFIG = 2, 4, 32, 16


class Question(NamedTuple):
    """A request; label: to tell it from others of its API."""

    label: str
    request: Request


_Make = Callable[[int, World], list[tuple[str, Any]]]


def questions(world: World) -> Iterator[Question]:
    """Yield all questions, in an order in which no answer depends on an earlier one."""
    for key, make in _MAKERS.items():
        facts = APIS[key]
        for version in range(facts.min_version, facts.max_version + 1):
            for label, body in make(version, world):
                yield Question(label, Request(facts.name, version, body))


def _metadata(version: int, world: World) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [
        ("all", _with_bits(md.MetadataRequest(topics=None if version else []), version)),
        ("names", _with_bits(_named_metadata(TOPIC, HIDDEN_TOPIC, MISSING), version)),
    ]
    if version >= 12:
        ids = [world.topic_ids[TOPIC], world.topic_ids[HIDDEN_TOPIC], b"\1" * 16]
        asked = [md.MetadataRequestTopic(each, None) for each in ids]
        found.append(("ids", md.MetadataRequest(asked, False)))
    return found


def _named_metadata(*names: str) -> md.MetadataRequest:
    asked = [md.MetadataRequestTopic(name=each) for each in names]
    return md.MetadataRequest(asked, allow_auto_topic_creation=False)


def _with_bits(request: md.MetadataRequest, version: int) -> md.MetadataRequest:
    request.allow_auto_topic_creation = version < 4
    request.include_topic_authorized_operations = version >= 8
    request.include_cluster_authorized_operations = 8 <= version <= 10
    return request


def _produce(version: int, world: World) -> list[tuple[str, Any]]:
    def request(name: str | None, batch: bytes) -> pr.ProduceRequest:
        data = [
            pr.TopicProduceData(
                each if version < 13 else "",
                world.topic_ids[each] if version >= 13 else ZERO_UUID,
                [pr.PartitionProduceData(0, batch)],
            )
            for each in (TOPIC, HIDDEN_TOPIC)
        ]
        return pr.ProduceRequest(name, -1, 5000, data)

    return [
        ("plain", request(None, world.batch)),
        ("with an id", request(TRANSACTIONAL_ID, world.batch)),
        ("transactional", request(TRANSACTIONAL_ID, world.transactional_batch)),
    ]


def _fetch(version: int, world: World) -> list[tuple[str, Any]]:
    topics = [
        fe.FetchTopic(
            name if version < 13 else "",
            world.topic_ids[name] if version >= 13 else ZERO_UUID,
            [fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)],
        )
        for name in (TOPIC, HIDDEN_TOPIC)
    ]
    return [("two", fe.FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics))]


def _create_topics(version: int, _: World) -> list[tuple[str, Any]]:
    topics = [ct.CreatableTopic(each, 1, 1) for each in (MISSING, "elsewhere", TOPIC)]
    return [("check", ct.CreateTopicsRequest(topics, 5000, True))]


def _delete_topics(version: int, world: World) -> list[tuple[str, Any]]:
    if version < 6:
        return [("names", dt.DeleteTopicsRequest([], [MISSING, "elsewhere"], 5000))]
    states = [dt.DeleteTopicState(MISSING), dt.DeleteTopicState(None, b"\2" * 16)]
    return [("states", dt.DeleteTopicsRequest(states, [], 5000))]


def _add_partitions(version: int, _: World) -> list[tuple[str, Any]]:
    topics = [apt.AddPartitionsToTxnTopic(each, [0]) for each in (TOPIC, HIDDEN_TOPIC)]
    if version < 4:
        return [
            ("two", apt.AddPartitionsToTxnRequest([], TRANSACTIONAL_ID, 5, 0, topics)),
            ("one", apt.AddPartitionsToTxnRequest([], TRANSACTIONAL_ID, 5, 0, topics[:1])),
        ]
    asked = apt.AddPartitionsToTxnTransaction(TRANSACTIONAL_ID, 5, 0, True, topics[:1])
    return [("check", apt.AddPartitionsToTxnRequest([asked]))]


def _one(make: Callable[[], Any]) -> _Make:
    return lambda _version, _world: [("one", make())]


def _configs(version: int, world: World) -> list[tuple[str, Any]]:
    kinds = [
        (TOPIC_CONFIG, TOPIC),
        (TOPIC_CONFIG, HIDDEN_TOPIC),
        (BROKER_CONFIG, str(world.node)),
        (GROUP_CONFIG, GROUP),
    ]
    asked = [sc.DescribeConfigsResource(*each, ["segment.bytes"]) for each in kinds]
    return [("each", sc.DescribeConfigsRequest(asked))]


def _alter(_version: int, world: World) -> list[tuple[str, Any]]:
    asked = [
        ac.AlterConfigsResource(*each)
        for each in ((TOPIC_CONFIG, TOPIC), (TOPIC_CONFIG, HIDDEN_TOPIC))
    ]
    return [("check", ac.AlterConfigsRequest(asked, True))]


def _alter_some(_version: int, world: World) -> list[tuple[str, Any]]:
    asked = [
        iac.AlterConfigsResource(
            TOPIC_CONFIG, each, [iac.AlterableConfig("segment.bytes", 1, None)]
        )
        for each in (TOPIC, HIDDEN_TOPIC)
    ]
    asked.append(
        iac.AlterConfigsResource(
            BROKER_CONFIG, "", [iac.AlterableConfig("log.retention.ms", 1, None)]
        )
    )
    return [("check", iac.IncrementalAlterConfigsRequest(asked, True))]


def _list_offsets(_version: int, _world: World) -> list[tuple[str, Any]]:
    topics = [
        lo.ListOffsetsTopic(each, [lo.ListOffsetsPartition(0, timestamp=-1)])
        for each in (TOPIC, HIDDEN_TOPIC)
    ]
    return [("two", lo.ListOffsetsRequest(-1, topics=topics))]


def _epochs(_version: int, _world: World) -> list[tuple[str, Any]]:
    topics = [
        ofl.OffsetForLeaderTopic(each, [ofl.OffsetForLeaderPartition(0, leader_epoch=0)])
        for each in (TOPIC, HIDDEN_TOPIC)
    ]
    return [("two", ofl.OffsetForLeaderEpochRequest(-1, topics))]


def _acl() -> ca.AclCreation:
    """Return an ACL of a user that does not exist: a broker stores it once."""
    return ca.AclCreation(2, "nothing", 3, "User:nobody", "*", 3, 3)


def _new_ids(_version: int, _world: World) -> list[tuple[str, Any]]:
    return [
        ("idempotent", ip.InitProducerIdRequest(None)),
        # Too long, so no transaction is begun.
        ("with an id", ip.InitProducerIdRequest(TRANSACTIONAL_ID, 2**31 - 1)),
    ]


_MAKERS: Final[dict[ApiKey, _Make]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: find,
    ApiKey.JOIN_GROUP: _one(lambda: jg.JoinGroupRequest(GROUP, 1, 1, "m", None, "consumer")),
    ApiKey.SYNC_GROUP: _one(lambda: syg.SyncGroupRequest(GROUP, 1, "m")),
    ApiKey.HEARTBEAT: _one(lambda: hb.HeartbeatRequest(GROUP, 1, "m")),
    ApiKey.LEAVE_GROUP: leave,
    ApiKey.DESCRIBE_GROUPS: lambda version, _: [
        ("two", sg.DescribeGroupsRequest([GROUP, "another"], version >= 3))
    ],
    ApiKey.LIST_GROUPS: _one(lsg.ListGroupsRequest),
    ApiKey.DELETE_GROUPS: _one(lambda: dg.DeleteGroupsRequest([MISSING, "nothing"])),
    ApiKey.OFFSET_DELETE: _one(
        lambda: od.OffsetDeleteRequest(
            GROUP,
            [
                od.OffsetDeleteRequestTopic(each, [od.OffsetDeleteRequestPartition(9)])
                for each in (TOPIC, HIDDEN_TOPIC)
            ],
        )
    ),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_PARTITIONS: _one(
        lambda: cp.CreatePartitionsRequest(
            [cp.CreatePartitionsTopic(each, 1, None) for each in (TOPIC, HIDDEN_TOPIC)], 5000, True
        )
    ),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _one(
        lambda: dr.DeleteRecordsRequest(
            [
                dr.DeleteRecordsTopic(each, [dr.DeleteRecordsPartition(0, 0)])
                for each in (TOPIC, HIDDEN_TOPIC)
            ],
            5000,
        )
    ),
    ApiKey.INIT_PRODUCER_ID: _new_ids,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _one(
        lambda: aot.AddOffsetsToTxnRequest(TRANSACTIONAL_ID, 5, 0, GROUP)
    ),
    ApiKey.TXN_OFFSET_COMMIT: txn_commit,
    ApiKey.END_TXN: _one(lambda: et.EndTxnRequest(TRANSACTIONAL_ID, 5, 0, False)),
    ApiKey.WRITE_TXN_MARKERS: _one(
        lambda: wtm.WriteTxnMarkersRequest(
            [wtm.WritableTxnMarker(5, 0, False, [wtm.WritableTxnMarkerTopic(MISSING, [0])])]
        )
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: _one(
        lambda: st.DescribeTransactionsRequest([TRANSACTIONAL_ID, "another"])
    ),
    ApiKey.LIST_TRANSACTIONS: _one(lt.ListTransactionsRequest),
    ApiKey.DESCRIBE_PRODUCERS: _one(
        lambda: sp.DescribeProducersRequest(
            [sp.TopicRequest(each, [0]) for each in (TOPIC, HIDDEN_TOPIC)]
        )
    ),
    ApiKey.DESCRIBE_ACLS: _one(lambda: sa.DescribeAclsRequest(2, "nothing", 3, None, None, 1, 1)),
    ApiKey.CREATE_ACLS: _one(lambda: ca.CreateAclsRequest([_acl()])),
    ApiKey.DELETE_ACLS: _one(
        lambda: da.DeleteAclsRequest([da.DeleteAclsFilter(2, "no such", 3, None, None, 1, 1)])
    ),
    ApiKey.DESCRIBE_CONFIGS: _configs,
    ApiKey.ALTER_CONFIGS: _alter,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_some,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _one(
        lambda: ald.AlterReplicaLogDirsRequest(
            [ald.AlterReplicaLogDir("/no/such", [ald.AlterReplicaLogDirTopic(MISSING, [0])])]
        )
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _one(
        lambda: sld.DescribeLogDirsRequest([sld.DescribableLogDirTopic(MISSING, [0])])
    ),
    ApiKey.ELECT_LEADERS: _one(
        lambda: el.ElectLeadersRequest(0, [el.TopicPartitions(MISSING, [0])], 5000)
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _one(
        lambda: apr.AlterPartitionReassignmentsRequest(
            5000, True, [apr.ReassignableTopic(MISSING, [apr.ReassignablePartition(0, None)])]
        )
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _one(lpr.ListPartitionReassignmentsRequest),
    ApiKey.DESCRIBE_QUORUM: _one(
        lambda: sq.DescribeQuorumRequest(
            [
                sq.DescribeQuorumRequestTopicData(
                    "__cluster_metadata", [sq.DescribeQuorumRequestPartitionData(0)]
                )
            ]
        )
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _one(
        lambda: scq.DescribeClientQuotasRequest([scq.ComponentData("user", 0, "nobody")])
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _one(
        lambda: acq.AlterClientQuotasRequest(
            [
                acq.AlterClientQuotasRequestEntryData(
                    [acq.AlterClientQuotasRequestEntityData("user", "nobody")],
                    [acq.OpData("producer_byte_rate", 1000.0)],
                )
            ],
            validate_only=True,
        )
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _one(
        lambda: sus.DescribeUserScramCredentialsRequest([sus.UserName("nobody")])
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _one(
        lambda: aus.AlterUserScramCredentialsRequest([aus.ScramCredentialDeletion("nobody", 1)])
    ),
    ApiKey.UPDATE_FEATURES: lambda version, _: [
        (
            "check",
            uf.UpdateFeaturesRequest(
                5000, [uf.FeatureUpdateKey("no.such.feature", 1)], validate_only=version >= 1
            ),
        )
    ],
    ApiKey.DESCRIBE_CLUSTER: _one(lambda: dc.DescribeClusterRequest(True)),
    ApiKey.LIST_CONFIG_RESOURCES: _one(lcr.ListConfigResourcesRequest),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _version, _world: [
        ("all", stp.DescribeTopicPartitionsRequest([])),
        (
            "names",
            stp.DescribeTopicPartitionsRequest(
                [stp.TopicRequest(each) for each in sorted((TOPIC, HIDDEN_TOPIC, MISSING))]
            ),
        ),
    ],
}
