"""The guard of Metadata, which needs DESCRIBE on each topic.

To auto-create a topic, the client needs CREATE on the topic or on the cluster.  A request for all
topics gets the topics that the client may describe.  The refusal of a topic by id does not have the
topic's name; ids are not secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate_coordination.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidegate_coordination.state.topics import TopicTable
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidegate_protocol.primitives import ZERO_UUID

from ...security.guard import Ask, Caller, Guarding, parted
from ...security.operations import NOT_ASKED, OF_CLUSTER, OF_TOPIC
from ...topics.internal_topics import INTERNAL_TOPICS

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NULL_FOR_ALL_SINCE: Final = 1
_TOPIC_IDS_SINCE: Final = 12


def asks_for_new_topics(topics: TopicTable, request: MetadataRequest) -> bool:
    """Return whether a request may create topics.

    Dispatch calls this often, mostly with known topics.
    """
    if not (request.allow_auto_topic_creation and request.topics):
        return False
    known = topics.by_name
    return any(each.name and each.name not in known for each in request.topics)


def guard_metadata(caller: Caller, request: MetadataRequest) -> Guarding:
    """See the module's head."""
    if request.topics is None or (not request.topics and caller.version < _NULL_FOR_ALL_SINCE):
        response: MetadataResponse = yield request
        response.topics = yield from _shown(caller, response.topics, is_all=True)
        return _with_cluster_bits(caller, response)
    seen, out = yield from parted(request.topics, lambda each: _is_visible(caller, each))
    denied = [_refused(each) for each in out]
    if request.allow_auto_topic_creation and caller.creates_topics:
        return (yield from _created(caller, request, seen, denied))
    return (yield from _answered(caller, request, [seen], denied))


def _created(
    caller: Caller,
    request: MetadataRequest,
    seen: list[MetadataRequestTopic],
    denied: list[MetadataResponseTopic],
) -> Guarding:
    """Let the handler create only topics that the client may create.

    The handler gets the other topics in a request that creates none: an existing topic may be
    deleted before the handler looks.
    """
    by_name = caller.topics.by_name
    _, missing = yield from parted(seen, lambda each: each.name is None or each.name in by_name)
    if missing:
        yield Ask.CATCH_UP  # this replica may not have read them yet
    creatable, others = yield from parted(seen, lambda each: _may_create(caller, each))
    there, not_there = yield from parted(others, lambda each: not each.name or each.name in by_name)
    for each in not_there:
        assert each.name is not None
        if caller.may_topic(Operation.CREATE, each.name):  # this logs a denial
            creatable.append(each)
        else:
            denied.append(_refused(each))
    return (yield from _answered(caller, request, [there, creatable], denied))


def _answered(
    caller: Caller,
    request: MetadataRequest,
    parts: list[list[MetadataRequestTopic]],
    denied: list[MetadataResponseTopic],
) -> Guarding:
    """Call the handler for each part, and join the answers; only the last part may create topics.

    If all parts are empty, call it without topics, to get the brokers.
    """
    allows = request.allow_auto_topic_creation
    asked = [(part, allows and part is parts[-1]) for part in parts if part]
    response = MetadataResponse()
    shown: list[MetadataResponseTopic] = []
    for part, may_create in asked or [(_no_topic(caller), False)]:
        request.topics, request.allow_auto_topic_creation = part, may_create
        response = yield request
        shown += yield from _shown(caller, response.topics if asked else [], is_all=False)
    response.topics = [*shown, *denied]
    return _with_cluster_bits(caller, response)


def _no_topic(caller: Caller) -> list[MetadataRequestTopic]:
    """Return a list of topics that means "none": in version 0 an empty list means all topics."""
    return [MetadataRequestTopic(name="")] if caller.version < _NULL_FOR_ALL_SINCE else []


def _with_cluster_bits(caller: Caller, response: MetadataResponse) -> MetadataResponse:
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = cluster_bits(caller)
    return response


def cluster_bits(caller: Caller) -> int:
    """Return the operations that the client may do on the cluster; 0 without DESCRIBE on it."""
    if not caller.may_cluster(Operation.DESCRIBE):
        return 0
    return caller.bits(OF_CLUSTER, ResourceType.CLUSTER, CLUSTER_NAME)


def _is_visible(caller: Caller, asked: MetadataRequestTopic) -> bool:
    """Return whether the handler may look for the topic.

    The handler itself refuses values that the version cannot have.  If an id is not known yet, the
    answer's name is checked later.
    """
    if asked.topic_id != ZERO_UUID:
        name = caller.name_of(asked.topic_id)
        is_new = caller.version < _TOPIC_IDS_SINCE
        return is_new or name is None or caller.may_topic(Operation.DESCRIBE, name)
    return asked.name is None or caller.may_topic(Operation.DESCRIBE, asked.name)


def _may_create(caller: Caller, asked: MetadataRequestTopic) -> bool:
    """Return whether the client may create the topic if it does not exist."""
    if asked.topic_id != ZERO_UUID or asked.name is None:
        return False
    if caller.sees_cluster(Operation.CREATE):
        return True
    return caller.rights.sees(Operation.CREATE, ResourceType.TOPIC, asked.name)


def _refused(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        return MetadataResponseTopic(_DENIED, None, asked.topic_id)
    return MetadataResponseTopic(_DENIED, asked.name, is_internal=asked.name in INTERNAL_TOPICS)


def _shown(caller: Caller, topics: list[MetadataResponseTopic], *, is_all: bool) -> Guarding:
    """Return the answers about topics that the client may describe.

    The handler reuses its answers for other clients, so this changes none of them.
    """
    shown: list[MetadataResponseTopic] = []
    for at, each in enumerate(topics, start=1):
        if each.error_code or each.name is None or caller.sees_topic(each.name):
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
