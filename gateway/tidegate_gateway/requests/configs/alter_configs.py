"""AlterConfigs: versions 0-2.  Settings that the request does not name return to their defaults.

Differs from Kafka: see `rules.configs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.configs import Change, Operation, ResourceChange
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import alter_configs as wire
from tidegate_protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

from ...network.call import Call
from ..topics.topic_errors import config_error
from .config_changes import set_configs


@dataclass(frozen=True, slots=True)
class AlterConfigsHandler:
    """Answers AlterConfigs requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.ALTER_CONFIGS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Answer for each resource."""
        resources = [_change(each) for each in request.resources]
        answers = await set_configs(
            self.coordinator, resources, validate_only=request.validate_only
        )
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    *config_error(refused, each.resource_name),
                    each.resource_type,
                    each.resource_name,
                )
                for each, refused in zip(resources, answers, strict=True)
            ]
        )


def _change(resource: AlterConfigsResource) -> ResourceChange:
    changes = [Change(each.name, Operation.SET, each.value) for each in resource.configs]
    return ResourceChange(resource.resource_type, resource.resource_name, changes, replaces=True)
