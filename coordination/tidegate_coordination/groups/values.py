"""The inputs and the effects of a group's machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..events.groups import GroupChanged

Protocols = tuple[tuple[str, bytes], ...]
CONSUMER_PROTOCOL_TYPE = "consumer"
MEMBER_BYTES = 128
"""Bytes of a member beside the ones that it sent: its id's random part, numbers and lengths."""


def member_bytes(client_id: str, client_host: str, instance_id: str | None, sent: Protocols) -> int:
    """Return an upper bound of a member's bytes in its group's record, without its assignment.

    A member id begins with the client id or the instance id.
    """
    texts = 2 * _bytes(client_id) + _bytes(client_host) + 2 * _bytes(instance_id or "")
    return MEMBER_BYTES + texts + sum(_bytes(name) + len(data) for name, data in sent)


def _bytes(text: str) -> int:
    return len(text.encode())


class Refusal(Enum):
    """Why a group refuses a member's request."""

    INVALID_GROUP_ID = "the group id is empty"
    INVALID_SESSION_TIMEOUT = "the session timeout is out of range"
    UNKNOWN_MEMBER = "no such member"
    FENCED_INSTANCE = "another member took over the instance id"
    ILLEGAL_GENERATION = "the generation is not the group's"
    REBALANCE_IN_PROGRESS = "members must join again"
    INCONSISTENT_PROTOCOL = "protocol type or protocols do not suit the group"
    MEMBER_ID_REQUIRED = "join again with the member id of this answer"
    GROUP_FULL = "the group has as many members, or as much metadata, as is allowed"
    ASSIGNMENT_TOO_LARGE = "the leader's assignment does not fit in the metadata log"
    NOT_COORDINATOR = "another gateway serves the group"
    UNAVAILABLE = "the group cannot be served just now"


class State(Enum):
    """The states of a classic group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """fresh_id: a random text, for the id of a member that has none.

    protocols: the member's protocols, by preference.
    requires_known_id: JoinGroup v4+ (KIP-394).
    can_skip_assignment: v9+ (KIP-814).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_id: str
    requires_known_id: bool = True
    can_skip_assignment: bool = True

    @property
    def size_bytes(self) -> int:
        """Return how many bytes a member of this request adds to its group."""
        return member_bytes(self.client_id, self.client_host, self.instance_id, self.protocols)


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member in the JoinGroup answer of the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """members: for the leader only."""

    refusal: Refusal | None
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """protocol_type, protocol: None if the version lacks them.

    assignments: (member id, bytes), from the leader only.
    """

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The assignment of one member."""

    refusal: Refusal | None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """A member as Heartbeat, OffsetCommit and LeaveGroup name it."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the parked request of a ticket."""

    ticket: int
    value: JoinAnswer | SyncAnswer


@dataclass(frozen=True, slots=True)
class Persist:
    """Append this to the metadata log, after earlier Persist effects; then call `persisted`."""

    record: GroupChanged


Effect = Answer | Persist


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Description:
    """A group as DescribeGroups and ListGroups show it."""

    state: State
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
