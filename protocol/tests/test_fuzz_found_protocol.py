"""Bugs that fuzzing found in the protocol, each as the smallest input that showed it."""

from __future__ import annotations

import os
import tracemalloc

import lz4.frame
import pytest

from tidegate_protocol.compression import Codec, compress, decompress
from tidegate_protocol.errors import InvalidBatch, RemoteProtocolError
from tidegate_protocol.messages import describe_cluster, heartbeat, metadata, offset_fetch
from tidegate_protocol.messages.heartbeat import HeartbeatRequest
from tidegate_protocol.primitives import MAX_TEXT_BYTES

LARGE_BOUND = 256 << 20
TEXTS = (b"", b"a", bytes(200_000), os.urandom(300_000), b"text " * 30_000)


def test_lz4_allocates_the_actual_and_not_the_largest_size() -> None:
    packed = compress(b"some text", Codec.LZ4)
    tracemalloc.start()
    decompress(packed, Codec.LZ4, max_bytes=LARGE_BOUND)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_lz4_in_pieces(text: bytes, linked: bool) -> None:
    packed = lz4.frame.compress(text, block_linked=linked, content_checksum=True)
    assert decompress(packed, Codec.LZ4, max_bytes=len(text)) == text
    with pytest.raises(InvalidBatch, match="damaged"):
        decompress(packed[:-1], Codec.LZ4, max_bytes=LARGE_BOUND)
    if text:
        with pytest.raises(InvalidBatch, match="larger"):
            decompress(packed, Codec.LZ4, max_bytes=len(text) - 1)


def test_a_flexible_string_is_no_longer_than_a_classic_one_can_be() -> None:
    """Otherwise it could not be sent back to a client that asks in a classic version."""
    longest = HeartbeatRequest(group_id="x" * MAX_TEXT_BYTES)
    sent = heartbeat.encode_request(longest, 4)
    assert heartbeat.decode_request(memoryview(sent), 4) == longest
    heartbeat.encode_request(longest, 3)
    too_long = heartbeat.encode_request(HeartbeatRequest(group_id="x" * (MAX_TEXT_BYTES + 1)), 4)
    with pytest.raises(RemoteProtocolError, match="32768 bytes"):
        heartbeat.decode_request(memoryview(too_long), 4)


def test_long_nullable_strings_and_strings_in_arrays_are_refused() -> None:
    text = "x" * (MAX_TEXT_BYTES + 1)
    response = describe_cluster.DescribeClusterResponse(error_message=text)
    with pytest.raises(RemoteProtocolError, match="32768 bytes"):
        describe_cluster.decode_response(
            memoryview(describe_cluster.encode_response(response, 0)), 0
        )
    topic = metadata.MetadataRequestTopic(name=text)
    request = metadata.encode_request(metadata.MetadataRequest([topic]), 9)
    with pytest.raises(RemoteProtocolError, match="32768 bytes"):
        metadata.decode_request(memoryview(request), 9)
    fetch = offset_fetch.OffsetFetchRequest(group_id=text)
    with pytest.raises(RemoteProtocolError, match="32768 bytes"):
        offset_fetch.decode_request(memoryview(offset_fetch.encode_request(fetch, 6)), 6)
