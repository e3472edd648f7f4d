"""JoinGroup of a classic group: which members may join, and whether that starts a rebalance."""

from __future__ import annotations

from functools import partial
from typing import Final

from .classic import ClassicGroup
from .roster import Member
from .values import Answer, JoinAnswer, JoinRequest, Refusal, State, SyncAnswer

MAX_ID_BYTES: Final = 2**15 - 1


def join(group: ClassicGroup, request: JoinRequest, *, ticket: int, now: float) -> None:
    """Handle a join; its answer is an effect of this event or of a later one."""
    refusal = _refusal(group, request)
    if refusal is not None:
        _answer(group, ticket, JoinAnswer(refusal, request.member_id))
    elif request.member_id:
        _join_known(group, request, ticket, now)
    elif request.instance_id is not None:
        _join_static(group, request, ticket, now)
    elif request.requires_known_id:
        _give_id(group, request, ticket, now)
    else:
        _add(group, request, _fresh_id(request), ticket, now)


def _refusal(group: ClassicGroup, request: JoinRequest) -> Refusal | None:
    settings = group.settings
    timeout = request.session_timeout_ms
    if not settings.min_session_timeout_ms <= timeout <= settings.max_session_timeout_ms:
        return Refusal.INVALID_SESSION_TIMEOUT
    if group.state is State.DEAD:
        return Refusal.UNAVAILABLE
    if not _has_room(group, request.member_id) or not _has_bytes(group, request):
        group.roster.end_pending(request.member_id)
        return Refusal.GROUP_FULL
    if not _suits(group, request):
        return Refusal.INCONSISTENT_PROTOCOL
    return None


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Return whether a member has a place; in a rebalance, first come, first served (KIP-389)."""
    roster, limit = group.roster, group.settings.max_size
    member = roster.members.get(member_id)
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING_REBALANCE:
        waits = member is not None and member.join_ticket is not None
        return waits or roster.joining < limit
    return member is not None or len(roster.members) < limit


def _has_bytes(group: ClassicGroup, request: JoinRequest) -> bool:
    roster = group.roster
    member_id = request.member_id or roster.by_instance.get(request.instance_id or "", "")
    present = roster.members.get(member_id)
    freed = present.size_bytes if present is not None else 0
    return roster.size_bytes - freed + request.size_bytes <= group.settings.max_join_bytes


def _suits(group: ClassicGroup, request: JoinRequest) -> bool:
    """Return whether the request fits the group.

    An empty group accepts any type.  Other groups accept their own type, if all members then
    support a common protocol.
    """
    if not group.roster.members:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.roster.suits(request.protocols)


def _give_id(group: ClassicGroup, request: JoinRequest, ticket: int, now: float) -> None:
    """Answer a first join with a member id (KIP-394).

    A client that is lost after its first join then does not hold up a rebalance.
    """
    if len(group.roster.pending) >= group.settings.max_pending_members:
        _answer(group, ticket, JoinAnswer(Refusal.UNAVAILABLE, ""))
        return
    member_id = _fresh_id(request)
    group.roster.give_out(member_id, now + request.session_timeout_ms / 1000)
    _answer(group, ticket, JoinAnswer(Refusal.MEMBER_ID_REQUIRED, member_id))


def _join_known(group: ClassicGroup, request: JoinRequest, ticket: int, now: float) -> None:
    if request.member_id in group.roster.pending and request.instance_id is None:
        _add(group, request, request.member_id, ticket, now)
        return
    refusal = group.roster.check(request.member_id, request.instance_id)
    if refusal is not None:
        _answer(group, ticket, JoinAnswer(refusal, request.member_id))
        return
    member = group.roster.members[request.member_id]
    if _changes_nothing(group, member, request):
        member.touch(now)
        _answer(group, ticket, group.current_join_answer(member.member_id))
    else:
        _rejoin(group, member, request, ticket, now)


def _changes_nothing(group: ClassicGroup, member: Member, request: JoinRequest) -> bool:
    """Return whether a join can be answered with the current generation.

    The member may have missed its first answer.  In a stable group the leader joins again to get a
    rebalance, for instance after partitions were added to a topic.
    """
    if member.protocols != request.protocols or member.join_ticket is not None:
        return False
    leads = member.member_id == group.roster.leader
    return group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)


def _rejoin(
    group: ClassicGroup, member: Member, request: JoinRequest, ticket: int, now: float
) -> None:
    group.roster.update(member, request)
    _park(group, member, ticket)
    if group.state is State.PREPARING_REBALANCE:
        group.complete_join_if_all_are_here(now)
    else:
        group.prepare_rebalance(now)


def _join_static(group: ClassicGroup, request: JoinRequest, ticket: int, now: float) -> None:
    member_id = _fresh_id(request)
    present = group.roster.by_instance.get(request.instance_id or "")
    if present is None:
        _add(group, request, member_id, ticket, now)
    else:
        _replace(group, group.roster.members[present], request, member_id, ticket, now)


def _add(
    group: ClassicGroup, request: JoinRequest, member_id: str, ticket: int, now: float
) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        is_new=True,
        expires_at=now + group.settings.new_member_join_seconds,
    )
    if not group.roster.members:
        group.protocol_type = request.protocol_type
    group.roster.add(member)
    _park(group, member, ticket)
    group.grew = True
    if group.state is State.PREPARING_REBALANCE:
        group.complete_join_if_all_are_here(now)
    else:
        group.prepare_rebalance(now)


def _replace(
    group: ClassicGroup,
    member: Member,
    request: JoinRequest,
    member_id: str,
    ticket: int,
    now: float,
) -> None:
    """Replace the member of a returning instance; its old member id is fenced (KIP-345)."""
    old_leader = group.roster.leader or ""
    _fence(group, member)
    group.to_sync.discard(member.member_id)
    group.roster.rename(member, member_id)
    group.roster.update(member, request)
    member.touch(now)
    _park(group, member, ticket)
    if group.state is State.PREPARING_REBALANCE:
        group.complete_join_if_all_are_here(now)
    elif group.state is State.STABLE and group.roster.select_protocol() == group.protocol:
        assignments = {key: each.assignment for key, each in group.roster.members.items()}
        leader = None if request.can_skip_assignment else old_leader
        group.persist(assignments, partial(_welcome_back, group, member, ticket, leader))
    else:
        group.prepare_rebalance(now)


def _fence(group: ClassicGroup, member: Member) -> None:
    group.answer_join(member, JoinAnswer(Refusal.FENCED_INSTANCE, member.member_id))
    group.answer_sync(member, SyncAnswer(Refusal.FENCED_INSTANCE))


def _welcome_back(
    group: ClassicGroup, member: Member, ticket: int, shown_leader: str | None, now: float
) -> None:
    """Answer the join of a returning static member, whose new id is durable now.

    shown_leader: before KIP-814 (v9) an answer cannot ask a returning leader to skip the
    assignment, so it names the old id as the leader's and the member acts as a follower.  None: v9
    and later.

    If a rebalance has begun meanwhile, the join waits for it.  If the instance has returned once
    more, its later join waits for the later record.
    """
    if group.state is not State.STABLE or member.join_ticket != ticket:
        return
    leads = member.member_id == group.roster.leader
    answer = group.current_join_answer(
        member.member_id, skip_assignment=leads and shown_leader is None
    )
    if shown_leader is not None:
        answer = JoinAnswer(
            None,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            shown_leader,
        )
    if group.answer_join(member, answer):
        member.touch(now)


def _park(group: ClassicGroup, member: Member, ticket: int) -> None:
    """Let the join wait.

    An earlier join of the member, perhaps on a lost connection, ends here.
    """
    group.answer_join(member, JoinAnswer(Refusal.REBALANCE_IN_PROGRESS, member.member_id))
    group.roster.park_join(member, ticket)


def _fresh_id(request: JoinRequest) -> str:
    """Return a new member id, cut so that it fits a string of the protocol."""
    room_bytes = MAX_ID_BYTES - len(request.fresh_id) - 1
    begin = (request.instance_id or request.client_id).encode()[:room_bytes]
    return f"{begin.decode(errors='ignore')}-{request.fresh_id}"


def _answer(group: ClassicGroup, ticket: int, answer: JoinAnswer) -> None:
    group.effects.append(Answer(ticket, answer))
