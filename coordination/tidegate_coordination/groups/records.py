"""Between a group's members and their durable form."""

from __future__ import annotations

from ..events.groups import MemberRecord
from .roster import Member, Roster


def member_record(member: Member, assignment: bytes) -> MemberRecord:
    """Return the durable form of a member."""
    return MemberRecord(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
        assignment,
    )


def restored_roster(records: tuple[MemberRecord, ...], leader: str | None, now: float) -> Roster:
    """Return the recorded members; their session timeouts restart, so a move expires no member."""
    roster = Roster()
    for each in records:
        member = Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            each.protocols,
            each.assignment,
        )
        member.touch(now)
        roster.add(member)
    roster.leader = leader
    return roster
