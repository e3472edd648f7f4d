"""GetTelemetrySubscriptions and PushTelemetry: version 0 (KIP-714).

A gateway shows all received metrics on its admin page, so it always serves both APIs.  A Kafka
broker serves them only with a plug-in that receives metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import get_telemetry_subscriptions as get_wire
from tidegate_protocol.messages import push_telemetry as push_wire
from tidegate_protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidegate_protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tidegate_protocol.primitives import ZERO_UUID

from ...network.call import Call
from ...telemetry.telemetry import Telemetry

# In Kafka's order: clients use the first type that they support.
_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


@dataclass(frozen=True, slots=True)
class GetTelemetrySubscriptions:
    """Answers GetTelemetrySubscriptions requests."""

    telemetry: Telemetry
    api_key: ClassVar[int] = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    messages: ClassVar[ModuleType] = get_wire

    async def handle(
        self, call: Call, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """Answer with the metrics that the client shall push; a client without an id gets one."""
        asked = request.client_instance_id
        instance_id = self.telemetry.new_id() if asked == ZERO_UUID else asked
        instance = self.telemetry.instance(call, instance_id)
        error = self.telemetry.get(instance)
        if error is not ErrorCode.NONE:
            return GetTelemetrySubscriptionsResponse(error_code=error)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.choice.id,
            accepted_compression_types=[*_CODECS],
            push_interval_ms=instance.choice.interval_ms,
            telemetry_max_bytes=self.telemetry.max_bytes,
            delta_temporality=True,
            requested_metrics=[*instance.choice.metrics],
        )


@dataclass(frozen=True, slots=True)
class PushTelemetry:
    """Answers PushTelemetry requests."""

    telemetry: Telemetry
    api_key: ClassVar[int] = ApiKey.PUSH_TELEMETRY
    messages: ClassVar[ModuleType] = push_wire

    async def handle(self, call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
        """Receive a client's metrics."""
        return PushTelemetryResponse(error_code=await self.telemetry.push(call, request))
