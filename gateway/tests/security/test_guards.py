"""The guards: what goes to the handler, and how the client is refused the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.events.cluster import TopicCreated
from tidegate_coordination.security.acls import Operation
from tidegate_coordination.state.topics import TopicTable
from tidegate_gateway.security.guards import (
    cluster,
    configs,
    groups,
    metadata,
    offset_fetch,
    records,
    topics,
    transactions,
)
from tidegate_gateway.security.operations import ALL_ON_CLUSTER, NOT_ASKED
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_partitions_to_txn as add_wire
from tidegate_protocol.messages import create_topics as create_wire
from tidegate_protocol.messages import delete_groups as delete_groups_wire
from tidegate_protocol.messages import delete_records as delete_records_wire
from tidegate_protocol.messages import delete_topics as delete_wire
from tidegate_protocol.messages import describe_configs as describe_configs_wire
from tidegate_protocol.messages import describe_groups as describe_groups_wire
from tidegate_protocol.messages import describe_log_dirs as dirs_wire
from tidegate_protocol.messages import describe_topic_partitions as partitions_wire
from tidegate_protocol.messages import describe_transactions as describe_txn_wire
from tidegate_protocol.messages import end_txn as end_wire
from tidegate_protocol.messages import find_coordinator as find_wire
from tidegate_protocol.messages import heartbeat as heartbeat_wire
from tidegate_protocol.messages import incremental_alter_configs as incremental_wire
from tidegate_protocol.messages import init_producer_id as init_wire
from tidegate_protocol.messages import join_group as join_wire
from tidegate_protocol.messages import list_groups as list_groups_wire
from tidegate_protocol.messages import list_offsets as list_wire
from tidegate_protocol.messages import list_transactions as list_txn_wire
from tidegate_protocol.messages import metadata as metadata_wire
from tidegate_protocol.messages import offset_commit as commit_wire
from tidegate_protocol.messages import offset_delete as offset_delete_wire
from tidegate_protocol.messages import offset_fetch as fetch_wire
from tidegate_protocol.messages import offset_for_leader_epoch as epoch_wire
from tidegate_protocol.messages import txn_offset_commit as txn_commit_wire
from tidegate_protocol.messages import write_txn_markers as markers_wire

from .guard_world import cluster as on_cluster
from .guard_world import group, run, topic, transactional_id

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

SEES_OPEN = topic(Operation.DESCRIBE, "open")

OPEN_ID, SECRET_ID, UNKNOWN_ID = b"o" * 16, b"s" * 16, b"u" * 16


def two_topics() -> TopicTable:
    """Return a table with the topics `open` and `secret`."""
    table = TopicTable()
    for number, (topic_id, name) in enumerate(((OPEN_ID, "open"), (SECRET_ID, "secret"))):
        table.fold_created(TopicCreated(topic_id, name, 1, 1, {}), [number])
    return table


def names(items: Any) -> list[str]:
    """Return the names of topics."""
    return [each.name for each in items]


# -- records ------------------------------------------------------------------------------------


def test_list_offsets_answers_each_partition_of_a_denied_topic() -> None:
    request = list_wire.ListOffsetsRequest(
        topics=[
            list_wire.ListOffsetsTopic("open", [list_wire.ListOffsetsPartition(0)]),
            list_wire.ListOffsetsTopic("secret", [list_wire.ListOffsetsPartition(3)]),
        ]
    )
    done = run(
        records.guard_list_offsets,
        request,
        topic(Operation.DESCRIBE, "open"),
        answer=lambda asked: list_wire.ListOffsetsResponse(
            topics=[list_wire.ListOffsetsTopicResponse(each.name) for each in asked.topics]
        ),
    )
    assert names(done.passed.topics) == ["open"]
    assert names(done.response.topics) == ["open", "secret"]
    [denied] = done.response.topics[1].partitions
    assert (denied.partition_index, denied.error_code, denied.offset) == (3, TOPIC_DENIED, -1)


@pytest.mark.parametrize("right", [on_cluster(Operation.CLUSTER_ACTION), None])
def test_epochs_need_the_topic_or_a_broker(right: Any) -> None:
    request = epoch_wire.OffsetForLeaderEpochRequest(
        topics=[epoch_wire.OffsetForLeaderTopic("secret", [epoch_wire.OffsetForLeaderPartition(1)])]
    )
    allowed = [right] if right else []
    done = run(
        records.guard_offset_for_leader_epoch,
        request,
        *allowed,
        answer=lambda _: epoch_wire.OffsetForLeaderEpochResponse(),
    )
    if right:
        assert len(done.passed.topics) == 1
    else:
        assert done.passed is None
        [found] = done.response.topics
        assert found.partitions[0].error_code == TOPIC_DENIED
        assert found.partitions[0].partition == 1


def test_delete_records_needs_delete() -> None:
    request = delete_records_wire.DeleteRecordsRequest(
        topics=[
            delete_records_wire.DeleteRecordsTopic(
                "t", [delete_records_wire.DeleteRecordsPartition(2, 7)]
            )
        ]
    )
    done = run(
        records.guard_delete_records,
        request,
        topic(Operation.WRITE, "t"),
        answer=lambda _: delete_records_wire.DeleteRecordsResponse(),
    )
    assert done.passed is None
    assert done.response.topics[0].partitions[0].error_code == TOPIC_DENIED


# -- groups -------------------------------------------------------------------------------------


def test_members_need_read_of_the_group() -> None:
    request = heartbeat_wire.HeartbeatRequest("g", 1, "m")
    done = run(groups.guard_heartbeat, request, group(Operation.DESCRIBE, "g"))
    assert done.passed is None
    assert done.response.error_code == GROUP_DENIED
    done = run(groups.guard_heartbeat, request, group(Operation.READ, "g"), answer=lambda _: "x")
    assert done.response == "x"


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_has_a_protocol_that_its_version_can_hold(
    version: int, name: str | None
) -> None:
    request = join_wire.JoinGroupRequest("g")
    done = run(groups.guard_join_group, request, version=version)
    assert done.response.error_code == GROUP_DENIED
    assert done.response.protocol_name == name
    join_wire.encode_response(done.response, version)


@pytest.mark.parametrize(
    ("key_type", "right", "code"),
    [
        (0, group(Operation.DESCRIBE, "k"), GROUP_DENIED),
        (1, transactional_id(Operation.DESCRIBE, "k"), ID_DENIED),
        (2, on_cluster(Operation.CLUSTER_ACTION), CLUSTER_DENIED),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_coordinators_need_describe(key_type: int, right: Any, code: int, version: int) -> None:
    def ask(*allowed: Any) -> Any:
        request = find_wire.FindCoordinatorRequest("k", key_type, ["k"] if version > 3 else [])
        return run(
            groups.guard_find_coordinator,
            request,
            *allowed,
            version=version,
            answer=lambda _: find_wire.FindCoordinatorResponse(node_id=5),
        )

    assert ask(right).response.node_id == 5
    refused = ask()
    assert refused.passed is None
    found = refused.response if version < 4 else refused.response.coordinators[0]
    assert (found.error_code, found.node_id) == (code, -1)


def test_described_groups_show_what_the_client_may_do() -> None:
    request = describe_groups_wire.DescribeGroupsRequest(["mine", "theirs"], True)
    done = run(
        groups.guard_describe_groups,
        request,
        group(Operation.DESCRIBE, "mine"),
        group(Operation.DELETE, "mine"),
        answer=lambda asked: describe_groups_wire.DescribeGroupsResponse(
            groups=[
                describe_groups_wire.DescribedGroup(group_id=each, authorized_operations=0x7FFF)
                for each in asked.groups
            ]
        ),
    )
    mine, theirs = done.response.groups
    assert mine.authorized_operations == 1 << Operation.DESCRIBE | 1 << Operation.DELETE
    assert (theirs.group_id, theirs.error_code) == ("theirs", GROUP_DENIED)
    assert theirs.authorized_operations == NOT_ASKED


@pytest.mark.parametrize("sees_all", [True, False])
def test_listed_groups_are_those_that_the_client_sees(sees_all: bool) -> None:
    right = on_cluster(Operation.DESCRIBE) if sees_all else group(Operation.DESCRIBE, "mine")
    done = run(
        groups.guard_list_groups,
        list_groups_wire.ListGroupsRequest(),
        right,
        answer=lambda _: list_groups_wire.ListGroupsResponse(
            groups=[list_groups_wire.ListedGroup(each) for each in ("mine", "theirs")]
        ),
    )
    shown = [each.group_id for each in done.response.groups]
    assert shown == (["mine", "theirs"] if sees_all else ["mine"])


def test_deleting_groups_needs_delete_of_each() -> None:
    request = delete_groups_wire.DeleteGroupsRequest(["a", "b"])
    done = run(
        groups.guard_delete_groups,
        request,
        group(Operation.DELETE, "b"),
        answer=lambda _: delete_groups_wire.DeleteGroupsResponse(),
    )
    assert done.passed.groups_names == ["b"]
    assert [(e.group_id, e.error_code) for e in done.response.results] == [("a", GROUP_DENIED)]


def commit(*topics_: tuple[str, bytes]) -> commit_wire.OffsetCommitRequest:
    """Return a request of one partition each."""
    return commit_wire.OffsetCommitRequest(
        "g",
        topics=[
            commit_wire.OffsetCommitRequestTopic(
                name, topic_id, [commit_wire.OffsetCommitRequestPartition(1, 9)]
            )
            for name, topic_id in topics_
        ],
    )


def committed(asked: commit_wire.OffsetCommitRequest) -> commit_wire.OffsetCommitResponse:
    """Answer as a handler that accepts all."""
    return commit_wire.OffsetCommitResponse(
        topics=[
            commit_wire.OffsetCommitResponseTopic(
                each.name, each.topic_id, [commit_wire.OffsetCommitResponsePartition(1, 0)]
            )
            for each in asked.topics
        ]
    )


def codes(response: Any) -> dict[Any, int]:
    """Return the code of each topic's first partition."""
    return {each.name or each.topic_id: each.partitions[0].error_code for each in response.topics}


