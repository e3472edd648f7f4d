"""Keys and values of `__consumer_offsets`, in the versions that Kafka 4.3.1 writes.

    commit:  key 1 (int16), group, topic, partition (int32)
             value 4 (int16), offset (int64), leader epoch (int32), metadata, time (int64), tags
    group:   key 2 (int16), group
             value 3 (int16), protocol type, generation (int32), protocol, leader, time (int64),
             members: id, instance id, client id, client host, rebalance timeout (int32),
             session timeout (int32), subscription, assignment

The value of a commit is flexible; its tag 0 is the topic id. Keys and the value of a group are not
flexible.  A deletion has no value.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from .primitives import write_compact_string, write_string, write_tags

_COMMIT: Final = 1
_COMMIT_VERSION: Final = 4
_GROUP: Final = 2
_GROUP_VERSION: Final = 3
_NULL: Final = b"\xff\xff"

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_TIMEOUTS: Final = Struct(">ii")
_OFFSET: Final = Struct(">hqi")


class MemberValue(NamedTuple):
    """A member in the value of a group; both time-outs in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


def commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    out = bytearray(_INT16.pack(_COMMIT))
    write_string(out, group_id)
    write_string(out, topic)
    return bytes(out + _INT32.pack(partition))


def commit_value(
    offset: int, leader_epoch: int, metadata: str, timestamp_ms: int, topic_id: bytes
) -> bytes:
    """Return the value of a committed offset; leader_epoch: -1 for none."""
    out = bytearray(_OFFSET.pack(_COMMIT_VERSION, offset, leader_epoch))
    write_compact_string(out, metadata)
    out += _INT64.pack(timestamp_ms)
    write_tags(out, [(0, bytearray(topic_id))])
    return bytes(out)


def group_key(group_id: str) -> bytes:
    """Return the key of a group."""
    out = bytearray(_INT16.pack(_GROUP))
    write_string(out, group_id)
    return bytes(out)


def group_value(
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    timestamp_ms: int,
    members: Iterable[MemberValue],
) -> bytes:
    """Return the value of a group; timestamp_ms: of its last change."""
    out = bytearray(_INT16.pack(_GROUP_VERSION))
    write_string(out, protocol_type)
    out += _INT32.pack(generation)
    _write_nullable(out, protocol)
    _write_nullable(out, leader)
    out += _INT64.pack(timestamp_ms)
    rows = list(members)
    out += _INT32.pack(len(rows))
    for each in rows:
        write_string(out, each.member_id)
        _write_nullable(out, each.instance_id)
        write_string(out, each.client_id)
        write_string(out, each.client_host)
        out += _TIMEOUTS.pack(each.rebalance_timeout_ms, each.session_timeout_ms)
        for data in (each.subscription, each.assignment):
            out += _INT32.pack(len(data))
            out += data
    return bytes(out)


def _write_nullable(out: bytearray, value: str | None) -> None:
    if value is None:
        out += _NULL
    else:
        write_string(out, value)
