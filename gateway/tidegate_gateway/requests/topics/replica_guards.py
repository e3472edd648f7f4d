"""Guards of the APIs of replicas and log directories: each needs one right on the cluster."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
)

from ...security.guard import whole

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = error_text(_DENIED)
_ELECTION_ERROR_SINCE: Final = 1


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


guard_alter_replica_log_dirs: Final = whole(Operation.ALTER, _no_dirs_altered)
guard_describe_log_dirs: Final = whole(Operation.DESCRIBE, _no_dirs_shown)
guard_elect_leaders: Final = whole(Operation.ALTER, _no_election)
guard_alter_partition_reassignments: Final = whole(Operation.ALTER, _no_reassignment)
guard_list_partition_reassignments: Final = whole(Operation.DESCRIBE, _no_reassignments_shown)
