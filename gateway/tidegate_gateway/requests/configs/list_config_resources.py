"""ListConfigResources: versions 0-1.  Version 0 knows client metrics subscriptions only (KIP-1142).

The answer has all topics and gateways, but only groups and subscriptions with settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.configs import ResourceType
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_config_resources as wire
from tidegate_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

from ...network.call import Call
from ...network.turns import Turns, in_order

_ALL = tuple(each.value for each in ResourceType)


@dataclass(frozen=True, slots=True)
class ListConfigResourcesHandler:
    """Answers ListConfigResources requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.LIST_CONFIG_RESOURCES
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        """Return the names; without types those of all types, in version 0 of client metrics."""
        if call.version == 0:
            types: tuple[int, ...] = (ResourceType.CLIENT_METRICS.value,)
        else:
            types = tuple(dict.fromkeys(request.resource_types)) or _ALL
        if not set(types) <= set(_ALL):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        turns, rows = Turns(), list[ConfigResource]()
        for kind in types:
            for name in await in_order(self._names(kind), turns):
                rows.append(ConfigResource(name, kind))
                await turns.count()
        return ListConfigResourcesResponse(config_resources=rows)

    def _names(self, kind: int) -> list[str]:
        """Return the present names, unordered."""
        state = self.coordinator.state
        match ResourceType(kind):
            case ResourceType.TOPIC:
                return list(state.topics.by_name)
            case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
                return [str(each.node_id) for each in state.gateways.brokers()]
            case _:
                return state.configs.copied_names(kind)
