"""The guards of topics: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.topics import guards as topics
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_topics as create_wire
from tidegate_protocol.messages import delete_topics as delete_wire
from tidegate_protocol.messages import describe_topic_partitions as partitions_wire

from .guard_world import (
    SECRET_ID,
    SEES_OPEN,
    TOPIC_DENIED,
    UNKNOWN_ID,
    names,
    run,
    topic,
    two_topics,
)
from .guard_world import cluster as on_cluster


def create(*topic_names: str) -> create_wire.CreateTopicsRequest:
    """Return a request to create topics."""
    return create_wire.CreateTopicsRequest([create_wire.CreatableTopic(e) for e in topic_names])


def created(asked: create_wire.CreateTopicsRequest) -> create_wire.CreateTopicsResponse:
    """Answer as a handler that creates all."""
    return create_wire.CreateTopicsResponse(
        topics=[
            create_wire.CreatableTopicResult(each.name, num_partitions=3, replication_factor=1)
            for each in asked.topics
        ]
    )


def test_topics_are_created_with_create_of_the_cluster_or_of_each() -> None:
    done = run(
        topics.guard_create_topics,
        create("a", "b"),
        topic(Operation.CREATE, "a"),
        topic(Operation.DESCRIBE_CONFIGS, "a"),
        answer=created,
        version=7,
    )
    assert names(done.passed.topics) == ["a"]
    first, second = done.response.topics
    assert (first.error_code, first.num_partitions) == (0, 3)
    assert (second.error_code, second.error_message) == (TOPIC_DENIED, "Authorization failed.")
    done = run(
        topics.guard_create_topics,
        create("a", "b"),
        on_cluster(Operation.CREATE),
        answer=created,
        version=7,
    )
    assert names(done.passed.topics) == ["a", "b"]


def test_configs_of_a_new_topic_are_shown_with_describe_configs() -> None:
    done = run(
        topics.guard_create_topics,
        create("a"),
        topic(Operation.CREATE, "a"),
        answer=created,
        version=5,
    )
    [found] = done.response.topics
    assert (found.error_code, found.topic_config_error_code) == (0, TOPIC_DENIED)
    assert (found.configs, found.num_partitions, found.replication_factor) == (None, -1, -1)


def test_repeated_names_are_the_handlers_to_refuse() -> None:
    done = run(topics.guard_create_topics, create("a", "a"), answer=created, version=7)
    assert names(done.passed.topics) == ["a", "a"]


def deleted(asked: delete_wire.DeleteTopicsRequest) -> delete_wire.DeleteTopicsResponse:
    """Answer as a handler that deletes all."""
    return delete_wire.DeleteTopicsResponse(
        responses=[
            *(delete_wire.DeletableTopicResult(each) for each in asked.topic_names),
            *(delete_wire.DeletableTopicResult(e.name, e.topic_id) for e in asked.topics),
        ]
    )


def test_deleting_by_name_needs_describe_and_delete() -> None:
    def ask(*allowed: Any) -> list[tuple[str | None, int]]:
        done = run(
            topics.guard_delete_topics,
            delete_wire.DeleteTopicsRequest(topic_names=["open"]),
            *allowed,
            answer=deleted,
            version=5,
            topics=two_topics(),
        )
        return [(each.name, each.error_code) for each in done.response.responses]

    may_describe, may_delete = SEES_OPEN, topic(Operation.DELETE, "open")
    assert ask(may_describe) == [("open", TOPIC_DENIED)]
    assert ask(may_delete) == [("open", TOPIC_DENIED)]
    assert ask(may_describe, may_delete) == [("open", 0)]
    assert ask(on_cluster(Operation.DELETE)) == [("open", 0)]


def test_a_missing_topic_is_missing_only_to_those_that_may_describe_it() -> None:
    def ask(*allowed: Any) -> Any:
        request = delete_wire.DeleteTopicsRequest(topic_names=["missing"])
        return run(topics.guard_delete_topics, request, *allowed, answer=deleted, version=5)

    for allowed, code in (
        ([], TOPIC_DENIED),
        ([topic(Operation.DESCRIBE, "missing")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        done = ask(*allowed)
        assert done.catch_ups == len(allowed)
        assert done.passed is None
        assert [each.error_code for each in done.response.responses] == [code]


def test_deleting_by_id_names_only_what_the_client_may_describe() -> None:
    def ask(*allowed: Any) -> dict[bytes, tuple[str | None, int]]:
        request = delete_wire.DeleteTopicsRequest(
            [delete_wire.DeleteTopicState(None, each) for each in (SECRET_ID, UNKNOWN_ID)]
        )
        done = run(
            topics.guard_delete_topics,
            request,
            *allowed,
            answer=deleted,
            version=6,
            topics=two_topics(),
        )
        assert done.catch_ups == 1
        return {e.topic_id: (e.name, e.error_code) for e in done.response.responses}

    unknown = (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert ask() == {SECRET_ID: (None, TOPIC_DENIED), UNKNOWN_ID: unknown}
    shown = ask(topic(Operation.DESCRIBE, "secret"))
    assert shown == {SECRET_ID: ("secret", TOPIC_DENIED), UNKNOWN_ID: unknown}
    assert ask(topic(Operation.DELETE, "secret"))[SECRET_ID] == (None, 0)


def described(asked: partitions_wire.DescribeTopicPartitionsRequest) -> Any:
    """Answer as a handler that knows all topics."""
    found = [
        partitions_wire.DescribeTopicPartitionsResponseTopic(name=each)
        for each in names(asked.topics)
    ]
    return partitions_wire.DescribeTopicPartitionsResponse(topics=found)


def describe_all(*allowed: Any, cursor: str | None = None, limit: int = 2000) -> Any:
    """Ask for all topics of a cluster with the topics `open` and `secret`."""
    request = partitions_wire.DescribeTopicPartitionsRequest([], limit)
    if cursor is not None:
        request.cursor = partitions_wire.DescribeTopicPartitionsRequestCursor(cursor, 3)
    return run(
        topics.guard_describe_topic_partitions,
        request,
        *allowed,
        answer=described,
        topics=two_topics(),
    )


SEES_SECRET = topic(Operation.DESCRIBE, "secret")


def test_partitions_of_all_topics_are_those_of_visible_ones() -> None:
    done = describe_all(SEES_OPEN)
    assert names(done.response.topics) == ["open"]
    assert done.response.topics[0].topic_authorized_operations == 1 << Operation.DESCRIBE
    request = partitions_wire.DescribeTopicPartitionsRequest(
        [partitions_wire.TopicRequest("secret")]
    )
    done = run(topics.guard_describe_topic_partitions, request, SEES_OPEN, answer=described)
    assert done.passed is None  # an empty list would stand for all topics
    assert done.response.topics[0].error_code == TOPIC_DENIED


def test_pages_of_all_topics_go_over_visible_ones_only() -> None:
    """The cursor that the handler gets names the next topic that the client may see."""
    assert describe_all().passed is None
    assert names(describe_all(SEES_OPEN, limit=1).passed.topics) == ["open"]
    both = describe_all(SEES_OPEN, SEES_SECRET, limit=1)
    assert names(both.passed.topics) == ["open", "secret"]
    later = describe_all(SEES_OPEN, SEES_SECRET, cursor="opera").passed
    assert names(later.topics) == ["secret"]
    assert (later.cursor.topic_name, later.cursor.partition_index) == ("secret", 0)
    same = describe_all(SEES_OPEN, SEES_SECRET, cursor="secret").passed
    assert (same.cursor.topic_name, same.cursor.partition_index) == ("secret", 3)
    assert describe_all(SEES_OPEN, cursor="opera").passed is None


def test_a_repeat_is_what_the_handler_takes_for_one() -> None:
    """For the handler, a name with an id, which it refuses, does not repeat the name alone."""
    states = [
        delete_wire.DeleteTopicState("secret"),
        delete_wire.DeleteTopicState("secret", b"x" * 16),
    ]
    done = run(
        topics.guard_delete_topics,
        delete_wire.DeleteTopicsRequest(states),
        answer=deleted,
        version=6,
        topics=two_topics(),
    )
    assert [each.topic_id for each in done.passed.topics] == [b"x" * 16]
