"""Guards of the APIs of the cluster: one right on it for the whole request."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
    update_features,
)

from ..guard import Caller, Guarding, whole
from ..operations import NOT_ASKED
from .metadata import cluster_bits

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = error_text(_DENIED)
_ELECTION_ERROR_SINCE: Final = 1


def guard_describe_cluster(
    caller: Caller, request: describe_cluster.DescribeClusterRequest
) -> Guarding:
    """Open to all; what the client may do with the cluster is shown with DESCRIBE of it."""
    response: describe_cluster.DescribeClusterResponse = yield request
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_bits(caller)
    return response


def _no_acls_shown(_request: object, _version: int) -> describe_acls.DescribeAclsResponse:
    return describe_acls.DescribeAclsResponse(error_code=_DENIED, error_message=_TEXT)


def _no_acls_created(
    request: create_acls.CreateAclsRequest, _version: int
) -> create_acls.CreateAclsResponse:
    refused = create_acls.AclCreationResult(_DENIED, _TEXT)
    return create_acls.CreateAclsResponse(results=[refused] * len(request.creations))


def _no_acls_deleted(
    request: delete_acls.DeleteAclsRequest, _version: int
) -> delete_acls.DeleteAclsResponse:
    refused = delete_acls.DeleteAclsFilterResult(_DENIED, _TEXT)
    return delete_acls.DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def _no_dirs_altered(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, _version: int
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic.name,
                [
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(index, _DENIED)
                    for index in topic.partitions
                ],
            )
            for each in request.dirs
            for topic in each.topics
        ]
    )


def _no_dirs_shown(_request: object, _version: int) -> describe_log_dirs.DescribeLogDirsResponse:
    return describe_log_dirs.DescribeLogDirsResponse(error_code=_DENIED)


def _no_election(
    request: elect_leaders.ElectLeadersRequest, version: int
) -> elect_leaders.ElectLeadersResponse:
    return elect_leaders.ElectLeadersResponse(
        error_code=_DENIED if version >= _ELECTION_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic.topic,
                [elect_leaders.PartitionResult(each, _DENIED, _TEXT) for each in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _no_reassignment(
    request: alter_partition_reassignments.AlterPartitionReassignmentsRequest, _version: int
) -> alter_partition_reassignments.AlterPartitionReassignmentsResponse:
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=_DENIED,
        error_message=_TEXT,
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                topic.name,
                [
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        each.partition_index, _DENIED, _TEXT
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _no_reassignments_shown(
    _request: object, _version: int
) -> list_partition_reassignments.ListPartitionReassignmentsResponse:
    return list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=_DENIED, error_message=_TEXT
    )


def _no_quorum(_request: object, _version: int) -> describe_quorum.DescribeQuorumResponse:
    return describe_quorum.DescribeQuorumResponse(error_code=_DENIED, error_message=_TEXT)


def _no_features(_request: object, _version: int) -> update_features.UpdateFeaturesResponse:
    return update_features.UpdateFeaturesResponse(error_code=_DENIED, error_message=_TEXT)


def _no_resources(
    _request: object, _version: int
) -> list_config_resources.ListConfigResourcesResponse:
    return list_config_resources.ListConfigResourcesResponse(error_code=_DENIED)


def _no_credentials_shown(
    request: describe_user_scram_credentials.DescribeUserScramCredentialsRequest, _version: int
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse:
    answer_of = describe_user_scram_credentials.DescribeUserScramCredentialsResult
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=_DENIED,
        error_message=_TEXT,
        results=[answer_of("", _DENIED, _TEXT) for _ in request.users or ()],
    )


def _no_credentials_altered(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, _version: int
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse:
    users = dict.fromkeys(each.name for each in request.deletions)
    users |= dict.fromkeys(each.name for each in request.upsertions)
    answer_of = alter_user_scram_credentials.AlterUserScramCredentialsResult
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[answer_of(each, _DENIED, _TEXT) for each in users]
    )


def _no_quotas_shown(
    _request: object, _version: int
) -> describe_client_quotas.DescribeClientQuotasResponse:
    return describe_client_quotas.DescribeClientQuotasResponse(
        error_code=_DENIED, error_message=_TEXT, entries=None
    )


def _no_quotas_altered(
    request: alter_client_quotas.AlterClientQuotasRequest, _version: int
) -> alter_client_quotas.AlterClientQuotasResponse:
    entity_of = alter_client_quotas.AlterClientQuotasResponseEntityData
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.AlterClientQuotasResponseEntryData(
                _DENIED,
                _TEXT,
                [entity_of(part.entity_type, part.entity_name) for part in each.entity],
            )
            for each in request.entries
        ]
    )


guard_describe_acls: Final = whole(Operation.DESCRIBE, _no_acls_shown)
guard_create_acls: Final = whole(Operation.ALTER, _no_acls_created)
guard_delete_acls: Final = whole(Operation.ALTER, _no_acls_deleted)
guard_alter_replica_log_dirs: Final = whole(Operation.ALTER, _no_dirs_altered)
guard_describe_log_dirs: Final = whole(Operation.DESCRIBE, _no_dirs_shown)
guard_elect_leaders: Final = whole(Operation.ALTER, _no_election)
guard_alter_partition_reassignments: Final = whole(Operation.ALTER, _no_reassignment)
guard_list_partition_reassignments: Final = whole(Operation.DESCRIBE, _no_reassignments_shown)
guard_describe_quorum: Final = whole(Operation.DESCRIBE, _no_quorum)
guard_update_features: Final = whole(Operation.ALTER, _no_features)
guard_list_config_resources: Final = whole(Operation.DESCRIBE_CONFIGS, _no_resources)
guard_describe_user_scram_credentials: Final = whole(Operation.DESCRIBE, _no_credentials_shown)
guard_alter_user_scram_credentials: Final = whole(Operation.ALTER, _no_credentials_altered)
guard_describe_client_quotas: Final = whole(Operation.DESCRIBE_CONFIGS, _no_quotas_shown)
guard_alter_client_quotas: Final = whole(Operation.ALTER_CONFIGS, _no_quotas_altered)
