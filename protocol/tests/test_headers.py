from __future__ import annotations

import pytest

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.errors import LocalProtocolError, RemoteProtocolError
from tidegate_protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)

# Measured: the versions that a broker of Kafka 4.3.1 announces, with unstable versions off.
ANNOUNCED = """
    Produce 0-13 Fetch 4-18 ListOffsets 1-11 Metadata 0-13 OffsetCommit 2-10 OffsetFetch 1-10
    FindCoordinator 0-6 JoinGroup 0-9 Heartbeat 0-4 LeaveGroup 0-5 SyncGroup 0-5 DescribeGroups 0-6
    ListGroups 0-5 ApiVersions 0-4 CreateTopics 2-7 DeleteTopics 1-6 DeleteRecords 0-2
    InitProducerId 0-5 OffsetForLeaderEpoch 2-4 DescribeConfigs 1-4 AlterConfigs 0-2
    DescribeLogDirs 1-5 CreatePartitions 0-3 DeleteGroups 0-2 IncrementalAlterConfigs 0-1
    OffsetDelete 0-0 DescribeCluster 0-2 ListConfigResources 0-1 DescribeTopicPartitions 0-0
    DescribeClientQuotas 0-1 AlterClientQuotas 0-1 CreateDelegationToken 1-3
    RenewDelegationToken 1-2 ExpireDelegationToken 1-2 DescribeDelegationToken 1-3
    AlterReplicaLogDirs 1-2 ElectLeaders 0-2 AlterPartitionReassignments 0-1
    ListPartitionReassignments 0-0 DescribeQuorum 0-2 UpdateFeatures 0-2 DescribeAcls 1-3
    CreateAcls 1-3 DeleteAcls 1-3 DescribeProducers 0-0 AddPartitionsToTxn 0-5 AddOffsetsToTxn 0-4
    EndTxn 0-5 TxnOffsetCommit 0-5 WriteTxnMarkers 1-2 DescribeTransactions 0-0 ListTransactions 0-2
    SaslHandshake 0-1 SaslAuthenticate 0-2 DescribeUserScramCredentials 0-0
    AlterUserScramCredentials 0-0 GetTelemetrySubscriptions 0-0 PushTelemetry 0-0
"""


def test_api_keys_are_named_as_the_apis_are() -> None:
    named = {each.value: each.name.replace("_", "").lower() for each in ApiKey}
    assert named == {key: facts.name.lower() for key, facts in APIS.items()}


def test_the_table_announces_the_versions_that_kafka_announces() -> None:
    words = ANNOUNCED.split()
    expected = dict(zip(words[::2], words[1::2], strict=True))
    for facts in APIS.values():
        announced = f"{facts.announced_min_version}-{facts.max_version}"
        assert expected.pop(facts.name) == announced
    assert not expected


@pytest.mark.parametrize("client_id", [None, "", "kcat-ä"])
@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_request_headers_are_read(client_id: str | None, version: int) -> None:
    raw = encode_request_header(ApiKey.PRODUCE, version, 77, client_id=client_id)
    header = decode_request_header(memoryview(raw + b"body"))
    assert header == RequestHeader(ApiKey.PRODUCE, version, 77, client_id, len(raw))


def test_request_headers_have_their_known_bytes() -> None:
    classic = bytes.fromhex("0000 0008 0000004d 0002 6162")
    assert encode_request_header(ApiKey.PRODUCE, 8, 77, client_id="ab") == classic
    flexible = bytes.fromhex("0000 0009 0000004d 0002 6162 00")
    assert encode_request_header(ApiKey.PRODUCE, 9, 77, client_id="ab") == flexible


def test_a_header_of_an_unknown_version_of_api_versions_is_read() -> None:
    raw = bytes.fromhex("0012 0063 0000004d ffff 01 05 01 78") + b"body"
    assert decode_request_header(memoryview(raw)) == RequestHeader(
        ApiKey.API_VERSIONS, 99, 77, None, 14
    )


def test_a_header_of_an_unknown_api_is_read() -> None:
    raw = bytes.fromhex("03e7 0001 0000004d 0001 61 00")
    assert decode_request_header(memoryview(raw)) == RequestHeader(999, 1, 77, "a", 11)


def test_every_truncated_header_is_refused() -> None:
    raw = memoryview(bytes.fromhex("0000 0009 0000004d 0002 6162 01 05 01 78"))
    assert decode_request_header(raw).body_position == len(raw)
    for size in range(len(raw)):
        with pytest.raises(RemoteProtocolError):
            decode_request_header(raw[:size])


@pytest.mark.parametrize("client_id", ["fffe", "0001 ff", "7fff 61"])
def test_a_bad_client_id_is_refused(client_id: str) -> None:
    raw = bytes.fromhex("0000 0008 0000004d" + client_id)
    with pytest.raises(RemoteProtocolError):
        decode_request_header(memoryview(raw))


def test_response_headers_follow_the_version() -> None:
    assert response_header(77, ApiKey.PRODUCE, 8) == b"\0\0\0\x4d"
    assert response_header(77, ApiKey.PRODUCE, 9) == b"\0\0\0\x4d\0"
    assert response_header(77, ApiKey.API_VERSIONS, 4) == b"\0\0\0\x4d"
    assert response_header(77, ApiKey.OFFSET_DELETE, 0) == b"\0\0\0\x4d"
    assert response_header(77, 999, 9) == b"\0\0\0\x4d"


def test_response_headers_are_read_back() -> None:
    for key, version in ((ApiKey.PRODUCE, 8), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 3)):
        raw = response_header(77, key, version)
        assert decode_response_header(memoryview(raw), key, version) == (77, len(raw))
    tagged = memoryview(b"\0\0\0\x4d\x01\x05\x01x")
    assert decode_response_header(tagged, ApiKey.PRODUCE, 9) == (77, 8)
    with pytest.raises(RemoteProtocolError):
        decode_response_header(memoryview(b"\0\0\0\x4d"), ApiKey.PRODUCE, 9)


def test_no_header_is_written_for_an_unknown_api() -> None:
    with pytest.raises(LocalProtocolError, match="999"):
        encode_request_header(999, 0, 1, client_id=None)