def test_commits_need_the_group_then_each_topic() -> None:
    zero = bytes(16)
    request = commit(("a", zero), ("b", zero))
    done = run(groups.guard_offset_commit, request, topic(Operation.READ, "a"), version=9)
    assert done.passed is None
    assert codes(done.response) == {"a": GROUP_DENIED, "b": GROUP_DENIED}
    done = run(
        groups.guard_offset_commit,
        commit(("a", zero), ("b", zero)),
        group(Operation.READ, "g"),
        topic(Operation.READ, "a"),
        answer=committed,
        version=9,
    )
    assert names(done.passed.topics) == ["a"]
    assert codes(done.response) == {"a": 0, "b": TOPIC_DENIED}


def test_ids_of_commits_are_checked_by_the_names_that_they_stand_for() -> None:
    done = run(
        groups.guard_offset_commit,
        commit(("", OPEN_ID), ("", SECRET_ID), ("", UNKNOWN_ID)),
        group(Operation.READ, "g"),
        topic(Operation.READ, "open"),
        answer=committed,
        version=10,
        topics=two_topics(),
    )
    assert done.catch_ups == 1
    assert [each.topic_id for each in done.passed.topics] == [OPEN_ID]
    assert codes(done.response) == {
        OPEN_ID: 0,
        SECRET_ID: TOPIC_DENIED,
        UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_offsets_are_deleted_with_delete_of_the_group_and_read_of_the_topic() -> None:
    def ask(*allowed: Any, code: int = 0) -> Any:
        request = offset_delete_wire.OffsetDeleteRequest(
            "g",
            [
                offset_delete_wire.OffsetDeleteRequestTopic(
                    each, [offset_delete_wire.OffsetDeleteRequestPartition(0)]
                )
                for each in ("t", "u")
            ],
        )
        return run(
            groups.guard_offset_delete,
            request,
            *allowed,
            answer=lambda _: offset_delete_wire.OffsetDeleteResponse(code),
        ).response

    may_delete = group(Operation.DELETE, "g")
    assert ask(topic(Operation.READ, "t")).error_code == GROUP_DENIED
    assert codes(ask(may_delete)) == {"t": TOPIC_DENIED, "u": TOPIC_DENIED}
    may_read = topic(Operation.READ, "t")
    assert codes(ask(may_delete, may_read)) == {"u": TOPIC_DENIED}
    assert ask(may_delete, may_read, code=ErrorCode.NOT_COORDINATOR).topics == []


@pytest.mark.parametrize(("version", "code"), [(1, 0), (2, GROUP_DENIED), (7, GROUP_DENIED)])
def test_offsets_of_a_denied_group_in_old_versions(version: int, code: int) -> None:
    request = fetch_wire.OffsetFetchRequest("g", [fetch_wire.OffsetFetchRequestTopic("t", [4])])
    done = run(offset_fetch.guard_offset_fetch, request, version=version)
    assert done.passed is None
    assert done.response.error_code == code
    if not code:
        [found] = done.response.topics[0].partitions
        assert (found.partition_index, found.error_code) == (4, GROUP_DENIED)


def test_all_offsets_of_a_group_are_those_of_visible_topics() -> None:
    def answer(_: Any) -> fetch_wire.OffsetFetchResponse:
        shown = [fetch_wire.OffsetFetchResponseTopics(each) for each in ("open", "secret")]
        return fetch_wire.OffsetFetchResponse(
            groups=[fetch_wire.OffsetFetchResponseGroup("g", shown)]
        )

    request = fetch_wire.OffsetFetchRequest(
        groups=[
            fetch_wire.OffsetFetchRequestGroup("g", topics=None),
            fetch_wire.OffsetFetchRequestGroup("h", topics=None),
        ]
    )
    done = run(
        offset_fetch.guard_offset_fetch,
        request,
        group(Operation.DESCRIBE, "g"),
        topic(Operation.DESCRIBE, "open"),
        answer=answer,
        version=8,
    )
    assert [each.group_id for each in done.passed.groups] == ["g"]
    first, second = done.response.groups
    assert names(first.topics) == ["open"]
    assert (second.group_id, second.error_code) == ("h", GROUP_DENIED)


def test_offsets_by_id_are_checked_by_name() -> None:
    request = fetch_wire.OffsetFetchRequest(
        groups=[
            fetch_wire.OffsetFetchRequestGroup(
                "g",
                topics=[
                    fetch_wire.OffsetFetchRequestTopics("", each, [0])
                    for each in (OPEN_ID, SECRET_ID, UNKNOWN_ID)
                ],
            )
        ]
    )
    done = run(
        offset_fetch.guard_offset_fetch,
        request,
        group(Operation.DESCRIBE, "g"),
        topic(Operation.DESCRIBE, "open"),
        answer=lambda _: fetch_wire.OffsetFetchResponse(
            groups=[fetch_wire.OffsetFetchResponseGroup("g")]
        ),
        version=10,
        topics=two_topics(),
    )
    assert [each.topic_id for each in done.passed.groups[0].topics] == [OPEN_ID]
    assert codes(done.response.groups[0]) == {
        SECRET_ID: TOPIC_DENIED,
        UNKNOWN_ID: ErrorCode.UNKNOWN_TOPIC_ID,
    }


# -- topics -------------------------------------------------------------------------------------


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
    """The handler's cursor names the next topic that it got."""
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
    """A name alone is no repeat of the same name with an id, which the handler refuses."""
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


# -- metadata -----------------------------------------------------------------------------------


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
    """The id was not known here; the handler has read the log since."""
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


# -- transactions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "right", "any_topic", "code"),
    [
        ("x", transactional_id(Operation.WRITE, "x"), False, 0),
        ("x", on_cluster(Operation.IDEMPOTENT_WRITE), True, ID_DENIED),
        (None, on_cluster(Operation.IDEMPOTENT_WRITE), False, 0),
        (None, transactional_id(Operation.WRITE, "x"), True, 0),
        (None, transactional_id(Operation.WRITE, "x"), False, CLUSTER_DENIED),
    ],
)
def test_producer_ids(name: str | None, right: Any, any_topic: bool, code: int) -> None:
    request = init_wire.InitProducerIdRequest(name)
    done = run(
        transactions.guard_init_producer_id,
        request,
        right,
        answer=lambda _: init_wire.InitProducerIdResponse(producer_id=3),
        any_topic=any_topic,
    )
    assert done.response.error_code == code
    assert (done.passed is None) == bool(code)
    assert done.response.producer_id == (-1 if code else 3)


