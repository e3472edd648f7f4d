"""The action that each error asks for, the calls that are repeated, and which metadata is newer."""

from __future__ import annotations

from dataclasses import is_dataclass
from itertools import islice
from random import Random
from typing import Any, get_args, get_type_hints

import pytest

from tidegate_coordination.client import retries
from tidegate_coordination.client.errors import (
    AnotherCluster,
    AuthenticationFailed,
    BrokerUnreachable,
    ClassicError,
    Disconnected,
    Kind,
    Refused,
    kind_of_code,
)
from tidegate_coordination.client.metadata import ClusterMetadata, updated
from tidegate_coordination.client.retries import (
    Backoff,
    code_to_repeat,
    codes_in,
    is_metadata_old,
    may_repeat,
)
from tidegate_coordination.client.wire.versions import messages_of
from tidegate_protocol.apis import APIS
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import txn_offset_commit as tc

KINDS = {
    E.NOT_LEADER_OR_FOLLOWER: Kind.RETRIABLE,
    E.REQUEST_TIMED_OUT: Kind.RETRIABLE,
    E.SASL_AUTHENTICATION_FAILED: Kind.AUTHENTICATION,
    E.UNSUPPORTED_SASL_MECHANISM: Kind.AUTHENTICATION,
    E.TOPIC_AUTHORIZATION_FAILED: Kind.NOT_ALLOWED,
    E.CLUSTER_AUTHORIZATION_FAILED: Kind.NOT_ALLOWED,
    E.UNSUPPORTED_VERSION: Kind.UNSUPPORTED,
    E.MESSAGE_TOO_LARGE: Kind.OTHER,
    E.UNKNOWN_SERVER_ERROR: Kind.OTHER,
    9999: Kind.OTHER,
}


# APIs whose answers have an error code for each item, but no item is a reason to repeat the call:
# the caller reads the codes, or no caller sends the API.
READ_BY_CALLERS = """
Metadata FindCoordinator LeaveGroup DeleteRecords WriteTxnMarkers CreateAcls DeleteAcls
AlterReplicaLogDirs DescribeLogDirs ElectLeaders AlterPartitionReassignments OffsetDelete
AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials DescribeQuorum
UpdateFeatures DescribeTopicPartitions
"""


def has_codes_of_items(name: str) -> bool:
    def has_codes(kind: Any) -> bool:
        hints = get_type_hints(kind)
        return bool(hints.keys() & {"error_code", "partition_error_code"}) or has_items(kind)

    def has_items(kind: Any) -> bool:
        inner = (each for hint in get_type_hints(kind).values() for each in get_args(hint))
        return any(is_dataclass(each) and has_codes(each) for each in inner)

    return has_items(getattr(messages_of(name), f"{name}Response"))


def test_each_api_with_codes_of_items_says_where_they_are() -> None:
    """Without a row in ITEMS, a forwarding gateway does not see the error codes of items."""
    found = {each.name for each in APIS.values() if has_codes_of_items(each.name)}
    known = {*retries.ITEMS, *READ_BY_CALLERS.split()}
    assert found <= known, "add the API to ITEMS of client/retries.py, or to READ_BY_CALLERS here"
    assert found == known


@pytest.mark.parametrize("code", KINDS)
def test_codes_ask_for_actions(code: int) -> None:
    assert kind_of_code(code) is KINDS[code]
    assert Refused("topic orders", code).kind is KINDS[code]


def test_a_refusal_names_the_code_and_its_text() -> None:
    text = str(Refused("topic orders", E.TOPIC_AUTHORIZATION_FAILED))
    assert text.startswith("topic orders: TOPIC_AUTHORIZATION_FAILED (29). ")
    assert str(Refused("topic orders", 9999)) == "topic orders: error code 9999"


ERRORS: list[tuple[str, ClassicError, bool]] = [
    ("Produce", BrokerUnreachable("x"), True),
    ("Produce", Disconnected("x"), False),
    ("CreateTopics", Disconnected("x"), False),
    ("Fetch", Disconnected("x"), True),
    ("Fetch", AuthenticationFailed("x"), False),
    ("ListOffsets", Refused("x", E.NOT_LEADER_OR_FOLLOWER), True),
    ("ListOffsets", Refused("x", E.TOPIC_AUTHORIZATION_FAILED), False),
]


@pytest.mark.parametrize(("name", "error", "may"), ERRORS)
def test_only_reads_are_repeated_after_an_unknown_outcome(
    name: str, error: ClassicError, may: bool
) -> None:
    assert may_repeat(name, error) is may


def listed(*codes: int) -> lo.ListOffsetsResponse:
    rows = [lo.ListOffsetsPartitionResponse(index, code) for index, code in enumerate(codes)]
    return lo.ListOffsetsResponse(topics=[lo.ListOffsetsTopicResponse("t", rows)])


def produced(*codes: int) -> pr.ProduceResponse:
    rows = [pr.PartitionProduceResponse(index, code) for index, code in enumerate(codes)]
    return pr.ProduceResponse([pr.TopicProduceResponse("t", partition_responses=rows)])


