"""Events of consumer groups (tags 40 to 49).  tenant: see cluster.py."""

from __future__ import annotations

import msgspec

from .cluster import Event
from .fields import Tenant


class MemberRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A member as it must survive a restart of the gateway that serves the group.

    protocols: (name, metadata) in the member's order of preference; assignment: opaque bytes.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class GroupChanged(Event, frozen=True, tag=40):
    """The durable state of a classic group as a whole, after a completed rebalance or when it
    became empty.

    claim_epoch: the epoch of the claim "group/<id>" under which the event was written.
    """

    group_id: str
    claim_epoch: int
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[MemberRecord, ...]
    tenant: Tenant = 0


class CommittedOffset(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One committed offset.  leader_epoch: -1 when the client sent none.  metadata: as sent, "" for
    null.  commit_timestamp_ms: log time.
    """

    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int


class OffsetsCommitted(Event, frozen=True, tag=41):
    """claim_epoch: as in GroupChanged."""

    group_id: str
    claim_epoch: int
    offsets: tuple[CommittedOffset, ...]
    tenant: Tenant = 0


class OffsetsDeleted(Event, frozen=True, tag=42):
    """partitions: (topic id, partition)."""

    group_id: str
    partitions: tuple[tuple[bytes, int], ...]
    tenant: Tenant = 0


class GroupDeleted(Event, frozen=True, tag=43):
    """Deletes the group and all its offsets."""

    group_id: str
    tenant: Tenant = 0
