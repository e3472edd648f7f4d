"""Guards of the APIs that show, create, alter and delete topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
)
from tidegate_protocol.primitives import ZERO_UUID

from ..guard import Ask, Caller, Guarding, parted
from ..operations import OF_TOPIC

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TOPIC_IDS_SINCE: Final = 6
_CONFIGS_SHOWN_SINCE: Final = 5


def guard_create_topics(caller: Caller, request: create_topics.CreateTopicsRequest) -> Guarding:
    """CREATE on the cluster, or of each topic.  DESCRIBE_CONFIGS shows the configs of a new one.

    Repeated names go to the handler, which refuses them.
    """
    denied: list[create_topics.CreatableTopic] = []
    if not caller.sees_cluster(Operation.CREATE):
        counts = Counter(each.name for each in request.topics)
        request.topics, denied = yield from parted(
            request.topics,
            lambda each: counts[each.name] > 1 or caller.may_topic(Operation.CREATE, each.name),
        )
    response: create_topics.CreateTopicsResponse = yield request
    sees = caller.rights.sees
    for each in response.topics:
        is_shown = sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, each.name)
        if not (each.error_code or is_shown) and caller.version >= _CONFIGS_SHOWN_SINCE:
            each.topic_config_error_code = _DENIED
            each.configs = None
            each.num_partitions = each.replication_factor = -1
    response.topics += [
        create_topics.CreatableTopicResult(
            name=each.name, error_code=_DENIED, error_message="Authorization failed."
        )
        for each in denied
    ]
    return response


def guard_create_partitions(
    caller: Caller, request: create_partitions.CreatePartitionsRequest
) -> Guarding:
    """ALTER of each topic."""
    counts = Counter(each.name for each in request.topics)
    request.topics, denied = yield from parted(
        request.topics,
        lambda each: counts[each.name] > 1 or caller.may_topic(Operation.ALTER, each.name),
    )
    response: create_partitions.CreatePartitionsResponse = yield request
    response.results += [
        create_partitions.CreatePartitionsTopicResult(each.name, _DENIED, None) for each in denied
    ]
    return response


def guard_delete_topics(caller: Caller, request: delete_topics.DeleteTopicsRequest) -> Guarding:
    """DELETE on the cluster, or DESCRIBE and DELETE of each topic.

    A client that may only describe a topic learns that it is not there.  Answers are in the order
    of their names and ids, so that their places do not show that a topic exists.
    """
    asked = [*request.topics, *(delete_topics.DeleteTopicState(e) for e in request.topic_names)]
    if any(map(partial(_is_unknown, caller), asked)):
        yield Ask.CATCH_UP
    denied: list[delete_topics.DeletableTopicResult] = []
    if not caller.sees_cluster(Operation.DELETE):
        names = Counter(each.name for each in asked if each.name is not None)
        allowed, out = yield from parted(asked, lambda each: _may_delete(caller, each, names))
        denied = [_not_deleted(caller, each) for each in out]
        by_name = request.topic_names
        request.topics = [each for each in allowed if each.name not in by_name]
        request.topic_names = [e.name for e in allowed if e.name is not None and e.name in by_name]
    response: delete_topics.DeleteTopicsResponse = yield request
    response.responses += denied
    response.responses.sort(key=lambda each: (each.name or "", each.topic_id))
    return response


def _is_unknown(caller: Caller, asked: delete_topics.DeleteTopicState) -> bool:
    """Return whether the log must be read to its end: it may have an id, or a name that the client
    may see.
    """
    if asked.name is None:
        return asked.topic_id != ZERO_UUID and caller.name_of(asked.topic_id) is None
    return asked.name not in caller.topics.by_name and caller.sees_topic(asked.name)


def _may_delete(caller: Caller, asked: delete_topics.DeleteTopicState, names: Counter[str]) -> bool:
    """Return whether the handler may have it: it answers what is wrong without a right, too."""
    name = asked.name
    if name is not None:
        if asked.topic_id != ZERO_UUID or names[name] > 1:
            return True
        may = caller.may_topic
        return may(Operation.DESCRIBE, name) and may(Operation.DELETE, name)
    if asked.topic_id == ZERO_UUID:
        return True
    known = caller.name_of(asked.topic_id)
    return known is not None and caller.may_topic(Operation.DELETE, known)


def _not_deleted(
    caller: Caller, asked: delete_topics.DeleteTopicState
) -> delete_topics.DeletableTopicResult:
    if asked.name is not None:
        is_missing = asked.name not in caller.topics.by_name and caller.sees_topic(asked.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_missing else _DENIED
        return _refused(asked.name, ZERO_UUID, code)
    name = caller.name_of(asked.topic_id)
    if name is None:
        return _refused(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    return _refused(name if caller.sees_topic(name) else None, asked.topic_id, _DENIED)


def _refused(
    name: str | None, topic_id: bytes, code: ErrorCode
) -> delete_topics.DeletableTopicResult:
    return delete_topics.DeletableTopicResult(name, topic_id, code, error_text(code))


def guard_describe_topic_partitions(
    caller: Caller, request: describe_topic_partitions.DescribeTopicPartitionsRequest
) -> Guarding:
    """DESCRIBE of each topic; without names, all that the client may describe."""
    answer_of = describe_topic_partitions.DescribeTopicPartitionsResponseTopic
    allowed, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.DESCRIBE, each.name)
    )
    response = describe_topic_partitions.DescribeTopicPartitionsResponse()
    if allowed or not denied:
        response = yield replace(request, topics=allowed, cursor=_cursor(request, allowed))
        response.topics, _ = yield from parted(
            response.topics, lambda each: each.name is None or caller.sees_topic(each.name)
        )
    for each in response.topics:
        name = each.name or ""
        each.topic_authorized_operations = caller.bits(OF_TOPIC, ResourceType.TOPIC, name)
    response.topics += [answer_of(_DENIED, each.name) for each in denied]
    return response


def _cursor(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest,
    allowed: list[describe_topic_partitions.TopicRequest],
) -> describe_topic_partitions.DescribeTopicPartitionsRequestCursor | None:
    """Return the cursor; at a topic that the client may not see any more, at the next one."""
    cursor = request.cursor
    if cursor is None or not allowed or any(e.name == cursor.topic_name for e in allowed):
        return cursor
    if all(each.name != cursor.topic_name for each in request.topics):
        return cursor  # it names none of the topics, which the handler refuses
    later = [each.name for each in allowed if each.name > cursor.topic_name]
    first = min(later, default=max(each.name for each in allowed))
    return replace(cursor, topic_name=first, partition_index=0)
