"""ElectLeaders: versions 0-2.

Differs from Kafka: the first replica of every partition leads it, so no election is ever needed.
Each named partition gets ELECTION_NOT_NEEDED; a request for all partitions gets an empty list, as
from a Kafka cluster that needs no election. timeout_ms is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import elect_leaders as wire
from tidegate_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from ...network.call import Call
from ...network.turns import Turns
from .known_partitions import partition_exists

PREFERRED = 0
UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectLeadersHandler:
    """Answers ElectLeaders requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.ELECT_LEADERS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Answer partition by partition."""
        if request.election_type not in (PREFERRED, UNCLEAN):
            return _unknown_type(request)
        await self.coordinator.catch_up()
        rows: list[ReplicaElectionResult] = []
        turns = Turns()
        if request.topic_partitions is None:
            for name in list(self.coordinator.state.topics.by_name):
                rows.append(ReplicaElectionResult(name))
                await turns.count()
        else:
            for each in request.topic_partitions:
                results: list[PartitionResult] = []
                rows.append(ReplicaElectionResult(each.topic, results))
                for index in each.partitions:
                    results.append(self._result(each.topic, index))
                    await turns.count()
        return ElectLeadersResponse(replica_election_results=rows)

    def _result(self, name: str, index: int) -> PartitionResult:
        code = ErrorCode.ELECTION_NOT_NEEDED
        if not partition_exists(self.coordinator.state.topics, name, index):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResult(index, code, error_text(code))


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Refuse the request and each partition, as Kafka does; version 0 has no election type."""
    code, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    rows = [
        ReplicaElectionResult(
            each.topic, [PartitionResult(index, code, text) for index in each.partitions]
        )
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=rows)
