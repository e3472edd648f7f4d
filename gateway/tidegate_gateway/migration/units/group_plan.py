"""The state of a group to move, from the source's answers and from what gateways saw.  Pure.

The source does not show the generation of a group, its leader and the timeouts of its members, but
gateways may have seen them.  If gateways have not seen all of these, the members must join again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate_coordination.events.groups import GroupChanged, MemberRecord
from tidegate_coordination.events.links import ForwardedMember
from tidegate_coordination.groups.values import State
from tidegate_protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

from .forwarded_members import UNKNOWN_MS

_AT_REST: Final = (State.STABLE.value, State.EMPTY.value)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """record: to write here; it has no members if they must join again.

    members: their number at the source.
    """

    record: GroupChanged
    members: int

    @property
    def joins_again(self) -> bool:
        """Return whether members have to join again."""
        return self.members > len(self.record.members)


def planned(described: DescribedGroup, seen: Sequence[ForwardedMember]) -> GroupPlan | str:
    """Return the state of a group, or why it cannot move now, for a person.

    described: the group at its coordinator of the source.  seen: its members, by all gateways.
    """
    unrest = unrest_of(described)
    if unrest:
        return unrest
    known = {each.member_id: each for each in _newest(seen)}
    strangers = [each for each in described.members if each.member_id not in known]
    if strangers:
        return (
            f"{len(strangers)} of its members do not come through gateways, such as client"
            f" {strangers[0].client_id} at {strangers[0].client_host}: stop them, or connect them"
            " to the gateways"
        )
    return GroupPlan(_record(described, known), len(described.members))


def unrest_of(described: DescribedGroup) -> str:
    """Return why a group cannot be moved now, for a person; "" if it can."""
    state = described.group_state
    if state == State.DEAD.value:
        return "the source shows no such group"
    return "" if state in _AT_REST else f"it is {state} at the source: try again in a moment"


def _newest(seen: Sequence[ForwardedMember]) -> list[ForwardedMember]:
    """Return the members by generation, so that the latest state of each comes last."""
    return sorted(seen, key=lambda each: (each.generation, each.session_timeout_ms))


def _record(described: DescribedGroup, known: Mapping[str, ForwardedMember]) -> GroupChanged:
    present = [known[each.member_id] for each in described.members]
    generation = max((each.generation for each in present), default=0)
    leaders = {each.leader for each in present if each.generation == generation}
    leader = next(iter(leaders - {""}), None)
    ids = {each.member_id for each in described.members}
    is_known = leader in ids and all(
        each.generation == generation and each.session_timeout_ms != UNKNOWN_MS for each in present
    )
    members: tuple[MemberRecord, ...] = ()
    if is_known:
        members = tuple(
            _member(each, known[each.member_id], described.protocol_data)
            for each in described.members
        )
    return GroupChanged(
        described.group_id,
        0,
        described.protocol_type,
        max(generation, 0),
        described.protocol_data if members else None,
        leader if members else None,
        members,
    )


def _member(member: DescribedGroupMember, seen: ForwardedMember, protocol: str) -> MemberRecord:
    """Return a member with only the protocol in use; its next JoinGroup has all protocols."""
    return MemberRecord(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        seen.rebalance_timeout_ms,
        seen.session_timeout_ms,
        ((protocol, bytes(member.member_metadata)),),
        bytes(member.member_assignment),
    )
