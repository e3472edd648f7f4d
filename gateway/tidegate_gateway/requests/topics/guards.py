"""Guards of the APIs that show, create, alter and delete topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Final, TypeAlias

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
)
from tidegate_protocol.primitives import ZERO_UUID

from ...network.turns import SORTED_AT_ONCE
from ...security.guard import ITEMS_A_TURN, Ask, Caller, Guarding, parted
from ...security.operations import OF_TOPIC

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CONFIGS_SHOWN_SINCE: Final = 5
MAX_PAGE: Final = 10_000
"""Partitions of an answer of DescribeTopicPartitions, whatever the client and the settings say."""


def guard_create_topics(caller: Caller, request: create_topics.CreateTopicsRequest) -> Guarding:
    """CREATE on the cluster, or of each topic.

    A client with DESCRIBE_CONFIGS of a new topic is shown its configs.

    Repeated names go to the handler, which refuses them.
    """
    denied: list[create_topics.CreatableTopic] = []
    if not caller.sees_cluster(Operation.CREATE):
        counts = Counter(each.name for each in request.topics)
        request.topics, denied = yield from parted(
            request.topics,
            lambda each: counts[each.name] > 1 or caller.may_topic(Operation.CREATE, each.name),
        )
    response = create_topics.CreateTopicsResponse()
    if request.topics or not denied:
        response = yield request
    sees = caller.rights.sees
    for at, each in enumerate(response.topics, start=1):
        if not at % ITEMS_A_TURN:
            yield Ask.PAUSE
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
    response = create_partitions.CreatePartitionsResponse()
    if request.topics or not denied:
        response = yield request
    response.results += [
        create_partitions.CreatePartitionsTopicResult(each.name, _DENIED, None) for each in denied
    ]
    return response


def guard_delete_topics(caller: Caller, request: delete_topics.DeleteTopicsRequest) -> Guarding:
    """DELETE on the cluster, or DESCRIBE and DELETE of each topic.

    A client that may describe a topic, but not delete it, is still told if the topic does not
    exist.  Answers are sorted by name and id, so that their order does not reveal whether a topic
    exists.
    """
    named = [delete_topics.DeleteTopicState(name) for name in request.topic_names]
    asked = [*request.topics, *named]
    _, unknown = yield from parted(asked, lambda each: not _is_unknown(caller, each))
    if unknown:
        yield Ask.CATCH_UP
    denied: list[delete_topics.DeletableTopicResult] = []
    if not caller.sees_cluster(Operation.DELETE):
        counts = Counter((each.name, each.topic_id) for each in asked)
        request.topics, out = yield from parted(
            request.topics, lambda each: _may_delete(caller, each, counts)
        )
        named, others = yield from parted(named, lambda each: _may_delete(caller, each, counts))
        request.topic_names = [each.name for each in named if each.name is not None]
        denied = [_not_deleted(caller, each) for each in (*out, *others)]
    response = delete_topics.DeleteTopicsResponse()
    if request.topics or request.topic_names or not denied:
        response = yield request
    response.responses += denied
    response.responses.sort(key=_place)
    return response


def _place(result: delete_topics.DeletableTopicResult) -> tuple[str, bytes]:
    return result.name or "", result.topic_id


def _is_unknown(caller: Caller, asked: delete_topics.DeleteTopicState) -> bool:
    """Return whether the log must be read to its end before the answer.

    It must for an id that is unknown here, and for an unknown name that the client may see.
    """
    if asked.name is None:
        return asked.topic_id != ZERO_UUID and caller.name_of(asked.topic_id) is None
    return asked.name not in caller.topics.by_name and caller.sees_topic(asked.name)


def _may_delete(
    caller: Caller,
    asked: delete_topics.DeleteTopicState,
    counts: Counter[tuple[str | None, bytes]],
) -> bool:
    """Return whether a row may go to the handler.

    The handler refuses repeated topics, and rows with both name and id, or neither; so such rows
    need no right.  This function must count repeats exactly as the handler does.  If it took two
    rows for a repeat and the handler did not, the handler would delete a topic without a check of
    the right.
    """
    name, topic_id = asked.name, asked.topic_id
    has_one = (name is None) != (topic_id == ZERO_UUID)
    if not has_one or counts[name, topic_id] > 1:
        return True
    if name is not None:
        may = caller.may_topic
        return may(Operation.DESCRIBE, name) and may(Operation.DELETE, name)
    known = caller.name_of(topic_id)
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
    """DESCRIBE of each topic; without names, all that the client may describe.

    The handler pages over the names that it gets, and its cursor names the next topic.  So it gets
    only topics that the client may see.
    """
    denied: list[describe_topic_partitions.TopicRequest] = []
    if request.topics:
        names, denied = yield from parted(
            request.topics, lambda each: caller.may_topic(Operation.DESCRIBE, each.name)
        )
        cursor = _cursor(request, [each.name for each in names])
    else:
        visible = yield from _visible(caller, request)
        names = [describe_topic_partitions.TopicRequest(each) for each in visible]
        cursor = _cursor_of_all(request, visible)
    response = describe_topic_partitions.DescribeTopicPartitionsResponse()
    if names:
        response = yield replace(request, topics=names, cursor=cursor)
    for at, each in enumerate(response.topics, start=1):
        name = each.name or ""
        each.topic_authorized_operations = caller.bits(OF_TOPIC, ResourceType.TOPIC, name)
        if not at % ITEMS_A_TURN:
            yield Ask.PAUSE
    answer_of = describe_topic_partitions.DescribeTopicPartitionsResponseTopic
    response.topics += [answer_of(_DENIED, each.name) for each in denied]
    return response


def _visible(
    caller: Caller, request: describe_topic_partitions.DescribeTopicPartitionsRequest
) -> Generator[Ask, None, list[str]]:
    """Return visible names in order, from the cursor on: at most one more than a page can hold."""
    first = request.cursor.topic_name if request.cursor is not None else ""
    most = min(max(request.response_partition_limit, 1), MAX_PAGE) + 1
    names = iter(tuple(caller.topics.by_name))
    runs: list[list[str]] = []
    while run := list(islice(names, SORTED_AT_ONCE)):
        runs.append(sorted(name for name in run if name >= first))
        yield Ask.PAUSE
    found: list[str] = []
    for at, name in enumerate(merge(*runs), start=1):
        if caller.sees_topic(name):
            found.append(name)
            if len(found) == most:
                break
        if not at % ITEMS_A_TURN:
            yield Ask.PAUSE
    return found


_AskedCursor: TypeAlias = describe_topic_partitions.DescribeTopicPartitionsRequestCursor


def _cursor_of_all(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, visible: list[str]
) -> _AskedCursor | None:
    """Return the cursor, moved to the next visible topic if the client may not see its topic."""
    cursor = request.cursor
    if cursor is None or not visible or visible[0] == cursor.topic_name:
        return cursor
    return replace(cursor, topic_name=visible[0], partition_index=0)


def _cursor(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, allowed: list[str]
) -> _AskedCursor | None:
    """Return the cursor; if the client may not see its topic any more, move it to the next one."""
    cursor = request.cursor
    if cursor is None or not allowed or cursor.topic_name in allowed:
        return cursor
    if all(each.name != cursor.topic_name for each in request.topics):
        return cursor  # the handler refuses a cursor that names none of the topics
    later = [each for each in allowed if each > cursor.topic_name]
    return replace(cursor, topic_name=min(later, default=max(allowed)), partition_index=0)
