"""ListPartitionReassignments: version 0 (KIP-455).

A reassignment is either in effect or refused (alter_partition_reassignments.py), so none is ever in
progress.  Kafka leaves out partitions without a reassignment, and unknown topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import list_partition_reassignments as wire
from tidegate_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from ...network.call import Call


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsHandler:
    """Answers ListPartitionReassignments requests."""

    api_key: ClassVar[int] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """Answer an empty list."""
        return ListPartitionReassignmentsResponse(error_message=None)
