"""Error codes, the consumer protocol, and varints."""

from __future__ import annotations

import pytest

from tidegate_protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidegate_protocol.error_codes import ErrorCode, error_text, is_retriable
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tidegate_protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidegate_protocol.primitives import (
    read_uvarint,
    read_varint,
    write_uvarint,
    write_varint,
)


def test_every_code_has_a_text() -> None:
    assert error_text(0) == ""
    assert error_text(3) == "This server does not host this topic-partition."
    assert error_text(29) == "Topic authorization failed."
    for code in ErrorCode:
        assert code == 0 or error_text(code).endswith("."), code
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_retriable_codes_are_those_of_the_java_client() -> None:
    assert is_retriable(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert is_retriable(ErrorCode.UNKNOWN_TOPIC_ID)
    assert not is_retriable(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not is_retriable(ErrorCode.BROKER_NOT_AVAILABLE)


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_read(version: int) -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u")
    if version >= 1:
        subscription.owned_partitions = [TopicPartition("a", [0, 1])]
    raw = encode_subscription(subscription, version)
    assert raw[:2] == version.to_bytes(2, "big")
    assert decode_subscription(raw) == subscription


def test_assignments_of_a_later_version_are_read_as_ours() -> None:
    assignment = ConsumerProtocolAssignment([Assigned("a", [2])], user_data=None)
    raw = encode_assignment(assignment)
    assert raw == bytes.fromhex("0003 00000001 0001 61 00000001 00000002 ffffffff")
    assert decode_assignment(b"\0\x09" + raw[2:] + b"new field") == assignment


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\xff\xff", b"\0\0\0\0\0\1\xff"])
def test_foreign_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_subscription(data)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**32 - 1])
def test_unsigned_varints_are_read(value: int) -> None:
    out = bytearray(b"x")
    write_uvarint(out, value)
    assert read_uvarint(memoryview(out), 1) == (value, len(out))


@pytest.mark.parametrize("value", [0, -1, 1, -64, 64, 2**31, -(2**63), 2**63 - 1])
def test_signed_varints_are_read(value: int) -> None:
    out = bytearray(b"x")
    write_varint(out, value)
    assert read_varint(out, 1) == (value, len(out))


def test_endless_varints_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="32 bits"):
        read_uvarint(memoryview(b"\xff\xff\xff\xff\x1f"), 0)
    with pytest.raises(RemoteProtocolError):
        read_uvarint(memoryview(b"\x80" * 20), 0)
    with pytest.raises(RemoteProtocolError):
        read_varint(b"\x80" * 20, 0)