def add(*topic_names: str) -> add_wire.AddPartitionsToTxnRequest:
    """Return a request to add partition 0 of each."""
    return add_wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[add_wire.AddPartitionsToTxnTopic(each, [0]) for each in topic_names],
    )


def added(response: Any) -> dict[str, int]:
    """Return the code of each topic."""
    return {
        each.name: each.results_by_partition[0].partition_error_code
        for each in response.results_by_topic_v3_and_below
    }


def test_no_partition_is_added_if_one_is_denied() -> None:
    with_id = transactional_id(Operation.WRITE, "x")
    guard = transactions.guard_add_partitions_to_txn
    done = run(guard, add("a", "b"), with_id, topic(Operation.WRITE, "a"), version=3)
    assert done.passed is None
    assert added(done.response) == {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": TOPIC_DENIED}
    done = run(guard, add("a"), topic(Operation.WRITE, "a"), version=3)
    assert added(done.response) == {"a": ID_DENIED}
    done = run(guard, add("__consumer_offsets"), with_id, version=3)
    assert added(done.response) == {"__consumer_offsets": TOPIC_DENIED}
    done = run(guard, add("a"), with_id, version=4)
    assert done.response.error_code == CLUSTER_DENIED


def test_staged_offsets_need_id_group_and_topic() -> None:
    def ask(*allowed: Any) -> dict[Any, int]:
        request = txn_commit_wire.TxnOffsetCommitRequest(
            "x",
            "g",
            topics=[
                txn_commit_wire.TxnOffsetCommitRequestTopic(
                    "t", [txn_commit_wire.TxnOffsetCommitRequestPartition(0, 1)]
                )
            ],
        )
        done = run(
            transactions.guard_txn_offset_commit,
            request,
            *allowed,
            answer=lambda _: txn_commit_wire.TxnOffsetCommitResponse(),
        )
        return codes(done.response)

    may_id, may_group = transactional_id(Operation.WRITE, "x"), group(Operation.READ, "g")
    assert ask(may_group) == {"t": ID_DENIED}
    assert ask(may_id) == {"t": GROUP_DENIED}
    assert ask(may_id, may_group) == {"t": TOPIC_DENIED}
    assert ask(may_id, may_group, topic(Operation.READ, "t")) == {}


def test_the_end_of_a_transaction_needs_its_id() -> None:
    done = run(transactions.guard_end_txn, end_wire.EndTxnRequest("x"))
    assert (done.passed, done.response.error_code) == (None, ID_DENIED)


def test_described_transactions_show_visible_topics_only() -> None:
    request = describe_txn_wire.DescribeTransactionsRequest(["x", "y"])
    done = run(
        transactions.guard_describe_transactions,
        request,
        transactional_id(Operation.DESCRIBE, "x"),
        SEES_OPEN,
        answer=lambda asked: describe_txn_wire.DescribeTransactionsResponse(
            transaction_states=[
                describe_txn_wire.TransactionState(
                    transactional_id=each,
                    topics=[describe_txn_wire.TopicData(e) for e in ("open", "secret")],
                )
                for each in asked.transactional_ids
            ]
        ),
    )
    shown, refused = done.response.transaction_states
    assert [each.topic for each in shown.topics] == ["open"]
    assert (refused.transactional_id, refused.error_code) == ("y", ID_DENIED)


def test_listed_transactions_are_those_that_the_client_sees() -> None:
    done = run(
        transactions.guard_list_transactions,
        list_txn_wire.ListTransactionsRequest(),
        transactional_id(Operation.DESCRIBE, "x"),
        answer=lambda _: list_txn_wire.ListTransactionsResponse(
            transaction_states=[list_txn_wire.TransactionState(each) for each in ("x", "y")]
        ),
    )
    assert [each.transactional_id for each in done.response.transaction_states] == ["x"]


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.CLUSTER_ACTION, None])
def test_markers_are_for_brokers_and_admins(operation: Operation | None) -> None:
    request = markers_wire.WriteTxnMarkersRequest(
        [markers_wire.WritableTxnMarker(7, topics=[markers_wire.WritableTxnMarkerTopic("t", [0])])]
    )
    allowed = [on_cluster(operation)] if operation else []
    done = run(transactions.guard_write_txn_markers, request, *allowed, answer=lambda _: "done")
    if operation:
        assert done.response == "done"
    else:
        [marker] = done.response.markers
        assert marker.producer_id == 7
        assert marker.topics[0].partitions[0].error_code == CLUSTER_DENIED


