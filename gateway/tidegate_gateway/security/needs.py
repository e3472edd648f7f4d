"""The guard of every API: what its client needs.

Dispatch asks this table before each request, so that no API can be served without a row.  The rows
are those of Kafka 4.3.1's KafkaApis and ControllerApis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate_protocol.apis import ApiKey

from .guard import Guard, open_to_all
from .guards import (
    cluster,
    configs,
    groups,
    metadata,
    offset_fetch,
    records,
    tokens,
    topics,
    transactions,
)

NEEDS: Final[dict[int, Guard]] = {
    # These two check in their handlers; see guards/records.py.
    ApiKey.PRODUCE: open_to_all,
    ApiKey.FETCH: open_to_all,
    ApiKey.LIST_OFFSETS: records.guard_list_offsets,
    ApiKey.METADATA: metadata.guard_metadata,
    ApiKey.OFFSET_COMMIT: groups.guard_offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch.guard_offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.guard_find_coordinator,
    ApiKey.JOIN_GROUP: groups.guard_join_group,
    ApiKey.HEARTBEAT: groups.guard_heartbeat,
    ApiKey.LEAVE_GROUP: groups.guard_leave_group,
    ApiKey.SYNC_GROUP: groups.guard_sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.guard_describe_groups,
    ApiKey.LIST_GROUPS: groups.guard_list_groups,
    ApiKey.SASL_HANDSHAKE: open_to_all,
    ApiKey.SASL_AUTHENTICATE: open_to_all,
    ApiKey.API_VERSIONS: open_to_all,
    ApiKey.CREATE_TOPICS: topics.guard_create_topics,
    ApiKey.DELETE_TOPICS: topics.guard_delete_topics,
    ApiKey.DELETE_RECORDS: records.guard_delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.guard_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: records.guard_offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.guard_add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.guard_add_offsets_to_txn,
    ApiKey.END_TXN: transactions.guard_end_txn,
    ApiKey.WRITE_TXN_MARKERS: transactions.guard_write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.guard_txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: cluster.guard_describe_acls,
    ApiKey.CREATE_ACLS: cluster.guard_create_acls,
    ApiKey.DELETE_ACLS: cluster.guard_delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.guard_describe_configs,
    ApiKey.ALTER_CONFIGS: configs.guard_alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.guard_alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.guard_describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topics.guard_create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: tokens.guard_create_delegation_token,
    # For these three see guards/tokens.py.
    ApiKey.RENEW_DELEGATION_TOKEN: open_to_all,
    ApiKey.EXPIRE_DELEGATION_TOKEN: open_to_all,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: open_to_all,
    ApiKey.DELETE_GROUPS: groups.guard_delete_groups,
    ApiKey.ELECT_LEADERS: cluster.guard_elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.guard_incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.guard_alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.guard_list_partition_reassignments,
    ApiKey.OFFSET_DELETE: groups.guard_offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.guard_describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: cluster.guard_alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.guard_describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.guard_alter_user_scram_credentials,
    ApiKey.DESCRIBE_QUORUM: cluster.guard_describe_quorum,
    ApiKey.UPDATE_FEATURES: cluster.guard_update_features,
    ApiKey.DESCRIBE_CLUSTER: cluster.guard_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: records.guard_describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.guard_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.guard_list_transactions,
    # As in Kafka: a subscription chooses its clients.
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: open_to_all,
    ApiKey.PUSH_TELEMETRY: open_to_all,
    ApiKey.LIST_CONFIG_RESOURCES: cluster.guard_list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.guard_describe_topic_partitions,
}


def check_rows(served: Iterable[int]) -> None:
    """Check that each served API has a guard.

    Raises:
      LookupError: one has none; it must not be served.
    """
    missing = sorted(set(served) - NEEDS.keys())
    if missing:
        raise LookupError(f"no row in security/needs.py for API keys {missing}")
