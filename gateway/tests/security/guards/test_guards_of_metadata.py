"""The guards of Metadata: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

from tidegate_coordination.events.cluster import TopicCreated
from tidegate_coordination.security.acls import Operation
from tidegate_coordination.state.topics import TopicTable
from tidegate_gateway.requests.cluster import metadata_guard as metadata
from tidegate_gateway.security.operations import ALL_ON_CLUSTER
from tidegate_protocol.messages import metadata as metadata_wire

from .guard_world import OPEN_ID, SECRET_ID, SEES_OPEN, TOPIC_DENIED, names, run, topic, two_topics


def answered(asked: metadata_wire.MetadataRequest) -> metadata_wire.MetadataResponse:
    """Answer as a handler in a cluster with the topics `open` and `secret`."""
    by_id = {OPEN_ID: "open", SECRET_ID: "secret"}
    found = asked.topics
    if not found and found is None:
        found = [metadata_wire.MetadataRequestTopic(name=each) for each in by_id.values()]
    return metadata_wire.MetadataResponse(
        topics=[
            metadata_wire.MetadataResponseTopic(
                name=by_id.get(each.topic_id, each.name),
                topic_id=each.topic_id,
                topic_authorized_operations=0x7FFF,
            )
            for each in found
        ],
        cluster_authorized_operations=ALL_ON_CLUSTER,
    )


def ask_metadata(*allowed: Any, version: int = 12, **fields: Any) -> Any:
    """Run the guard of Metadata."""
    return run(
        metadata.guard_metadata,
        metadata_wire.MetadataRequest(**fields),
        *allowed,
        answer=answered,
        version=version,
        topics=two_topics(),
    )


def test_metadata_of_all_topics_leaves_out_what_the_client_may_not_see() -> None:
    done = ask_metadata(SEES_OPEN, topics=None)
    assert names(done.response.topics) == ["open"]
    assert done.response.topics[0].topic_authorized_operations == 1 << Operation.DESCRIBE
    assert done.response.cluster_authorized_operations == 0


def test_metadata_by_name_refuses_and_hides_the_id() -> None:
    asked = [metadata_wire.MetadataRequestTopic(name=each) for each in ("open", "secret")]
    done = ask_metadata(SEES_OPEN, topics=asked)
    assert names(done.passed.topics) == ["open"]
    _, refused = done.response.topics
    assert (refused.name, refused.error_code) == ("secret", TOPIC_DENIED)
    assert refused.topic_id == bytes(16)


def test_metadata_by_id_refuses_and_hides_the_name() -> None:
    asked = [metadata_wire.MetadataRequestTopic(SECRET_ID, None)]
    done = ask_metadata(SEES_OPEN, topics=asked)
    [refused] = done.response.topics
    assert (refused.name, refused.topic_id) == (None, SECRET_ID)
    assert refused.error_code == TOPIC_DENIED


def test_a_name_that_the_handler_found_later_is_checked_too() -> None:
    """The guard did not know the id, but the handler has read more of the log since."""
    done = run(
        metadata.guard_metadata,
        metadata_wire.MetadataRequest([metadata_wire.MetadataRequestTopic(SECRET_ID, None)]),
        SEES_OPEN,
        answer=answered,
        version=12,
        topics=TopicTable(),
    )
    [refused] = done.response.topics
    assert (refused.name, refused.error_code) == (None, TOPIC_DENIED)


def test_no_denied_name_becomes_all_topics_in_version_0() -> None:
    asked = [metadata_wire.MetadataRequestTopic(name="secret")]
    done = ask_metadata(SEES_OPEN, topics=asked, version=0)
    assert done.passed.topics
    [refused] = done.response.topics
    assert (refused.name, refused.error_code) == ("secret", TOPIC_DENIED)


SEES_NEW = topic(Operation.DESCRIBE, "new")
CREATES_NEW = topic(Operation.CREATE, "new")
NEW = metadata_wire.MetadataRequestTopic(name="new")


def test_a_topic_is_created_on_the_way_with_create_only() -> None:
    done = ask_metadata(SEES_NEW, CREATES_NEW, topics=[NEW])
    assert (names(done.passed.topics), done.passed.allow_auto_topic_creation) == (["new"], True)
    done = ask_metadata(SEES_NEW, topics=[NEW])
    assert done.passed.topics == []
    assert done.response.topics[0].error_code == TOPIC_DENIED
    done = ask_metadata(SEES_NEW, topics=[NEW], allow_auto_topic_creation=False)
    assert names(done.passed.topics) == ["new"]


def test_a_topic_that_may_not_be_created_is_not_though_it_is_deleted_meanwhile() -> None:
    asked = [metadata_wire.MetadataRequestTopic(name="open")]
    done = ask_metadata(SEES_OPEN, topics=asked)
    assert names(done.passed.topics) == ["open"]
    assert not done.passed.allow_auto_topic_creation


def test_a_topic_that_another_gateway_has_just_created_is_found() -> None:
    table = TopicTable()

    def catch_up() -> None:
        table.fold_created(TopicCreated(OPEN_ID, "open", 1, 1, {}), [0])

    done = run(
        metadata.guard_metadata,
        metadata_wire.MetadataRequest([metadata_wire.MetadataRequestTopic(name="open")]),
        SEES_OPEN,
        answer=answered,
        version=12,
        topics=table,
        on_catch_up=catch_up,
    )
    assert done.catch_ups == 1
    assert [(each.name, each.error_code) for each in done.response.topics] == [("open", 0)]


def test_old_versions_are_refused_ids_by_the_handler() -> None:
    asked = [metadata_wire.MetadataRequestTopic(SECRET_ID, "")]
    done = ask_metadata(topics=asked, version=11)
    assert [each.topic_id for each in done.passed.topics] == [SECRET_ID]
