"""One classic group: a machine of requests and times in, effects out.

States are Kafka's.  A rebalance begins when a member joins, leaves, expires or changes its
protocols (PreparingRebalance: joins are parked until all known members are back, or the longest
rebalance timeout has passed).  It continues when the joins are answered (CompletingRebalance: syncs
are parked until the leader's assignment is durable), and ends in Stable.

Persist effects carry the facts that must survive a restart: the assignment before any sync is
answered, a returning static member's new id before its join is answered, and that the group became
empty.  The owner appends these facts one after the other and calls `persisted` after each. If an
append fails, or its outcome is unknown, the owner calls `abandon` and restores a new machine from
the log.

Times are seconds on any clock that does not jump.  Written from the behaviour of Kafka's group
coordinator (KIP-134, KIP-345, KIP-394, KIP-814, KAFKA-12462).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from ..events.groups import GroupChanged
from .records import member_record, restored_roster
from .roster import Member, Roster
from .settings import GroupSettings
from .values import (
    Answer,
    DescribedMember,
    Description,
    Effect,
    JoinAnswer,
    MemberIdentity,
    Persist,
    Refusal,
    State,
    SyncAnswer,
)


@dataclass(slots=True)
class ClassicGroup:
    """joining.py and syncing.py hold the rules of the two requests that may be parked.

    initial_until: set while the first rebalance waits for more members; the latest end of the wait.
    to_sync: members of this generation that have not sent their SyncGroup.
    storing: the call to make when a Persist is durable, for each Persist in order.
    """

    group_id: str
    claim_epoch: int
    settings: GroupSettings
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    roster: Roster = field(default_factory=Roster)
    join_deadline: float = inf
    sync_deadline: float = inf
    initial_until: float | None = None
    grew: bool = False
    to_sync: set[str] = field(default_factory=set[str])
    storing: deque[Callable[[float], None]] = field(default_factory=deque[Callable[[float], None]])
    storing_assignment: int = -1
    effects: list[Effect] = field(default_factory=list[Effect])

    @classmethod
    def restore(
        cls, known: GroupChanged, *, claim_epoch: int, settings: GroupSettings, now: float
    ) -> ClassicGroup:
        """Return the group of its last record, without a rebalance that was under way.

        Members continue with the generation they know; none has to join again.
        """
        return cls(
            known.group_id,
            claim_epoch,
            settings,
            State.STABLE if known.members else State.EMPTY,
            known.generation,
            known.protocol_type,
            known.protocol,
            restored_roster(known.members, known.leader, now),
        )

    @property
    def is_idle(self) -> bool:
        """Return whether the machine can be dropped, and later restored without loss."""
        return self.state is State.EMPTY and not self.roster.pending and not self.storing

    def next_deadline(self) -> float:
        """Return when `tick` is due; inf for never."""
        members = (each.deadline for each in self.roster.members.values())
        pending = min(self.roster.pending.values(), default=inf)
        return min(self.join_deadline, self.sync_deadline, pending, min(members, default=inf))

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    def describe(self) -> Description:
        """Return the group as tools show it; with metadata and assignments only if it is stable."""
        stable = self.state is State.STABLE
        members = (
            DescribedMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata(self.protocol) if stable else b"",
                each.assignment if stable else b"",
            )
            for each in self.roster.members.values()
        )
        protocol = self.protocol or "" if stable else ""
        return Description(self.state, self.protocol_type, protocol, tuple(members))

    # ---- requests that are answered at once

    def heartbeat(self, member: MemberIdentity, generation: int, now: float) -> Refusal | None:
        """Restart the session timeout of a member."""
        refusal = self.check(member, generation)
        if refusal is not None:
            return refusal
        self.roster.members[member.member_id].touch(now)
        preparing = self.state is State.PREPARING_REBALANCE
        return Refusal.REBALANCE_IN_PROGRESS if preparing else None

    def leave(self, leaving: Sequence[MemberIdentity], now: float) -> list[Refusal | None]:
        """Remove members; result[i] belongs to leaving[i].

        An administrator names a static member by its instance id alone.
        """
        answers = [self._leave(each) for each in leaving]
        if None in answers:
            self.members_went(now)
        return answers

    def check_commit(self, member: MemberIdentity, generation: int, now: float) -> Refusal | None:
        """Return whether a member may commit offsets; a commit counts as a heartbeat.

        Generation -1 comes from a consumer without group management, or from an administrator.
        """
        if self.state is State.DEAD:
            return Refusal.UNAVAILABLE
        if generation < 0 and self.state is State.EMPTY:
            return None
        refusal = self.check(member, generation)
        if refusal is not None:
            return refusal
        if self.state is State.COMPLETING_REBALANCE:
            return Refusal.REBALANCE_IN_PROGRESS
        self.roster.members[member.member_id].touch(now)
        return None

    def check_staging(self, member: MemberIdentity, generation: int) -> Refusal | None:
        """Return why offsets may not be committed in a transaction, with or without a member.

        None if they may be committed.

        As in Kafka, a producer that names no member may commit although the group has members, and
        even while a rebalance completes.
        """
        if self.state is State.DEAD:
            return Refusal.UNAVAILABLE
        names_member = generation >= 0 or member.member_id or member.instance_id is not None
        if not names_member or (generation < 0 and self.state is State.EMPTY):
            return None
        return self.check(member, generation)

    def check(self, member: MemberIdentity, generation: int) -> Refusal | None:
        """Return whether the member is in the group, and in its present generation."""
        if self.state is State.DEAD:
            return Refusal.UNAVAILABLE
        refusal = self.roster.check(member.member_id, member.instance_id)
        if refusal is None and generation != self.generation:
            return Refusal.ILLEGAL_GENERATION
        return refusal

    # ---- time, and the log

    def tick(self, now: float) -> None:
        """Apply all due time-outs."""
        lapsed = [key for key, at in self.roster.pending.items() if at <= now]
        for member_id in lapsed:
            self.roster.end_pending(member_id)
        expired = [each for each in self.roster.members.values() if each.deadline <= now]
        for member in expired:
            self.drop_member(member.member_id)
        if lapsed or expired:
            self.members_went(now, rebalance=bool(expired))
        if self.sync_deadline <= now:
            self._drop_unsynced(now)
        if self.join_deadline <= now:
            self._end_of_joining(now)

    def restart_timers(self, now: float) -> None:
        """Restart all timers, after a stall in which no request could be read."""
        for member in self.roster.members.values():
            if not member.is_new:
                member.touch(now)
        timeout = self.roster.rebalance_seconds()
        for member_id in self.roster.pending:
            self.roster.pending[member_id] = now + self.settings.min_session_timeout_ms / 1000
        if self.join_deadline < inf and self.initial_until is None:
            self.join_deadline = now + timeout
        if self.sync_deadline < inf:
            self.sync_deadline = now + timeout

    def persisted(self, now: float) -> None:
        """Note that the oldest open Persist is in the log."""
        self.storing.popleft()(now)

    def abandon(self, refusal: Refusal) -> None:
        """Answer all parked requests with the refusal; the machine serves no more requests."""
        for member in self.roster.members.values():
            self.answer_join(member, JoinAnswer(refusal, member.member_id))
            self.answer_sync(member, SyncAnswer(refusal))
        self.state = State.DEAD
        self.storing.clear()
        self.join_deadline = self.sync_deadline = inf

    # ---- steps that the rules of the requests share

    def members_went(self, now: float, *, rebalance: bool = True) -> None:
        """Continue without members that left or expired."""
        if self.state is State.PREPARING_REBALANCE:
            self.complete_join_if_all_are_here(now)
        elif rebalance and self.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare_rebalance(now)

    def prepare_rebalance(self, now: float) -> None:
        """Ask all members to join again."""
        if self.state is State.COMPLETING_REBALANCE:
            self.fail_syncs(Refusal.REBALANCE_IN_PROGRESS)
        self.to_sync.clear()
        self.sync_deadline = inf
        first = self.state is State.EMPTY
        self.state = State.PREPARING_REBALANCE
        delay = self.settings.initial_delay_seconds
        if first and delay > 0:
            self.grew = False
            self.join_deadline = now + delay
            self.initial_until = now + max(self.roster.rebalance_seconds(), delay)
        elif first or self.roster.all_joined():
            self.complete_join(now)
        else:
            self.join_deadline = now + self.roster.rebalance_seconds()

    def complete_join_if_all_are_here(self, now: float) -> None:
        """End the joining phase early, unless the group is new and waits for more members."""
        settling = self.state is State.PREPARING_REBALANCE and self.initial_until is None
        if settling and self.roster.all_joined():
            self.complete_join(now)

    def complete_join(self, now: float) -> None:
        """Answer the parked joins: a new generation begins, without the members that did not join
        again.

        Static members stay even if they did not join again.  If only such members are left, they
        stay until their session timeouts.
        """
        self.join_deadline, self.initial_until = inf, None
        absent = [each for each in self.roster.members.values() if each.join_ticket is None]
        for member in absent:
            if member.instance_id is None:
                self.roster.remove(member.member_id)
        if self.roster.members and not self.roster.elect_joined():
            self.join_deadline = now + max(self.roster.rebalance_seconds(), 1.0)
            return
        self.generation += 1
        if self.roster.members:
            self._begin_generation(now)
        else:
            self._become_empty()

    def drop_member(self, member_id: str) -> Member:
        """Remove a member; its parked request is answered UNKNOWN_MEMBER_ID."""
        member = self.roster.members[member_id]
        self.answer_join(member, JoinAnswer(Refusal.UNKNOWN_MEMBER, ""))
        self.answer_sync(member, SyncAnswer(Refusal.UNKNOWN_MEMBER))
        return self.roster.remove(member_id)

    def fail_syncs(self, refusal: Refusal) -> None:
        """Answer parked syncs with a refusal; no member has an assignment now."""
        for member in self.roster.members.values():
            member.assignment = b""
            self.answer_sync(member, SyncAnswer(refusal))

    def answer_join(self, member: Member, answer: JoinAnswer) -> bool:
        """Answer the member's parked join, if there is one."""
        ticket = self.roster.take_join(member)
        if ticket is not None:
            self.effects.append(Answer(ticket, answer))
        return ticket is not None

    def answer_sync(self, member: Member, answer: SyncAnswer) -> bool:
        """Answer the member's parked sync, if there is one."""
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            self.effects.append(Answer(ticket, answer))
        return ticket is not None

    def current_join_answer(self, member_id: str, *, skip_assignment: bool = False) -> JoinAnswer:
        """Return the member's answer to a join of this generation."""
        leads = member_id == self.roster.leader
        return JoinAnswer(
            None,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.roster.leader or "",
            skip_assignment,
            self.roster.joined_members(self.protocol) if leads else (),
        )

    def current_sync_answer(self, member: Member) -> SyncAnswer:
        """Return the member's assignment."""
        return SyncAnswer(None, self.protocol_type, self.protocol, member.assignment)

    def persist(self, assignments: dict[str, bytes], when_durable: Callable[[float], None]) -> None:
        """Hand out the group's record, with these assignments by member id."""
        self.storing.append(when_durable)
        members = (
            member_record(each, assignments.get(each.member_id, b""))
            for each in self.roster.members.values()
        )
        record = GroupChanged(
            self.group_id,
            self.claim_epoch,
            self.protocol_type,
            self.generation,
            self.protocol,
            self.roster.leader,
            tuple(members),
        )
        self.effects.append(Persist(record))

    # ---- inner steps

    def _leave(self, who: MemberIdentity) -> Refusal | None:
        if self.state is State.DEAD:
            return Refusal.UNAVAILABLE
        if not who.member_id:
            held = self.roster.by_instance.get(who.instance_id or "")
            if held is None:
                return Refusal.UNKNOWN_MEMBER
            self.drop_member(held)
            return None
        if self.roster.end_pending(who.member_id):
            return None
        refusal = self.roster.check(who.member_id, who.instance_id)
        if refusal is None:
            self.drop_member(who.member_id)
        return refusal

    def _begin_generation(self, now: float) -> None:
        self.protocol = self.roster.select_protocol()
        self.state = State.COMPLETING_REBALANCE
        self.to_sync = set(self.roster.members)
        self.sync_deadline = now + self.roster.rebalance_seconds()
        for member in self.roster.members.values():
            member.is_new = False
            member.touch(now)
            if member.join_ticket is not None:
                self.answer_join(member, self.current_join_answer(member.member_id))

    def _become_empty(self) -> None:
        self.state = State.EMPTY
        self.protocol = None
        self.to_sync.clear()
        self.sync_deadline = inf
        self.persist({}, _nothing_more)

    def _end_of_joining(self, now: float) -> None:
        until = self.initial_until
        if until is not None and self.grew and now < until:
            self.grew = False
            self.join_deadline = min(now + self.settings.initial_delay_seconds, until)
        else:
            self.complete_join(now)

    def _drop_unsynced(self, now: float) -> None:
        self.sync_deadline = inf
        late, self.to_sync = self.to_sync, set()
        for member_id in late:
            self.drop_member(member_id)
        if late:
            self.prepare_rebalance(now)


def _nothing_more(_now: float) -> None:
    """Do nothing: no request waits for the record."""
