"""The rules of the generated codec, one by one: limits, nulls, tags, parts, golden bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.errors import LocalProtocolError, RemoteProtocolError
from tidegate_protocol.messages import (
    api_versions,
    delete_topics,
    fetch,
    list_groups,
    metadata,
    offset_fetch,
    produce,
)
from tidegate_protocol.messages import describe_topic_partitions as describe
from tidegate_protocol.primitives import GATHER_BYTES, MAX_TAGS, Buffer

# acks -1, timeout 1000, one topic "t", partition 7 with records b"abc"
PRODUCE_9 = bytes.fromhex("00 ffff 000003e8 02 02 74 02 00000007 04 616263 00 00 00")
PRODUCE_3 = bytes.fromhex("ffff ffff 000003e8 00000001 0001 74 00000001 00000007 00000003 616263")
PRODUCE = produce.ProduceRequest(
    acks=-1,
    timeout_ms=1000,
    topic_data=[
        produce.TopicProduceData(
            name="t", partition_data=[produce.PartitionProduceData(index=7, records=b"abc")]
        )
    ],
)


@pytest.mark.parametrize(("version", "golden"), [(3, PRODUCE_3), (8, PRODUCE_3), (9, PRODUCE_9)])
def test_produce_has_its_known_bytes(version: int, golden: bytes) -> None:
    assert produce.encode_request(PRODUCE, version) == golden
    assert produce.decode_request(memoryview(golden), version) == PRODUCE


def test_api_versions_has_its_known_bytes() -> None:
    request = api_versions.ApiVersionsRequest("librdkafka", "2.0.2")
    golden = b"\x0blibrdkafka\x062.0.2\0"
    assert api_versions.encode_request(request, 3) == golden
    assert api_versions.decode_request(memoryview(golden), 3) == request
    response = api_versions.ApiVersionsResponse(
        api_keys=[api_versions.ApiVersion(ApiKey.API_VERSIONS, 0, 4)]
    )
    assert api_versions.encode_response(response, 0) == bytes.fromhex(
        "0000 00000001 0012 0000 0004"
    )
    golden = bytes.fromhex("0000 02 0012 0000 0004 00 00000000 00")
    assert api_versions.encode_response(response, 3) == golden


def test_fetch_response_has_its_known_bytes() -> None:
    partition = fetch.PartitionData(
        partition_index=1, high_watermark=9, records=b"abc", aborted_transactions=None
    )
    response = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic="t", partitions=[partition])]
    )
    golden = bytes.fromhex(
        "00000000 00000001 0001 74 00000001 00000001 0000 0000000000000009 ffffffffffffffff"
        "ffffffff 00000003 616263"
    )
    assert b"".join(fetch.encode_response(response, 4)) == golden


def test_records_are_slices_of_the_frame() -> None:
    frame = bytearray(PRODUCE_9)
    request = produce.decode_request(memoryview(frame), 9)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"abc")] = ord("x")
    assert bytes(records) == b"xbc"


LYING_ARRAYS: list[tuple[str, Callable[[memoryview, int], Any], bytes, int]] = [
    ("classic", produce.decode_request, PRODUCE_3[:8] + b"\x7f\xff\xff\xff" + bytes(50), 3),
    ("compact", produce.decode_request, PRODUCE_9[:7] + b"\xff\xff\xff\xff\x0f" + bytes(50), 9),
    ("negative", produce.decode_request, PRODUCE_3[:8] + b"\xff\xff\xff\xfe" + bytes(50), 3),
    ("ints", describe.decode_response, bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(50), 0),
    ("above the cap", list_groups.decode_request, b"\x82\x89\x7a" + bytes(2_000_000), 4),
]


@pytest.mark.parametrize(
    ("decode", "data", "version"),
    [case[1:] for case in LYING_ARRAYS],
    ids=[case[0] for case in LYING_ARRAYS],
)
def test_lying_arrays_are_refused(
    decode: Callable[[memoryview, int], Any], data: bytes, version: int
) -> None:
    with pytest.raises(RemoteProtocolError, match=r"elements|length"):
        decode(memoryview(data), version)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x10", b"\x80" * 9])
def test_lying_strings_are_refused(length: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        api_versions.decode_request(memoryview(length + b"abc\0\0"), 3)


def test_negative_string_lengths_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="length -2"):
        produce.decode_request(memoryview(b"\xff\xfe" + PRODUCE_3[2:]), 3)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="utf-8"):
        api_versions.decode_request(memoryview(b"\x02\xff\x02a\0"), 3)


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(RemoteProtocolError, match="ClientSoftwareName is null"):
        api_versions.decode_request(memoryview(b"\0\x02a\0"), 3)
    with pytest.raises(RemoteProtocolError, match="Topics is null"):
        metadata.decode_request(memoryview(b"\xff\xff\xff\xff"), 0)
    assert metadata.decode_request(memoryview(b"\xff\xff\xff\xff"), 1).topics is None


def _tagged(*tags: bytes) -> memoryview:
    return memoryview(b"\x02a\x02b" + bytes([len(tags)]) + b"".join(tags))


def test_unknown_tags_are_skipped() -> None:
    request = api_versions.decode_request(_tagged(b"\x05\x03xyz", b"\xff\x01\0"), 3)
    assert request == api_versions.ApiVersionsRequest("a", "b")


def test_tags_past_the_end_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="passes the end"):
        api_versions.decode_request(_tagged(b"\x05\x04xyz"), 3)


def test_too_many_tags_are_refused() -> None:
    data = b"\x02a\x02b" + b"\x81\x01" + b"\x05\x00" * (MAX_TAGS + 1)
    with pytest.raises(RemoteProtocolError, match="129 tagged fields"):
        api_versions.decode_request(memoryview(data), 3)


@pytest.mark.parametrize("size", [7, 9])
def test_a_known_tag_of_the_wrong_size_is_refused(size: int) -> None:
    head = bytes.fromhex("0000 01 00000000 01 01") + bytes([size])
    with pytest.raises(RemoteProtocolError, match="where its size says"):
        api_versions.decode_response(memoryview(head + bytes(9)), 3)


def test_a_value_that_a_version_cannot_carry_is_refused_unless_ignorable() -> None:
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g")
    with pytest.raises(LocalProtocolError, match="Groups is set and version 7"):
        offset_fetch.encode_request(offset_fetch.OffsetFetchRequest(groups=[group]), 7)
    response = metadata.MetadataResponse(cluster_id="c", throttle_time_ms=5)
    assert metadata.decode_response(
        memoryview(metadata.encode_response(response, 1)), 1
    ) == metadata.MetadataResponse(controller_id=-1)


def test_null_is_not_written_where_the_version_has_none() -> None:
    topics = delete_topics.DeleteTopicsResponse(
        responses=[delete_topics.DeletableTopicResult(name=None)]
    )
    assert delete_topics.encode_response(topics, 6)
    with pytest.raises(LocalProtocolError, match="Name may not be null"):
        delete_topics.encode_response(topics, 5)


def test_values_that_do_not_fit_are_our_fault() -> None:
    with pytest.raises(LocalProtocolError, match="ProduceRequest version 9"):
        produce.encode_request(produce.ProduceRequest(acks=40_000), 9)
    with pytest.raises(LocalProtocolError, match="unknown version"):
        produce.encode_request(PRODUCE, 2)


def _fetch_parts(*records: Buffer | list[Buffer] | None) -> list[Buffer]:
    partitions = [fetch.PartitionData(partition_index=1, records=each) for each in records]
    topic = fetch.FetchableTopicResponse(topic="t", partitions=partitions)
    return fetch.encode_response(fetch.FetchResponse(responses=[topic]), 12)


def test_large_records_are_parts_of_their_own() -> None:
    large, small = bytes(GATHER_BYTES), bytes(GATHER_BYTES - 1)
    parts = _fetch_parts(large, small, None, large)
    assert [part is large for part in parts] == [False, True, False, True, False]
    assert len(_fetch_parts(small, small, None)) == 1


def test_records_in_pieces_are_one_value() -> None:
    head, body = bytes(61), b"b" * GATHER_BYTES
    pieces: list[Buffer] = [head, memoryview(body), b"tail"]
    parts = _fetch_parts(pieces)
    assert len(parts) == 3
    response = fetch.decode_response(memoryview(b"".join(parts)), 12)
    assert response.responses[0].partitions[0].records == head + body + b"tail"
    assert b"".join(parts) == b"".join(_fetch_parts(head + body + b"tail"))


def test_a_nullable_struct_has_its_marker() -> None:
    request = describe.DescribeTopicPartitionsRequest()
    assert describe.encode_request(request, 0) == b"\x01\0\0\x07\xd0\xff\0"
    request.cursor = describe.DescribeTopicPartitionsRequestCursor("t", 3)
    raw = describe.encode_request(request, 0)
    assert raw == b"\x01\0\0\x07\xd0\x01\x02t\0\0\0\x03\0\0"
    assert describe.decode_request(memoryview(raw), 0) == request
