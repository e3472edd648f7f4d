"""CreateTopics: versions 2-7.

Differs from Kafka: any replication factor from 1 on is accepted, as a label; timeout_ms is ignored,
since every gateway serves the topic once the client has the answer.

Topics beyond the client's quota of mutations get THROTTLING_QUOTA_EXCEEDED; below version 6 they
are created, and the client is throttled (KIP-599).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.topics import Created, NewTopic, Refused, duplicates
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_topics as wire
from tidegate_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from ...network.call import Call, Mutations
from ...network.turns import Turns
from ...settings.broker_settings import BrokerSettings
from ...topics.topic_creation import OverQuota, create_within
from .topic_errors import OVER_QUOTA, failure_text, mutation_quota, topic_error

STRICT_SINCE: Final = 6
"""Versions from here on know THROTTLING_QUOTA_EXCEEDED."""


@dataclass(frozen=True, slots=True)
class CreateTopicsHandler:
    """new_topic_id: returns 16 random bytes."""

    coordinator: Coordinator
    settings: BrokerSettings
    new_topic_id: Callable[[], bytes]
    cluster: ClusterSettings
    api_key: ClassVar[int] = ApiKey.CREATE_TOPICS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Answer for each topic; a repeated name gets one answer."""
        twice = duplicates(topic.name for topic in request.topics)
        wanted = [topic for topic in request.topics if topic.name not in twice]
        results = [
            _refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name in sorted(twice)
        ]
        quota = mutation_quota(call, STRICT_SINCE)
        results += await self._create(wanted, quota, validate_only=request.validate_only)
        return CreateTopicsResponse(topics=results)

    async def _create(
        self, wanted: list[CreatableTopic], quota: Mutations | None, *, validate_only: bool
    ) -> list[CreatableTopicResult]:
        turns = Turns()
        results: list[CreatableTopicResult] = []
        sound: list[NewTopic] = []
        for each in wanted:
            refusal = _contradiction(each)
            if refusal is None:
                sound.append(self._new_topic(each))
            else:
                results.append(_refused(each.name, *refusal))
            await turns.count()
        try:
            answers = await create_within(
                quota, self.coordinator, self.settings, sound, validate_only=validate_only
            )
        except ProposalFailed as failure:
            code, text = ErrorCode.UNKNOWN_SERVER_ERROR, failure_text(failure)
            return results + [_refused(topic.name, code, text) for topic in sound]
        for topic, answer in zip(sound, answers, strict=True):
            results.append(_result(topic.name, answer, self.cluster))
            await turns.count(len(TOPIC_CONFIGS))
        return results

    def _new_topic(self, topic: CreatableTopic) -> NewTopic:
        return NewTopic(
            self.new_topic_id(),
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            {each.partition_index: tuple(each.broker_ids) for each in topic.assignments},
            {each.name: each.value for each in topic.configs},
        )


def _contradiction(topic: CreatableTopic) -> tuple[ErrorCode, str] | None:
    """Return the error for partitions that occur twice, which a mapping could not show.

    If a config occurs twice, the last value counts, as in Kafka.
    """
    # If there are numbers and an assignment, the rule refuses the topic; Kafka makes this check
    # first.
    if (topic.num_partitions, topic.replication_factor) != (-1, -1):
        return None
    twice = duplicates(str(each.partition_index) for each in topic.assignments)
    if twice:
        text = f"Found multiple manual partition assignments for partition {min(twice)}"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    return None


def _result(
    name: str, answer: Created | Refused | OverQuota, cluster: ClusterSettings
) -> CreatableTopicResult:
    if isinstance(answer, OverQuota):
        return _refused(name, *OVER_QUOTA)
    if isinstance(answer, Refused):
        return _refused(name, *topic_error(answer))
    return CreatableTopicResult(
        name=name,
        topic_id=answer.topic_id,
        error_message=None,
        num_partitions=answer.partition_count,
        replication_factor=answer.replication_factor,
        configs=_configs(answer, cluster),
    )


def _configs(created: Created, cluster: ClusterSettings) -> list[CreatableTopicConfigs]:
    names = (name for name, each in TOPIC_CONFIGS.items() if each.listed or name in created.configs)
    shown = (cluster.topic_config(created.configs, name) for name in names)
    return [
        CreatableTopicConfigs(
            name=each.definition.name,
            value=each.value,
            config_source=each.source,
            is_sensitive=each.definition.is_sensitive,
        )
        for each in shown
    ]


def _refused(name: str, code: ErrorCode, text: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=text)
