"""The guard of Metadata: DESCRIBE of each topic.  If a topic is to be created on the way: CREATE of
it or on the cluster.

Without names the client gets all topics that it may describe.  A topic that is asked for by id is
refused without its name; ids are not secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate_coordination.security.acls import CLUSTER_NAME, Operation, ResourceType

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidegate_protocol.primitives import ZERO_UUID

from ...topics.internal_topics import INTERNAL_TOPICS
from ..guard import Ask, Caller, Guarding, parted
from ..operations import NOT_ASKED, OF_CLUSTER, OF_TOPIC

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NULL_FOR_ALL_SINCE: Final = 1


def guard_metadata(caller: Caller, request: MetadataRequest) -> Guarding:
    """See the module's head."""
    is_all = request.topics is None or (not request.topics and caller.version < _NULL_FOR_ALL_SINCE)
    denied: list[MetadataResponseTopic] = []
    has_named = False
    if not is_all:
        allowed, out = yield from parted(
            request.topics or (), lambda each: _is_allowed(caller, each, request)
        )
        denied = [_refused(each) for each in out]
        has_named = bool(out) and not allowed
        request.topics = allowed
    if has_named and caller.version < _NULL_FOR_ALL_SINCE:
        # The handler would take an empty list for all topics; this name is in no cluster.
        request.topics = [MetadataRequestTopic(name="")]
    response: MetadataResponse = yield request
    if has_named:
        response.topics = []
    response.topics = yield from _shown(caller, response.topics, is_all=is_all)
    response.topics += denied
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_bits(caller)
    return response


def cluster_bits(caller: Caller) -> int:
    """Return what the client may do with the cluster; none without DESCRIBE of it."""
    if not caller.may_cluster(Operation.DESCRIBE):
        return 0
    return caller.bits(OF_CLUSTER, ResourceType.CLUSTER, CLUSTER_NAME)


def _is_allowed(caller: Caller, asked: MetadataRequestTopic, request: MetadataRequest) -> bool:
    """Return whether the handler may look for the topic.

    The name of an id that is not known yet is checked in the answer.
    """
    if asked.topic_id != ZERO_UUID:
        name = caller.name_of(asked.topic_id)
        return name is None or caller.may_topic(Operation.DESCRIBE, name)
    name = asked.name
    if name is None:
        return True  # the handler refuses it
    if not caller.may_topic(Operation.DESCRIBE, name):
        return False
    may_be_created = request.allow_auto_topic_creation and caller.creates_topics
    if not may_be_created or name in caller.topics.by_name:
        return True
    return caller.sees_cluster(Operation.CREATE) or caller.may_topic(Operation.CREATE, name)


def _refused(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        return MetadataResponseTopic(_DENIED, None, asked.topic_id)
    return MetadataResponseTopic(_DENIED, asked.name, is_internal=asked.name in INTERNAL_TOPICS)


def _shown(caller: Caller, topics: list[MetadataResponseTopic], *, is_all: bool) -> Guarding:
    """Return the answers about topics that the client may describe.

    The handler keeps answers for others, so none is changed.
    """
    shown: list[MetadataResponseTopic] = []
    for at, each in enumerate(topics, start=1):
        if each.name is None or caller.sees_topic(each.name):
            shown.append(_with_bits(caller, each))
        elif not is_all:
            shown.append(MetadataResponseTopic(_DENIED, None, each.topic_id))
        if not at % 200:
            yield Ask.PAUSE
    return shown


def _with_bits(caller: Caller, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if topic.topic_authorized_operations == NOT_ASKED:
        return topic
    bits = caller.bits(OF_TOPIC, ResourceType.TOPIC, topic.name or "")
    return replace(topic, topic_authorized_operations=bits)