# -- configs and cluster ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "right", "code"),
    [
        (2, topic(Operation.DESCRIBE_CONFIGS, "r"), TOPIC_DENIED),
        (32, group(Operation.DESCRIBE_CONFIGS, "r"), GROUP_DENIED),
        (4, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
        (8, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
        (16, on_cluster(Operation.DESCRIBE_CONFIGS), CLUSTER_DENIED),
    ],
)
def test_configs_need_a_right_on_what_they_belong_to(kind: int, right: Any, code: int) -> None:
    def ask(*allowed: Any) -> Any:
        request = describe_configs_wire.DescribeConfigsRequest(
            [describe_configs_wire.DescribeConfigsResource(kind, "r")]
        )
        return run(
            configs.guard_describe_configs,
            request,
            *allowed,
            answer=lambda _: describe_configs_wire.DescribeConfigsResponse(),
        )

    assert len(ask(right).passed.resources) == 1
    refused = ask()
    assert refused.passed is None
    [found] = refused.response.results
    assert (found.error_code, found.resource_type, found.resource_name) == (code, kind, "r")


def test_altering_configs_needs_alter_configs() -> None:
    request = incremental_wire.IncrementalAlterConfigsRequest(
        [incremental_wire.AlterConfigsResource(2, each) for each in ("a", "b")]
    )
    done = run(
        configs.guard_incremental_alter_configs,
        request,
        topic(Operation.ALTER_CONFIGS, "a"),
        topic(Operation.DESCRIBE_CONFIGS, "b"),
        answer=lambda _: incremental_wire.IncrementalAlterConfigsResponse(),
    )
    assert [each.resource_name for each in done.passed.resources] == ["a"]
    [refused] = done.response.responses
    assert (refused.resource_name, refused.error_code) == ("b", TOPIC_DENIED)


def test_log_dirs_need_describe_of_the_cluster() -> None:
    request = dirs_wire.DescribeLogDirsRequest()
    done = run(cluster.guard_describe_log_dirs, request, on_cluster(Operation.ALTER))
    assert (done.passed, done.response.error_code) == (None, CLUSTER_DENIED)
    done = run(
        cluster.guard_describe_log_dirs,
        request,
        on_cluster(Operation.DESCRIBE),
        answer=lambda _: "dirs",
    )
    assert done.response == "dirs"