RESPONSES: list[tuple[str, Any, set[int]]] = [
    ("ListOffsets", listed(0, 0), set()),
    ("ListOffsets", listed(0, 6, 29), {6, 29}),
    ("Produce", produced(0, 6), {6}),
    ("CreateTopics", ct.CreateTopicsResponse(topics=[ct.CreatableTopicResult("t")]), set()),
    ("Metadata", me.MetadataResponse(error_code=7), {7}),
    (
        "AddPartitionsToTxn",
        ap.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                ap.AddPartitionsToTxnTopicResult(
                    "t", [ap.AddPartitionsToTxnPartitionResult(0, E.NOT_COORDINATOR)]
                )
            ]
        ),
        {E.NOT_COORDINATOR},
    ),
    (
        "TxnOffsetCommit",
        tc.TxnOffsetCommitResponse(
            topics=[
                tc.TxnOffsetCommitResponseTopic(
                    "t", [tc.TxnOffsetCommitResponsePartition(0, E.NOT_COORDINATOR)]
                )
            ]
        ),
        {E.NOT_COORDINATOR},
    ),
    (
        "DescribeTransactions",
        dt.DescribeTransactionsResponse(
            transaction_states=[dt.TransactionState(error_code=E.NOT_COORDINATOR)]
        ),
        {E.NOT_COORDINATOR},
    ),
]


@pytest.mark.parametrize(("name", "response", "codes"), RESPONSES)
def test_error_codes_are_found_in_responses(name: str, response: Any, codes: set[int]) -> None:
    assert codes_in(name, response) == codes


REPEATS = [
    ("ListOffsets", set[int](), 0),
    ("ListOffsets", {6, 29}, 6),
    ("ListOffsets", {29}, 0),
    ("Produce", {6}, 0),
    ("Produce", {7}, 0),
    ("CreateTopics", {41}, 41),
    ("CreateTopics", {41, 36}, 0),
]


@pytest.mark.parametrize(("name", "codes", "found"), REPEATS)
def test_a_change_is_repeated_only_if_nothing_was_done(
    name: str, codes: set[int], found: int
) -> None:
    assert code_to_repeat(name, codes) == found


def test_codes_of_moved_leaders_ask_for_metadata() -> None:
    assert is_metadata_old({0, 6})
    assert is_metadata_old({41})
    assert not is_metadata_old({7, 29})
    assert not is_metadata_old(set())


def test_pauses_double_up_to_a_bound_with_jitter() -> None:
    still = Backoff(0.1, 1.0, jitter=0.0)
    assert list(islice(still.pauses(Random(1)), 6)) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    varied = list(islice(Backoff().pauses(Random(1)), 100))
    assert max(varied) <= 1.2
    assert len(set(varied)) == 100


# -- metadata -------------------------------------------------------------------------------------


def told(
    leader: int, epoch: int, topic_id: bytes = b"1" * 16, cluster: str | None = "c", code: int = 0
) -> me.MetadataResponse:
    partition = me.MetadataResponsePartition(0, 0, leader, epoch, [1, 2], [1], [2])
    topic = me.MetadataResponseTopic(code, "t", topic_id, partitions=[partition])
    broker = me.MetadataResponseBroker(1, "one", 9092, "rack")
    return me.MetadataResponse(0, [broker], cluster, 1, [topic])


def leader_after(*answers: me.MetadataResponse) -> int:
    known = ClusterMetadata()
    for each in answers:
        known = updated(known, each, is_whole=False, now=1.0)
    return known.topics["t"].partitions[0].leader_id


def test_metadata_is_read() -> None:
    known = updated(ClusterMetadata(), told(1, 5), is_whole=True, now=7.0)
    assert (known.cluster_id, known.controller_id, known.fetched_at) == ("c", 1, 7.0)
    assert (str(known.brokers[1].address), known.brokers[1].rack) == ("one:9092", "rack")
    topic = known.topics["t"]
    assert (topic.topic_id, topic.error_code) == (b"1" * 16, 0)
    partition = topic.partitions[0]
    assert (partition.leader_id, partition.leader_epoch) == (1, 5)
    assert (partition.replicas, partition.isr, partition.offline_replicas) == ((1, 2), (1,), (2,))


def test_old_brokers_say_neither_topic_id_nor_epoch() -> None:
    assert leader_after(told(1, -1, bytes(16)), told(2, -1, bytes(16))) == 2
    known = updated(ClusterMetadata(), told(1, -1, bytes(16)), is_whole=True, now=0.0)
    assert known.topics["t"].topic_id is None


def test_an_answer_with_an_older_epoch_changes_no_leader() -> None:
    assert leader_after(told(1, 5), told(2, 4)) == 1
    assert leader_after(told(1, 5), told(2, 5)) == 2
    assert leader_after(told(1, 5), told(2, 6), told(1, 5)) == 2


def test_a_topic_that_was_made_again_starts_with_low_epochs() -> None:
    assert leader_after(told(1, 5), told(2, 0, b"2" * 16)) == 2


def test_an_answer_about_some_topics_keeps_the_others() -> None:
    known = updated(ClusterMetadata(), told(1, 5), is_whole=True, now=0.0)
    other = me.MetadataResponse(0, [], "c", 1, [me.MetadataResponseTopic(3, "gone")])
    assert set(updated(known, other, is_whole=False, now=1.0).topics) == {"t", "gone"}
    assert set(updated(known, other, is_whole=True, now=1.0).topics) == {"gone"}


def test_another_cluster_is_refused() -> None:
    known = updated(ClusterMetadata(), told(1, 5), is_whole=True, now=0.0)
    with pytest.raises(AnotherCluster, match="cluster d, and before to c"):
        updated(known, told(1, 5, cluster="d"), is_whole=True, now=0.0)
    assert updated(known, told(1, 5, cluster=None), is_whole=True, now=0.0).cluster_id == "c"
