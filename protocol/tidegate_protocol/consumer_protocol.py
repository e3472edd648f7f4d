"""The metadata in JoinGroup and the assignments in SyncGroup of classic consumers.

A version of two bytes, then a message that never becomes flexible.  Later versions only append
fields, so a version above ours is read as ours.
"""

from __future__ import annotations

from struct import Struct

from .errors import RemoteProtocolError
from .messages import consumer_protocol_assignment as assignments
from .messages import consumer_protocol_subscription as subscriptions
from .messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from .messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from .primitives import Buffer

LATEST_VERSION = 3

_VERSION = Struct(">h")


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Read a member's metadata.

    Raises:
      RemoteProtocolError: the member did not write Kafka's consumer protocol.
    """
    return subscriptions.decode(memoryview(data)[2:], _version(data))


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Read a member's assignment.

    Raises:
      RemoteProtocolError: the leader did not write Kafka's consumer protocol.
    """
    return assignments.decode(memoryview(data)[2:], _version(data))


def encode_subscription(
    subscription: ConsumerProtocolSubscription, version: int = LATEST_VERSION
) -> bytes:
    return _VERSION.pack(version) + subscriptions.encode(subscription, version)


def encode_assignment(
    assignment: ConsumerProtocolAssignment, version: int = LATEST_VERSION
) -> bytes:
    return _VERSION.pack(version) + assignments.encode(assignment, version)


def _version(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise RemoteProtocolError("a consumer protocol message ends inside its version")
    version: int = _VERSION.unpack_from(data)[0]
    return min(version, LATEST_VERSION)
