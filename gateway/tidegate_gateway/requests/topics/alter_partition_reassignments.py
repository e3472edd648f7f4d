"""AlterPartitionReassignments: versions 0-1 (KIP-455, KIP-860).

Differs from Kafka: placement follows from the live gateways (placement/), and any gateway serves
any partition.  So a partition has no replicas to move.  An assignment that differs from the shown
one is refused with a text, since a script would wait for it for ever (docs/decisions/0027).  No
reassignment is ever in progress or can be cancelled. timeout_ms is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.assignments import wrong_assignments
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import alter_partition_reassignments as wire
from tidegate_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from ...network.call import Call
from ...network.turns import Turns
from ...zones.cluster_view import ClusterView, ListenerView

Refusal = tuple[ErrorCode, str | None]


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsHandler:
    """Answers AlterPartitionReassignments requests."""

    coordinator: Coordinator
    cluster_view: ClusterView
    api_key: ClassVar[int] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Answer for each partition."""
        await self.coordinator.catch_up()
        state = self.coordinator.state
        check = _Check(
            {each.node_id for each in state.gateways.brokers()},
            self.cluster_view.of_client(call),
            request.allow_replication_factor_change,
        )
        turns = Turns()
        rows: list[ReassignableTopicResponse] = []
        for asked in request.topics:
            topic = state.topics.by_name.get(asked.name)
            row = ReassignableTopicResponse(asked.name)
            rows.append(row)
            for each in asked.partitions:
                row.partitions.append(_answer(each, check.partition(topic, each)))
                await turns.count()
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=rows,
        )


@dataclass(frozen=True, slots=True)
class _Check:
    """The present placement, for a comparison with reassignments."""

    live_node_ids: set[int]
    view: ListenerView
    may_change_factor: bool

    def partition(self, topic: Topic | None, asked: ReassignablePartition) -> Refusal:
        """Return the error code and text; no error if the client already sees these replicas."""
        index = asked.partition_index
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return _refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if asked.replicas is None:
            return _refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        wrong = wrong_assignments([asked.replicas], self.live_node_ids)
        if wrong is not None:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
        shown = self.view.placements(topic)[index].replicas
        if not self.may_change_factor and len(asked.replicas) != len(shown):
            text = (
                f"{len(asked.replicas)} replicas would change the replication factor of"
                f" {len(shown)}."
            )
            return ErrorCode.INVALID_REPLICATION_FACTOR, text
        if asked.replicas != list(shown):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, _nothing_to_move(shown)
        return ErrorCode.NONE, None


def _nothing_to_move(shown: Sequence[int]) -> str:
    return (
        "Partitions have no replicas to move: records lie in the object store, any gateway serves"
        f" any partition, and the replicas {list(shown)} only say which gateways clients are sent"
        " to. To take clients off a gateway, drain it: tidegate gateway drain ID."
    )


def _refusal(code: ErrorCode) -> Refusal:
    return code, error_text(code)


def _answer(asked: ReassignablePartition, refusal: Refusal) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(asked.partition_index, *refusal)
