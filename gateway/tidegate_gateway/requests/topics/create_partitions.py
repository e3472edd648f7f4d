"""CreatePartitions: versions 0-3.

Each topic has one row.  A topic gets all its new partitions or none, so after a success a retry
finds them all.  The limit on the partitions that a request adds counts all its topics and
proposals.  Topics beyond the client's quota of mutations get THROTTLING_QUOTA_EXCEEDED; below
version 3 they grow, and the client is throttled (KIP-599).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY_PARTITIONS,
    CreatePartitions,
    Growth,
    Refused,
    TopicRefusal,
    duplicates,
)
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_partitions as wire
from tidegate_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

from ...network.call import Call, Mutations
from ...topics.looks import Look, is_changed
from .topic_errors import OVER_QUOTA, mutation_quota, topic_error

TOPICS_PER_PROPOSAL = 500
STRICT_SINCE = 3
"""Versions from here on know THROTTLING_QUOTA_EXCEEDED."""
_TOO_MUCH = Refused(TopicRefusal.TOO_MUCH, TOO_MANY_PARTITIONS)


@dataclass(frozen=True, slots=True)
class CreatePartitionsHandler:
    """Answers CreatePartitions requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.CREATE_PARTITIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Answer for each topic; a repeated name gets one answer."""
        twice = duplicates(topic.name for topic in request.topics)
        results = [
            CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name in sorted(twice)
        ]
        wanted = [_growth(topic) for topic in request.topics if topic.name not in twice]
        look = Look(self.coordinator)
        await look.take(each.name for each in wanted)
        quota = mutation_quota(call, STRICT_SINCE)
        over = [each for each in wanted if not self._takes(quota, each)]
        results += [CreatePartitionsTopicResult(each.name, *OVER_QUOTA) for each in over]
        wanted = [each for each in wanted if each not in over]

        def proposal(part: Sequence[Growth], seen: int) -> CreatePartitions:
            topic_ids = look.topic_ids(each.name for each in part)
            return CreatePartitions(part, request.validate_only, seen, topic_ids)

        room = MAX_PARTITIONS_PER_REQUEST
        for first in range(0, len(wanted), TOPICS_PER_PROPOSAL):
            part = wanted[first : first + TOPICS_PER_PROPOSAL]
            added = [self._added(each) for each in part]
            all_added = list(accumulate(added))
            fitting = [each for at, each in enumerate(part) if all_added[at] <= room]
            answers = await look.propose(fitting, proposal, is_changed) if fitting else []
            room -= sum(count for count, answer in zip(added, answers, strict=False) if not answer)
            if len(fitting) < len(part):
                room = 0  # and all later topics, even small ones
            refused = [*answers, *[_TOO_MUCH] * (len(part) - len(fitting))]
            results += [_result(each, answer) for each, answer in zip(part, refused, strict=True)]
        return CreatePartitionsResponse(results=results)

    def _takes(self, quota: Mutations | None, growth: Growth) -> bool:
        added = self._added(growth)
        return quota is None or not added or quota.take(added)

    def _added(self, growth: Growth) -> int:
        """Return how many partitions would be new.

        0 if the topic is unknown here, or the number is not above 0 or is too large.
        """
        topic = self.coordinator.state.topics.by_name.get(growth.name)
        added = growth.partition_count - len(topic.partition_numbers) if topic else 0
        return added if 0 < added <= MAX_PARTITIONS_PER_REQUEST else 0


def _growth(topic: CreatePartitionsTopic) -> Growth:
    if topic.assignments is None:
        return Growth(topic.name, topic.count)
    lists = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return Growth(topic.name, topic.count, lists)


def _result(growth: Growth, refused: Refused | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(growth.name)
    return CreatePartitionsTopicResult(growth.name, *topic_error(refused))
