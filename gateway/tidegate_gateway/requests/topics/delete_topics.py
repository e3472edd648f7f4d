"""DeleteTopics: versions 1-6, by name or, from version 6, by id.

The objects with the records are deleted later, but no client can read them any more.  Topics beyond
the client's quota of mutations get THROTTLING_QUOTA_EXCEEDED; below version 5 they are deleted, and
the client is throttled (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topics import (
    Deleted,
    DeleteTopics,
    Refused,
    TopicKey,
    TopicRefusal,
)
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import delete_topics as wire
from tidegate_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidegate_protocol.primitives import ZERO_UUID

from ...network.call import Call, Mutations
from ...settings.broker_settings import BrokerSettings
from ...topics.looks import Look, is_changed
from .topic_errors import OVER_QUOTA, mutation_quota, topic_error

TOPICS_PER_PROPOSAL = 1_500
FIRST_VERSION_WITH_DISABLED = 3
STRICT_SINCE = 5
"""Versions from here on know THROTTLING_QUOTA_EXCEEDED."""
_NAMED_TWICE: Final = "The provided topic name maps to an ID that was already supplied."


@dataclass(frozen=True, slots=True)
class DeleteTopicsHandler:
    """Answers DeleteTopics requests."""

    coordinator: Coordinator
    settings: BrokerSettings
    api_key: ClassVar[int] = ApiKey.DELETE_TOPICS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Answer for each topic."""
        asked = request.topics + [DeleteTopicState(name=name) for name in request.topic_names]
        if not self.settings.bool("delete.topic.enable"):
            return DeleteTopicsResponse(responses=[_disabled(each, call) for each in asked])
        counts = Counter((each.name, each.topic_id) for each in asked)
        results: list[DeletableTopicResult] = []
        wanted: list[TopicKey] = []
        for (name, topic_id), count in counts.items():
            text = _wrong(name, topic_id, count)
            if text is None:
                wanted.append(TopicKey(name, topic_id))
            else:
                results.append(_refused(name, topic_id, ErrorCode.INVALID_REQUEST, text))
        results += await self._delete(wanted, mutation_quota(call, STRICT_SINCE))
        return DeleteTopicsResponse(responses=results)

    async def _delete(
        self, wanted: list[TopicKey], quota: Mutations | None
    ) -> list[DeletableTopicResult]:
        """Delete topics by their present ids, since a late proposal must not delete a new topic.

        A new topic may have the same name.
        """
        look = Look(self.coordinator)
        await look.take(each.name for each in wanted if each.name is not None)
        known = [(each, topic) for each in wanted if (topic := self._known(look, each)) is not None]
        twice = _named_twice(known)
        if twice:
            gone = frozenset(each for each, topic in known if topic.shown_id in twice)
            wanted = [each for each in wanted if each not in gone]
            known = [(each, topic) for each, topic in known if each not in gone]
        answers: dict[TopicKey, DeletableTopicResult] = {}
        over = frozenset(each for each, topic in known if not _takes(quota, topic))
        known = [(each, topic) for each, topic in known if each not in over]
        for first in range(0, len(known), TOPICS_PER_PROPOSAL):
            part = known[first : first + TOPICS_PER_PROPOSAL]
            keys = [_stored_key(each, topic) for each, topic in part]
            told = await look.propose(keys, DeleteTopics, is_changed)
            for (each, topic), answer in zip(part, told, strict=True):
                answers[each] = _result(each, topic, answer)
        refused = [
            _refused(name, topic_id, ErrorCode.INVALID_REQUEST, _NAMED_TWICE)
            for topic_id, name in twice.items()
        ]
        return refused + [
            _refused(each.name, each.topic_id or ZERO_UUID, *OVER_QUOTA)
            if each in over
            else answers.get(each) or _unknown(each)
            for each in wanted
        ]

    def _known(self, look: Look, wanted: TopicKey) -> Topic | None:
        if wanted.name is None:
            return self.coordinator.state.topics.by_shown_id.get(wanted.topic_id)
        return look.topic(wanted.name)


def _stored_key(_: TopicKey, topic: Topic) -> TopicKey:
    """Return the key for the rule; the requested name could later belong to another topic."""
    return TopicKey(None, topic.topic_id)


def _takes(quota: Mutations | None, topic: Topic) -> bool:
    """Count the partitions of a topic to delete; return False if the quota refuses it."""
    return quota is None or quota.take(len(topic.partition_numbers))


def _named_twice(known: Sequence[tuple[TopicKey, Topic]]) -> dict[bytes, str]:
    """Return the topics that a request names both by name and by id, as shown id -> name.

    As in Kafka, these are not deleted, and get one answer.  known: the keys as sent, with their
    topics.
    """
    by_id = {asked.topic_id for asked, _ in known if asked.name is None}
    return {
        topic.shown_id: asked.name
        for asked, topic in known
        if asked.name is not None and topic.shown_id in by_id
    }


def _wrong(name: str | None, topic_id: bytes, count: int) -> str | None:
    if name is None and topic_id == ZERO_UUID:
        return "Neither topic name nor id were specified."
    if name is not None and topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    if count > 1:
        return "Duplicate topic id." if name is None else "Duplicate topic name."
    return None


def _result(wanted: TopicKey, topic: Topic, answer: Deleted | Refused) -> DeletableTopicResult:
    if isinstance(answer, Deleted):
        return DeletableTopicResult(name=answer.name, topic_id=topic.shown_id)
    if answer.reason is TopicRefusal.UNKNOWN_ID:
        return _unknown(wanted)
    topic_id = wanted.topic_id if wanted.name is None else ZERO_UUID
    return _refused(wanted.name, topic_id, *topic_error(answer))


def _unknown(wanted: TopicKey) -> DeletableTopicResult:
    is_named = wanted.name is not None
    reason = TopicRefusal.UNKNOWN_NAME if is_named else TopicRefusal.UNKNOWN_ID
    topic_id = ZERO_UUID if is_named else wanted.topic_id
    return _refused(wanted.name, topic_id, *topic_error(Refused(reason, "")))


def _refused(name: str | None, topic_id: bytes, code: int, text: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=text)


def _disabled(asked: DeleteTopicState, call: Call) -> DeletableTopicResult:
    is_known = call.version >= FIRST_VERSION_WITH_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
    text = error_text(ErrorCode.TOPIC_DELETION_DISABLED)
    return _refused(asked.name, asked.topic_id, code, text)
