"""Guards of the APIs of the cluster: one right on the cluster for the whole request."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import describe_cluster, describe_quorum, update_features

from ...security.guard import Caller, Guarding, denied_whole, whole
from ...security.operations import NOT_ASKED
from .metadata_guard import cluster_bits

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = error_text(_DENIED)


def guard_describe_cluster(
    caller: Caller, request: describe_cluster.DescribeClusterRequest
) -> Guarding:
    """Allow all clients; the answer has the client's rights on the cluster if it may DESCRIBE."""
    response: describe_cluster.DescribeClusterResponse = yield request
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_bits(caller)
    return response


guard_describe_quorum: Final = whole(Operation.DESCRIBE, denied_whole(describe_quorum))
guard_update_features: Final = whole(Operation.ALTER, denied_whole(update_features))
