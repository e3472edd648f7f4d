"""DescribeConfigs: versions 1-4.

Topics, gateways, groups and client metrics subscriptions; every config with its source, synonyms
and documentation when asked.  Differs from Kafka: a gateway also has Tidegate's own settings, and
no loggers.  The answer has the cluster-wide values of cluster settings, no matter which gateway was
started with them (decision 23).  The default of min.insync.replicas is Kafka's default without
KIP-966.  With KIP-966 Kafka writes a dynamic default that cannot be removed into its log.  This is
for elections, which gateways do not have.  Only the gateway itself knows its other static settings,
so other gateways refuse to describe them.

Four bytes of a request can cause forty kilobytes of an answer.  So a repeated resource gets one
answer, other tasks run between two resources, and the answer's size is limited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

import trio

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.definition import Update
from tidegate_coordination.configs.effective import (
    BrokerLayers,
    Effective,
    Source,
    Synonym,
    effective_broker_config,
    effective_client_metrics_config,
    effective_group_config,
)
from tidegate_coordination.configs.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.configs import NODE_ID, ResourceType
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import describe_configs as wire
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from ...network.call import Call
from ...network.turns import Turns
from ...settings.broker_settings import BrokerSettings
from .gateway_loggers import LOGGER, GatewayLoggers

MAX_MESSAGE_CHARACTERS: Final = 1000


class _Refusal(Exception):
    """The resource cannot be described."""

    def __init__(self, code: ErrorCode, text: str = "") -> None:
        super().__init__(text or error_text(code))
        self.code = code


@dataclass(frozen=True, slots=True)
class DescribeConfigsHandler:
    """max_rows: the limit on the rows of an answer; a topic has some 35 rows."""

    coordinator: Coordinator
    settings: BrokerSettings
    cluster: ClusterSettings
    loggers: GatewayLoggers
    max_rows: int = 500_000
    api_key: ClassVar[int] = ApiKey.DESCRIBE_CONFIGS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Answer for each resource."""
        turns = Turns()
        once: dict[tuple[int, str], DescribeConfigsResource] = {}
        for each in request.resources:
            once[each.resource_type, each.resource_name] = each
            await turns.count()
        for each in once.values():
            if self._is_unknown_topic(each):
                await self.coordinator.catch_up()
                break
            await turns.count()
        results: list[DescribeConfigsResult] = []
        rows = 0
        for each in once.values():
            result = self._describe(each, request) if rows < self.max_rows else _too_much(each)
            results.append(result)
            rows += len(result.configs)
            await trio.lowlevel.checkpoint()
        return DescribeConfigsResponse(results=results)

    def _is_unknown_topic(self, resource: DescribeConfigsResource) -> bool:
        is_topic = resource.resource_type == ResourceType.TOPIC.value
        return is_topic and resource.resource_name not in self.coordinator.state.topics.by_name

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            rows = self._rows(resource, request)
        except _Refusal as refusal:
            result.error_code = refusal.code
            # The text may quote a name of the greatest length, but must itself not exceed this
            # length.
            result.error_message = str(refusal)[:MAX_MESSAGE_CHARACTERS]
            return result
        keys = frozenset(resource.configuration_keys or ())
        result.configs = [each for each in rows if not keys or each.name in keys]
        return result

    def _rows(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult]:
        if resource.resource_type == LOGGER:
            self._check_node_id(resource.resource_name, may_be_empty=False)
            return [_level_row(name, level) for name, level in self.loggers.shown()]
        return [_row(each, resource, request) for each in self._effective(resource)]

    def _effective(self, resource: DescribeConfigsResource) -> Iterable[Effective]:
        name = resource.resource_name
        layers = self.settings.layers(self.coordinator.state.configs)
        match resource.resource_type:
            case ResourceType.TOPIC.value:
                return self._topic(name)
            case ResourceType.BROKER.value:
                return self._broker(name, layers)
            case ResourceType.GROUP.value:
                return self._group(name, layers)
            case ResourceType.CLIENT_METRICS.value:
                return self._client_metrics(name)
            case other:
                text = f"Unexpected resource type {other} for resource {name}"
                raise _Refusal(ErrorCode.INVALID_REQUEST, text)

    def _topic(self, name: str) -> Iterable[Effective]:
        wrong = illegal_topic_name(name)
        if wrong is not None:
            raise _Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        topic = self.coordinator.state.topics.by_name.get(name)
        if topic is None:
            raise _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return (
            self.cluster.topic_config(topic.configs, each.name)
            for each in TOPIC_CONFIGS.values()
            if each.listed or each.name in topic.configs
        )

    def _broker(self, name: str, layers: BrokerLayers) -> Iterable[Effective]:
        if name:
            self._check_node_id(name)
            return (self.cluster.broker_config(each) for each in BROKER_CONFIGS)
        of_all = (effective_broker_config(layers, each) for each in layers.dynamic_default)
        return (_as_default_of_all(each, layers) for each in of_all)

    def _check_node_id(self, name: str, *, may_be_empty: bool = True) -> None:
        if not name:
            raise _Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        if not NODE_ID.fullmatch(name):
            text = f"Broker id must be an integer, but it is: {name}"
            raise _Refusal(ErrorCode.INVALID_REQUEST, text)
        own = self.settings.int("node.id")
        if int(name) != own:
            expected = f"{own} or empty string," if may_be_empty else str(own)
            text = f"Unexpected broker id, expected {expected} but received {name}"
            raise _Refusal(ErrorCode.INVALID_REQUEST, text)

    def _group(self, name: str, layers: BrokerLayers) -> Iterable[Effective]:
        if not name:
            raise _Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        configs = self.coordinator.state.configs.get(ResourceType.GROUP.value, name)
        return (effective_group_config(configs, layers, each) for each in GROUP_CONFIGS)

    def _client_metrics(self, name: str) -> Iterable[Effective]:
        if not name:
            text = "Client metrics subscription name must not be empty"
            raise _Refusal(ErrorCode.INVALID_REQUEST, text)
        configs = self.coordinator.state.configs.get(ResourceType.CLIENT_METRICS.value, name)
        return (effective_client_metrics_config(configs, each) for each in CLIENT_METRICS_CONFIGS)


def _too_much(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=ErrorCode.POLICY_VIOLATION,
        error_message="Too much for one answer: ask for fewer resources at once.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _as_default_of_all(effective: Effective, layers: BrokerLayers) -> Effective:
    """For the empty name show only the cluster-wide default, as Kafka does."""
    name = effective.definition.name
    value = None if effective.definition.is_sensitive else layers.dynamic_default[name]
    source = Source.DYNAMIC_DEFAULT_BROKER
    return Effective(effective.definition, value, source, (Synonym(name, value, source),))


def _level_row(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER, documentation=""
    )


def _row(
    effective: Effective, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    definition = effective.definition
    is_broker = resource.resource_type == ResourceType.BROKER.value
    row = DescribeConfigsResourceResult(
        name=definition.name,
        value=effective.value,
        read_only=is_broker and definition.update is Update.READ_ONLY,
        config_source=effective.source,
        is_sensitive=definition.is_sensitive,
        config_type=definition.type,
        documentation=definition.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        row.synonyms = [DescribeConfigsSynonym(*each) for each in effective.synonyms]
    return row
