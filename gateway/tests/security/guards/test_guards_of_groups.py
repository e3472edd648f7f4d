"""The guards of consumer groups: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.groups import guards as groups
from tidegate_gateway.requests.groups import offset_fetch_guard as offset_fetch
from tidegate_gateway.security.operations import NOT_ASKED
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as delete_groups_wire
from tidegate_protocol.messages import describe_groups as describe_groups_wire
from tidegate_protocol.messages import find_coordinator as find_wire
from tidegate_protocol.messages import heartbeat as heartbeat_wire
from tidegate_protocol.messages import join_group as join_wire
from tidegate_protocol.messages import list_groups as list_groups_wire
from tidegate_protocol.messages import offset_commit as commit_wire
from tidegate_protocol.messages import offset_delete as offset_delete_wire
from tidegate_protocol.messages import offset_fetch as fetch_wire

from .guard_world import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    ID_DENIED,
    OPEN_ID,
    SECRET_ID,
    TOPIC_DENIED,
    UNKNOWN_ID,
    codes,
    group,
    names,
    run,
    topic,
    transactional_id,
    two_topics,
)
from .guard_world import cluster as on_cluster


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
    """Return a request that commits one partition of each topic."""
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
