"""The guards of records: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.records import guards as records
from tidegate_protocol.messages import delete_records as delete_records_wire
from tidegate_protocol.messages import list_offsets as list_wire
from tidegate_protocol.messages import offset_for_leader_epoch as epoch_wire

from .guard_world import TOPIC_DENIED, names, run, topic
from .guard_world import cluster as on_cluster


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
