"""messages/*.refused: one error code for a whole request, at the head or at each entry."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tidegate_protocol.apis import APIS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    create_topics,
    delete_records,
    delete_topics,
    fetch,
    init_producer_id,
    list_offsets,
    offset_commit,
    offset_fetch,
    produce,
    write_txn_markers,
)

CODE = ErrorCode.NOT_COORDINATOR
BY_HAND = {
    "AlterReplicaLogDirs",
    "AlterUserScramCredentials",
    "DescribeClientQuotas",
    "DescribeLogDirs",
    "DescribeTopicPartitions",
    "Fetch",
    "JoinGroup",
}
"""The entries of their responses are not those of their requests, or their refusals have nulls."""


def module_of(name: str) -> Any:
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
    return import_module(f"tidegate_protocol.messages.{words}")


@pytest.mark.parametrize("facts", APIS.values(), ids=lambda each: each.name)
def test_a_refusal_of_each_version_can_be_written(facts: Any) -> None:
    module = module_of(facts.name)
    assert hasattr(module, "refused") == (facts.name not in BY_HAND)
    if facts.name in BY_HAND:
        return
    request = getattr(module, f"{facts.name}Request")()
    for version in range(facts.min_version, facts.max_version + 1):
        response = module.refused(request, version, CODE, "why")
        assert module.encode_response(response, version)


def test_each_partition_has_the_code() -> None:
    asked = offset_commit.OffsetCommitRequestPartition
    topic = offset_commit.OffsetCommitRequestTopic("t", b"i" * 16, [asked(3), asked(5)])
    request = offset_commit.OffsetCommitRequest("g", topics=[topic])
    answer = offset_commit.OffsetCommitResponsePartition
    parts = [answer(3, CODE), answer(5, CODE)]
    assert offset_commit.refused(request, 10, CODE).topics == [
        offset_commit.OffsetCommitResponseTopic("t", b"i" * 16, parts)
    ]


def test_numbers_in_a_request_are_entries_too() -> None:
    topic = write_txn_markers.WritableTxnMarkerTopic("t", [7])
    request = write_txn_markers.WriteTxnMarkersRequest(
        [write_txn_markers.WritableTxnMarker(9, topics=[topic])]
    )
    (marker,) = write_txn_markers.refused(request, 1, CODE).markers
    assert marker.producer_id == 9
    assert marker.topics == [
        write_txn_markers.WritableTxnMarkerTopicResult(
            "t", [write_txn_markers.WritableTxnMarkerPartitionResult(7, CODE)]
        )
    ]


def test_the_version_says_where_the_code_stands() -> None:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic("t", [1])
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    older = add_partitions_to_txn.refused(request, 3, CODE)
    assert (older.error_code, len(older.results_by_topic_v3_and_below)) == (0, 1)
    newer = add_partitions_to_txn.refused(request, 4, CODE)
    assert (newer.error_code, newer.results_by_topic_v3_and_below) == (CODE, [])


def test_the_code_stands_between_older_and_newer_versions() -> None:
    group = offset_fetch.OffsetFetchRequestGroup("g")
    topics = [offset_fetch.OffsetFetchRequestTopic("t", [1])]
    request = offset_fetch.OffsetFetchRequest("g", topics, [group])
    first, middle, last = (offset_fetch.refused(request, each, CODE) for each in (1, 2, 8))
    assert [each.error_code for each in (first, middle, last)] == [0, CODE, 0]
    assert first.topics[0].partitions[0].error_code == CODE
    assert (middle.topics, middle.groups) == ([], [])
    assert [(each.group_id, each.error_code) for each in last.groups] == [("g", CODE)]


def test_entries_have_the_names_or_the_ids_of_their_version() -> None:
    state = delete_topics.DeleteTopicState(None, b"i" * 16)
    request = delete_topics.DeleteTopicsRequest([state], ["t"])
    (by_id,) = delete_topics.refused(request, 6, CODE, "why").responses
    assert (by_id.name, by_id.topic_id, by_id.error_message) == (None, b"i" * 16, "why")
    (by_name,) = delete_topics.refused(request, 5, CODE).responses
    assert (by_name.name, by_name.topic_id) == ("t", bytes(16))


def test_values_of_the_request_that_are_no_key_are_not_repeated() -> None:
    asked = list_offsets.ListOffsetsPartition(3, 8, 1234)
    request = list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic("t", [asked])])
    (part,) = list_offsets.refused(request, 7, CODE).topics[0].partitions
    assert (part.partition_index, part.timestamp, part.leader_epoch) == (3, -1, -1)
    topic = create_topics.CreatableTopic("t", 5, 3)
    (created,) = create_topics.refused(create_topics.CreateTopicsRequest([topic]), 7, CODE).topics
    assert (created.name, created.num_partitions, created.configs) == ("t", -1, [])


def test_a_key_may_have_several_parts() -> None:
    entity = alter_client_quotas.AlterClientQuotasRequestEntityData("user", None)
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData([entity])
    request = alter_client_quotas.AlterClientQuotasRequest([entry])
    (answer,) = alter_client_quotas.refused(request, 1, CODE, "why").entries
    assert [(each.entity_type, each.entity_name) for each in answer.entity] == [("user", None)]
    assert (answer.error_code, answer.error_message) == (CODE, "why")


def test_numbers_that_are_not_known_are_below_zero() -> None:
    request = init_producer_id.InitProducerIdRequest()
    response = init_producer_id.refused(request, 5, CODE)
    assert (response.producer_id, response.producer_epoch) == (-1, -1)
    topic = delete_records.DeleteRecordsTopic("t", [delete_records.DeleteRecordsPartition(1)])
    deleted = delete_records.refused(delete_records.DeleteRecordsRequest([topic]), 2, CODE)
    assert deleted.topics[0].partitions[0].low_watermark == -1


def test_what_does_not_match_has_no_function() -> None:
    assert not hasattr(fetch, "refused")


def test_a_refused_batch_or_partition_has_no_offset() -> None:
    batches = [produce.TopicProduceData("t", partition_data=[produce.PartitionProduceData(3)])]
    [topic] = produce.refused(produce.ProduceRequest(topic_data=batches), 9, CODE).responses
    assert [(each.index, each.base_offset) for each in topic.partition_responses] == [(3, -1)]
    asked = [offset_fetch.OffsetFetchRequestTopic("t", [3])]
    [of] = offset_fetch.refused(offset_fetch.OffsetFetchRequest("g", asked), 1, CODE).topics
    assert [(each.partition_index, each.committed_offset) for each in of.partitions] == [(3, -1)]
