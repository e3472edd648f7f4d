"""SyncGroup of a classic group: the leader's assignment becomes durable, then each member gets its
part.
"""

from __future__ import annotations

from functools import partial
from math import inf

from .classic import ClassicGroup
from .values import Answer, MemberIdentity, Refusal, State, SyncAnswer, SyncRequest


def sync(group: ClassicGroup, request: SyncRequest, *, ticket: int, now: float) -> None:
    """Handle a sync; its answer is an effect of this event or of a later one."""
    refusal = _refusal(group, request)
    if refusal is not None:
        group.effects.append(Answer(ticket, SyncAnswer(refusal)))
        return
    member = group.roster.members[request.member_id]
    member.touch(now)
    group.to_sync.discard(member.member_id)
    if not group.to_sync:
        group.sync_deadline = inf
    if group.state is State.STABLE:
        group.effects.append(Answer(ticket, group.current_sync_answer(member)))
        return
    group.answer_sync(member, SyncAnswer(Refusal.REBALANCE_IN_PROGRESS))
    member.sync_ticket = ticket
    if member.member_id == group.roster.leader:
        _store_assignment(group, dict(request.assignments), now)


def _refusal(group: ClassicGroup, request: SyncRequest) -> Refusal | None:
    identity = MemberIdentity(request.member_id, request.instance_id)
    refusal = group.check(identity, request.generation)
    if refusal is not None:
        return refusal
    if request.protocol_type not in (None, group.protocol_type):
        return Refusal.INCONSISTENT_PROTOCOL
    if request.protocol not in (None, group.protocol):
        return Refusal.INCONSISTENT_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return Refusal.REBALANCE_IN_PROGRESS
    return None


def _store_assignment(group: ClassicGroup, assignments: dict[str, bytes], now: float) -> None:
    if group.storing_assignment == group.generation:
        return  # the leader repeats its sync while the log writes the first one
    known = {key: data for key, data in assignments.items() if key in group.roster.members}
    if sum(map(len, known.values())) > group.settings.max_assignment_bytes:
        group.fail_syncs(Refusal.ASSIGNMENT_TOO_LARGE)
        group.prepare_rebalance(now)
        return
    group.storing_assignment = group.generation
    group.persist(known, partial(_hand_out, group, group.generation, known))


def _hand_out(
    group: ClassicGroup, generation: int, assignments: dict[str, bytes], now: float
) -> None:
    """Answer the parked syncs with the assignment, which is durable now, unless a rebalance
    overtook it.
    """
    if group.state is not State.COMPLETING_REBALANCE or generation != group.generation:
        return
    group.state = State.STABLE
    for member in group.roster.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if group.answer_sync(member, group.current_sync_answer(member)):
            member.touch(now)
