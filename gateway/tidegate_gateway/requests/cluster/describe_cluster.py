"""DescribeCluster: versions 0-2.

Only brokers can be described: gateways have no controllers.  No broker is ever fenced; a gateway
whose lease expired is not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_cluster as wire
from tidegate_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

from ...network.call import Call
from ...security.operations import ALL_ON_CLUSTER, NOT_ASKED
from ...zones.cluster_view import ClusterView

BROKERS = 1
CONTROLLERS = 2


@dataclass(frozen=True, slots=True)
class DescribeClusterHandler:
    """Answers DescribeCluster requests."""

    coordinator: Coordinator
    cluster_view: ClusterView
    api_key: ClassVar[int] = ApiKey.DESCRIBE_CLUSTER
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """Answer from the local state."""
        if request.endpoint_type != BROKERS:
            return _wrong_endpoint(request.endpoint_type)
        view = self.cluster_view.of(call.peer.listener)
        asked = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            cluster_id=self.coordinator.state.cluster_id,
            controller_id=view.controller_id,
            brokers=[
                DescribeClusterBroker(each.node_id, each.host, each.port, each.rack)
                for each in view.brokers
            ],
            cluster_authorized_operations=ALL_ON_CLUSTER if asked else NOT_ASKED,
        )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
        text += " type CONTROLLER"
    else:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=code, error_message=text, endpoint_type=endpoint_type)
