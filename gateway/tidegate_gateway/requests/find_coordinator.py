"""FindCoordinator: versions 0-6.

A group belongs to the gateway that holds its claim, or, when no live gateway does, to the one its
id hashes to.  Differs from Kafka: there are no transactions yet, so a transactional id is refused
with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which both the Java client and librdkafka take as fatal
here; at INVALID_REQUEST, say, librdkafka would ask again for ever.  A share group's key gets
INVALID_REQUEST.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import structlog

from tidegate_coordination.coordinator import Coordinator as MetadataCoordinator
from tidegate_coordination.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.groups.placement import server
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator as messages
from tidegate_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

from ..call import Call
from ..internal_topics import OFFSETS_TOPIC, OffsetsTopic

_log = structlog.get_logger("tidegate.groups")

SEVERAL_SINCE = 4
GROUP = 0
TRANSACTION = 1
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """See the module's head."""

    coordinator: MetadataCoordinator
    offsets_topic: OffsetsTopic
    api_key: ClassVar[int] = 10
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Name a gateway per key."""
        listener = call.peer.listener
        if request.key_type == GROUP:
            await self._ensure_offsets_topic()
        if call.version >= SEVERAL_SINCE:
            keys = request.coordinator_keys
            found = [self._find(key, request.key_type, listener) for key in keys]
            return FindCoordinatorResponse(coordinators=found)
        one = self._find(request.key, request.key_type, listener)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _ensure_offsets_topic(self) -> None:
        """Groups do without the topic, so a log that is away fails nobody here."""
        try:
            await self.offsets_topic.ensure()
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not make a topic", topic=OFFSETS_TOPIC, reason=str(error))

    def _find(self, key: str, key_type: int, listener: str) -> Coordinator:
        if key_type == GROUP:
            return self._find_group(key, listener)
        if key_type == TRANSACTION:
            return _refused(
                key,
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "Tidegate does not support transactions yet: unset transactional.id",
            )
        return _refused(
            key, ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are not supported"
        )

    def _find_group(self, group_id: str, listener: str) -> Coordinator:
        gateway = server(self.coordinator.state, group_id)
        endpoint = gateway.endpoint(listener) if gateway is not None else None
        if gateway is None or endpoint is None:
            return _refused(
                group_id,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"No gateway for the group has a listener {listener!r}",
            )
        return Coordinator(
            key=group_id,
            node_id=gateway.node_id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.NONE,
            error_message=None,
        )


def _refused(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message
    )
