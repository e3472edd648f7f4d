"""The table of APIs: makes every handler from the gateway's parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.log_levels import LogLevels

from .fetch.fetch_plan import MIN_FILE_BYTES, FetchSettings
from .fetch.fetch_sessions import FetchSessions
from .fetch.fetch_waiters import FetchWaiters
from .fetch.log_reader import LogReader
from .fetch.read_ahead import ReadAhead
from .gateway_counters import GatewayCounters
from .groups.group_manager import GroupManager
from .links.group_forwards import GroupForwards
from .links.linked_names import LinkedNames
from .links.source_ends import SourceEnds
from .links.transaction_forwards import TransactionForwards
from .network.call import Handler
from .network.reply_memory import ReplyMemory
from .requests.cluster.acls import CreateAclsHandler, DeleteAclsHandler, DescribeAclsHandler
from .requests.cluster.api_versions import ApiVersions
from .requests.cluster.client_quotas import AlterClientQuotasHandler, DescribeClientQuotasHandler
from .requests.cluster.delegation_tokens import (
    CreateDelegationToken,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
    TokenParts,
)
from .requests.cluster.describe_cluster import DescribeClusterHandler
from .requests.cluster.describe_quorum import DescribeQuorumHandler
from .requests.cluster.metadata import MetadataHandler
from .requests.cluster.sasl import LateSaslAuthenticate, LateSaslHandshake
from .requests.cluster.scram import AlterUserScramCredentials, DescribeUserScramCredentials
from .requests.cluster.telemetry import GetTelemetrySubscriptions, PushTelemetry
from .requests.cluster.update_features import UpdateFeaturesHandler
from .requests.configs.alter_configs import AlterConfigsHandler
from .requests.configs.describe_configs import DescribeConfigsHandler
from .requests.configs.gateway_loggers import GatewayLoggers
from .requests.configs.incremental_alter_configs import IncrementalAlterConfigsHandler
from .requests.configs.list_config_resources import ListConfigResourcesHandler
from .requests.groups.delete_groups import DeleteGroups
from .requests.groups.describe_groups import DescribeGroups
from .requests.groups.find_coordinator import FindCoordinator
from .requests.groups.forwarded import (
    ForwardedHeartbeat,
    ForwardedJoinGroup,
    ForwardedLeaveGroup,
    ForwardedOffsetCommit,
    ForwardedOffsetDelete,
    ForwardedSyncGroup,
)
from .requests.groups.heartbeat import Heartbeat
from .requests.groups.join_group import JoinGroup
from .requests.groups.leave_group import LeaveGroup
from .requests.groups.list_groups import ListGroups
from .requests.groups.offset_commit import OffsetCommit
from .requests.groups.offset_delete import OffsetDelete
from .requests.groups.offset_fetch import OffsetFetch
from .requests.groups.sync_group import SyncGroup
from .requests.records.delete_records import DeleteRecordsHandler
from .requests.records.describe_producers import DescribeProducersHandler
from .requests.records.fetch import Fetch
from .requests.records.list_offsets import ListOffsets
from .requests.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from .requests.topics.alter_partition_reassignments import AlterPartitionReassignmentsHandler
from .requests.topics.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from .requests.topics.create_partitions import CreatePartitionsHandler
from .requests.topics.create_topics import CreateTopicsHandler
from .requests.topics.delete_topics import DeleteTopicsHandler
from .requests.topics.describe_log_dirs import DescribeLogDirsHandler
from .requests.topics.describe_topic_partitions import DescribeTopicPartitionsHandler
from .requests.topics.elect_leaders import ElectLeadersHandler
from .requests.topics.list_partition_reassignments import ListPartitionReassignmentsHandler
from .requests.transactions.add_offsets_to_txn import AddOffsetsToTxn
from .requests.transactions.add_partitions_to_txn import AddPartitionsToTxn
from .requests.transactions.describe_transactions import DescribeTransactions
from .requests.transactions.end_txn import EndTxn
from .requests.transactions.forwarded import (
    ForwardedAddOffsetsToTxn,
    ForwardedAddPartitionsToTxn,
    ForwardedEndTxn,
    ForwardedInitProducerId,
    ForwardedTxnOffsetCommit,
)
from .requests.transactions.init_producer_id import InitProducerId
from .requests.transactions.list_transactions import ListTransactions
from .requests.transactions.txn_offset_commit import TxnOffsetCommit
from .requests.transactions.write_txn_markers import WriteTxnMarkers
from .security.authority import Authority
from .security.sealing import Sealing
from .settings.broker_settings import BrokerSettings
from .telemetry.telemetry import Telemetry
from .topics.internal_topics import InternalTopics
from .transactions.steps import TransactionSteps
from .work.fair_pool import FairPool
from .zones.cluster_view import ClusterView
from .zones.read_steering import ReadSteering


def make_handlers(
    coordinator: Coordinator,
    reader: LogReader,
    read_ahead: ReadAhead,
    reply_memory: ReplyMemory,
    groups: GroupManager,
    forwards: GroupForwards,
    transactions: TransactionForwards,
    steps: TransactionSteps,
    settings: BrokerSettings,
    *,
    cluster: ClusterSettings,
    view: ClusterView,
    steering: ReadSteering,
    source_ends: SourceEnds,
    rng: Random,
    now_ms: Callable[[], int],
    pool: FairPool,
    min_file_bytes: int = MIN_FILE_BYTES,
    sealing: Sealing,
    tokens: TokenParts,
    telemetry: Telemetry,
    counters: GatewayCounters | None = None,
    authority: Authority | None = None,
    log_levels: LogLevels,
) -> list[Handler]:
    """Return the handlers of all APIs except Produce, which answers in two stages (dispatch.py).

    now_ms: wall clock.  sealing: of SCRAM credentials.  authority: None without an authorizer.
    log_levels: of this gateway's lines.
    """
    handlers = [
        *_data_handlers(
            coordinator,
            reader,
            read_ahead,
            reply_memory,
            settings,
            steering=steering,
            source_ends=source_ends,
            rng=rng,
            pool=pool,
            min_file_bytes=min_file_bytes,
            counters=counters or GatewayCounters(),
            authority=authority,
        ),
        *_admin_handlers(
            coordinator,
            settings,
            cluster,
            view,
            rng=rng,
            sealing=sealing,
            has_authorizer=authority is not None,
            loggers=GatewayLoggers(log_levels, settings.int("node.id")),
        ),
        *_group_handlers(coordinator, groups, forwards, settings, view, rng=rng),
        CreateDelegationToken(tokens),
        RenewDelegationToken(tokens),
        ExpireDelegationToken(tokens),
        DescribeDelegationToken(tokens),
        GetTelemetrySubscriptions(telemetry),
        PushTelemetry(telemetry),
        *_transaction_handlers(
            coordinator, groups, forwards, transactions, steps, cluster, pool, now_ms
        ),
    ]
    served = [ApiKey.PRODUCE, ApiKey.API_VERSIONS, *(each.api_key for each in handlers)]
    return [ApiVersions(served, coordinator.state), *handlers]


def _data_handlers(
    coordinator: Coordinator,
    reader: LogReader,
    read_ahead: ReadAhead,
    reply_memory: ReplyMemory,
    settings: BrokerSettings,
    *,
    steering: ReadSteering,
    source_ends: SourceEnds,
    rng: Random,
    pool: FairPool,
    min_file_bytes: int,
    counters: GatewayCounters,
    authority: Authority | None,
) -> list[Handler]:
    waiters = FetchWaiters(coordinator.state.partitions)
    fetch_settings = FetchSettings(
        max_bytes=settings.int("fetch.max.bytes"),
        min_file_bytes=min_file_bytes,
    )
    sessions = FetchSessions(rng)
    fetch = Fetch(
        coordinator,
        reader,
        waiters,
        sessions,
        fetch_settings,
        read_ahead,
        steering,
        reply_memory,
        authority,
        counters,
    )
    coordinator.listen(fetch.on_change)
    return [
        fetch,
        ListOffsets(coordinator, source_ends, reader, fetch_settings, pool),
        OffsetForLeaderEpoch(coordinator),
    ]


def _transaction_handlers(
    coordinator: Coordinator,
    groups: GroupManager,
    forwards: GroupForwards,
    transactions: TransactionForwards,
    steps: TransactionSteps,
    cluster: ClusterSettings,
    pool: FairPool,
    now_ms: Callable[[], int],
) -> list[Handler]:
    parts = transactions, forwards, coordinator
    init = InitProducerId(steps, partial(cluster.time, "transaction.max.timeout.ms"))
    commit = TxnOffsetCommit(coordinator, groups, steps, forwards)
    return [
        ForwardedInitProducerId(init, *parts),
        ForwardedAddPartitionsToTxn(AddPartitionsToTxn(coordinator, steps), *parts),
        ForwardedAddOffsetsToTxn(AddOffsetsToTxn(steps, forwards), *parts),
        ForwardedTxnOffsetCommit(commit, *parts),
        ForwardedEndTxn(EndTxn(steps), *parts),
        WriteTxnMarkers(steps),
        DescribeTransactions(coordinator, transactions),
        ListTransactions(coordinator, pool, now_ms, transactions),
    ]


def _admin_handlers(
    coordinator: Coordinator,
    settings: BrokerSettings,
    cluster: ClusterSettings,
    view: ClusterView,
    *,
    rng: Random,
    sealing: Sealing,
    has_authorizer: bool,
    loggers: GatewayLoggers,
) -> list[Handler]:
    def new_topic_id() -> bytes:
        return rng.randbytes(16)

    return [
        MetadataHandler(
            coordinator, settings, view, new_topic_id, LinkedNames(coordinator.state.links)
        ),
        DescribeTopicPartitionsHandler(coordinator, settings, view),
        DescribeClusterHandler(coordinator, view),
        CreateTopicsHandler(coordinator, settings, new_topic_id, cluster),
        DeleteTopicsHandler(coordinator, settings),
        CreatePartitionsHandler(coordinator),
        DeleteRecordsHandler(coordinator, cluster),
        DescribeConfigsHandler(coordinator, settings, cluster, loggers),
        AlterConfigsHandler(coordinator),
        IncrementalAlterConfigsHandler(coordinator, loggers),
        ListConfigResourcesHandler(coordinator),
        DescribeLogDirsHandler(coordinator, view, settings.int("node.id")),
        AlterReplicaLogDirsHandler(coordinator),
        ElectLeadersHandler(coordinator),
        AlterPartitionReassignmentsHandler(coordinator, view),
        ListPartitionReassignmentsHandler(),
        DescribeQuorumHandler(coordinator, view),
        UpdateFeaturesHandler(coordinator),
        DescribeProducersHandler(coordinator),
        DescribeUserScramCredentials(coordinator),
        AlterUserScramCredentials(coordinator, sealing),
        LateSaslHandshake(),
        LateSaslAuthenticate(),
        DescribeAclsHandler(coordinator, has_authorizer),
        CreateAclsHandler(coordinator, has_authorizer),
        DeleteAclsHandler(coordinator, has_authorizer),
        DescribeClientQuotasHandler(coordinator),
        AlterClientQuotasHandler(coordinator),
    ]


def _group_handlers(
    coordinator: Coordinator,
    groups: GroupManager,
    forwards: GroupForwards,
    settings: BrokerSettings,
    view: ClusterView,
    *,
    rng: Random,
) -> list[Handler]:
    internal_topics = InternalTopics(coordinator, settings, lambda: rng.randbytes(16))
    topics = coordinator.state.topics
    return [
        FindCoordinator(coordinator, internal_topics, groups, view),
        ForwardedJoinGroup(JoinGroup(groups), forwards, topics),
        ForwardedSyncGroup(SyncGroup(groups), forwards, topics),
        ForwardedHeartbeat(Heartbeat(groups), forwards, topics),
        ForwardedLeaveGroup(LeaveGroup(groups), forwards, topics),
        ListGroups(coordinator, groups, forwards),
        DescribeGroups(groups, forwards),
        DeleteGroups(groups, forwards),
        ForwardedOffsetCommit(OffsetCommit(coordinator, groups), forwards, topics),
        OffsetFetch(coordinator, forwards),
        ForwardedOffsetDelete(OffsetDelete(coordinator, groups), forwards, topics),
    ]
