"""The members of one classic group: identities, protocols, leader, and parked requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from .values import JoinedMember, JoinRequest, Protocols, Refusal, member_bytes

PENDING_BYTES = 256
"""Bytes that an assigned member id costs beside its text."""


@dataclass(slots=True)
class Member:
    """join_ticket, sync_ticket: the ticket of the parked request, None if no request is parked.

    expires_at: seconds.

    is_new: its first join is parked, so it can send no heartbeats yet.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: int | None = None
    sync_ticket: int | None = None
    expires_at: float = inf

    @property
    def is_waiting(self) -> bool:
        """Return whether a request of the member is parked, which keeps its session alive."""
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def deadline(self) -> float:
        """Return when the member expires: never while it waits, unless it is new."""
        return self.expires_at if self.is_new or not self.is_waiting else inf

    @property
    def size_bytes(self) -> int:
        """Return the bytes that the member adds to the group's record, without its assignment."""
        return member_bytes(self.client_id, self.client_host, self.instance_id, self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata of a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def touch(self, now: float) -> None:
        """Restart the session timeout."""
        self.expires_at = now + self.session_timeout_ms / 1000


@dataclass(slots=True)
class Roster:
    """members: in the order they came.  pending: assigned ids (KIP-394) and when they lapse.

    size_bytes: the memory of the members. pending_bytes: the memory of the assigned ids.
    """

    members: dict[str, Member] = field(default_factory=dict[str, Member])
    by_instance: dict[str, str] = field(default_factory=dict[str, str])
    pending: dict[str, float] = field(default_factory=dict[str, float])
    leader: str | None = None
    joining: int = 0
    size_bytes: int = 0
    pending_bytes: int = 0
    speakers: Counter[str] = field(default_factory=Counter[str])

    def add(self, member: Member) -> None:
        """Add a member; the first becomes the leader."""
        self.members[member.member_id] = member
        self.end_pending(member.member_id)
        if member.instance_id is not None:
            self.by_instance[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.joining += member.join_ticket is not None
        self._count(member)

    def remove(self, member_id: str) -> Member:
        """Remove a member; the next in line leads if it led.  Its tickets are the caller's."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            del self.by_instance[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.joining -= member.join_ticket is not None
        self._discount(member)
        return member

    def give_out(self, member_id: str, until: float) -> None:
        """Remember an id for the member that will join with it."""
        self.pending[member_id] = until
        self.pending_bytes += PENDING_BYTES + len(member_id)

    def end_pending(self, member_id: str) -> bool:
        """Forget an id that was given out; False when it was not."""
        if self.pending.pop(member_id, None) is None:
            return False
        self.pending_bytes -= PENDING_BYTES + len(member_id)
        return True

    def update(self, member: Member, request: JoinRequest) -> None:
        """Replace the member's values by those of its new join."""
        self._discount(member)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self._count(member)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id; it keeps its place, assignment and leadership."""
        old = member.member_id
        self.members = {
            (member_id if key == old else key): each for key, each in self.members.items()
        }
        member.member_id = member_id
        if member.instance_id is not None:
            self.by_instance[member.instance_id] = member_id
        if self.leader == old:
            self.leader = member_id

    def park_join(self, member: Member, ticket: int) -> None:
        """Park the member until the end of the rebalance."""
        self.joining += member.join_ticket is None
        member.join_ticket = ticket

    def take_join(self, member: Member) -> int | None:
        """Return the ticket of the member's parked join, which the caller answers now."""
        ticket, member.join_ticket = member.join_ticket, None
        self.joining -= ticket is not None
        return ticket

    def all_joined(self) -> bool:
        """Return whether every member has joined the rebalance."""
        return self.joining == len(self.members) and not self.pending

    def elect_joined(self) -> bool:
        """Choose a member that joined as leader; return False if none did."""
        if self.leader is not None and self.members[self.leader].join_ticket is not None:
            return True
        joined = (each.member_id for each in self.members.values() if each.join_ticket is not None)
        candidate = next(joined, None)
        self.leader = candidate or self.leader
        return candidate is not None

    def rebalance_seconds(self) -> float:
        """Return the longest rebalance timeout."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0) / 1000

    def suits(self, protocols: Protocols) -> bool:
        """Return whether all members support one of the protocols."""
        count = len(self.members)
        return any(self.speakers[name] == count for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with most votes; each member votes for its first one that all members
        support.

        At a tie, the protocol that was voted for first wins, in the order of the members.
        """
        count = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if self.speakers[name] == count)] += 1
        return votes.most_common(1)[0][0]

    def check(self, member_id: str, instance_id: str | None) -> Refusal | None:
        """Return whether the member exists and still owns its instance id."""
        if instance_id is not None:
            holder = self.by_instance.get(instance_id)
            if holder is not None and holder != member_id:
                return Refusal.FENCED_INSTANCE
            if holder is None:
                return Refusal.UNKNOWN_MEMBER
        return None if member_id in self.members else Refusal.UNKNOWN_MEMBER

    def joined_members(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """Return the members for the leader's assignment."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(protocol))
            for each in self.members.values()
        )

    def _count(self, member: Member) -> None:
        self.size_bytes += member.size_bytes
        self.speakers.update({name for name, _ in member.protocols})

    def _discount(self, member: Member) -> None:
        self.size_bytes -= member.size_bytes
        for name in {name for name, _ in member.protocols}:
            self.speakers[name] -= 1
            if not self.speakers[name]:
                del self.speakers[name]
