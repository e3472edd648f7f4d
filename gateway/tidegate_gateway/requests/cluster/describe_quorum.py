"""DescribeQuorum: versions 0-2 (KIP-595, KIP-836, KIP-853).

Differs from Kafka: there is no KRaft quorum, but a metadata log that all gateways share.  The
answer shows the log as a quorum: the gateways of the client's listener are the voters, the
controller that Metadata names is the leader, and the epoch is 0.  The log's end is the position of
its last entry, read for this answer.  A gateway does not know how far the others have read.  Since
committed entries are in the log for all of them, the answer shows all at its end, with -1 as the
time of their last read.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import describe_quorum as wire
from tidegate_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

from ...network.call import Call
from ...zones.cluster_view import ClusterView, ListenerView

METADATA_TOPIC: Final = "__cluster_metadata"
NODES_SINCE: Final = 2
EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class DescribeQuorumHandler:
    """Answers DescribeQuorum requests."""

    coordinator: Coordinator
    cluster_view: ClusterView
    api_key: ClassVar[int] = ApiKey.DESCRIBE_QUORUM
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """Answer about the metadata log if the request names only its partition."""
        asked = [
            (each.topic_name, [row.partition_index for row in each.partitions])
            for each in request.topics
        ]
        if asked != [(METADATA_TOPIC, [0])]:
            return _unknown(asked)
        await self.coordinator.catch_up()
        listener = call.peer.listener
        view = self.cluster_view.of(listener)
        log = _log(view, self.coordinator.state.position)
        return DescribeQuorumResponse(
            topics=[DescribeQuorumResponseTopicData(METADATA_TOPIC, [log])],
            nodes=_nodes(view, listener) if call.version >= NODES_SINCE else [],
        )


def _log(view: ListenerView, end: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        leader_id=view.controller_id,
        leader_epoch=EPOCH,
        high_watermark=end,
        current_voters=[ReplicaState(each.node_id, log_end_offset=end) for each in view.nodes],
    )


def _nodes(view: ListenerView, listener: str) -> list[Node]:
    return [Node(each.node_id, [Listener(listener, each.host, each.port)]) for each in view.nodes]


def _unknown(asked: list[tuple[str, list[int]]]) -> DescribeQuorumResponse:
    """Refuse every partition, as Kafka does."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                name,
                [
                    DescribeQuorumResponsePartitionData(index, code, error_text(code))
                    for index in indexes
                ],
            )
            for name, indexes in asked
        ]
    )
