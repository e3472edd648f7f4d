"""IncrementalAlterConfigs: versions 0-1.  Only the named settings change (KIP-339).

Log levels change only at this gateway, until it stops (KIP-412).  All other configs go into the
log.  Differs from Kafka: see `rules.configs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.configs import (
    Change,
    ConfigRefusal,
    ConfigRefused,
    Operation,
    ResourceChange,
)
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import incremental_alter_configs as wire
from tidegate_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ...network.call import Call
from ..topics.topic_errors import config_error
from .config_changes import set_configs
from .gateway_loggers import LOGGER, GatewayLoggers

_OPERATIONS = {each.value for each in Operation}


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigsHandler:
    """Answers IncrementalAlterConfigs requests."""

    coordinator: Coordinator
    loggers: GatewayLoggers
    api_key: ClassVar[int] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Answer for each resource."""
        refusals = [_unknown_operation(each) for each in request.resources]
        changes = [
            _change(each)
            for each, refused in zip(request.resources, refusals, strict=True)
            if refused is None
        ]
        answers = iter(await self._changed(changes, validate_only=request.validate_only))
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    *config_error(
                        next(answers) if refused is None else refused, each.resource_name
                    ),
                    each.resource_type,
                    each.resource_name,
                )
                for each, refused in zip(request.resources, refusals, strict=True)
            ]
        )

    async def _changed(
        self, changes: Sequence[ResourceChange], *, validate_only: bool
    ) -> list[ConfigRefused | None]:
        levels = [each for each in changes if each.resource_type == LOGGER]
        others = [each for each in changes if each.resource_type != LOGGER]
        of_others = iter(await set_configs(self.coordinator, others, validate_only=validate_only))
        of_levels = iter(self.loggers.change(levels, validate_only=validate_only))
        return [next(of_levels if each.resource_type == LOGGER else of_others) for each in changes]


def _unknown_operation(resource: AlterConfigsResource) -> ConfigRefused | None:
    for each in resource.configs:
        if each.config_operation not in _OPERATIONS:
            text = f"Unknown operations type {each.config_operation}"
            return ConfigRefused(ConfigRefusal.INVALID_REQUEST, text)
    return None


def _change(resource: AlterConfigsResource) -> ResourceChange:
    changes = [
        Change(each.name, Operation(each.config_operation), each.value) for each in resource.configs
    ]
    return ResourceChange(resource.resource_type, resource.resource_name, changes)
