"""A classic group under test, by events in and effects out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    Answer,
    JoinRequest,
    MemberIdentity,
    Persist,
    Refusal,
    State,
    SyncRequest,
)

NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)


class UnderTest(Protocol):
    """A group, its clock, and the receiver of its effects."""

    group: ClassicGroup
    now: float

    def collect(self) -> None: ...


def let_pass(test: UnderTest, seconds: float) -> None:
    """Let time pass; timers that fall due fire in order."""
    until = test.now + seconds
    while test.group.next_deadline() <= until:
        test.now = max(test.now, test.group.next_deadline())
        test.group.tick(test.now)
        test.collect()
    test.now = until


@dataclass
class Script:
    """A group under test, its clock, and its effects."""

    settings: GroupSettings = NO_DELAY
    now: float = 100.0
    next_ticket: int = 0
    answers: dict[int, Any] = field(default_factory=dict)
    records: list[GroupChanged] = field(default_factory=list)
    auto_persist: bool = True

    def __post_init__(self) -> None:
        self.group = ClassicGroup("g", 7, self.settings)

    @property
    def state(self) -> State:
        return self.group.state

    def join(self, member_id: str = "", **changes: Any) -> int:
        """Return the ticket."""
        self.next_ticket += 1
        join(self.group, request(member_id, **changes), ticket=self.next_ticket, now=self.now)
        self.collect()
        return self.next_ticket

    def sync(self, member_id: str, generation: int = 1, **changes: Any) -> int:
        """Return the ticket; assignments: a dict, from the leader."""
        self.next_ticket += 1
        assignments = tuple(changes.pop("assignments", {}).items())
        fields = {"instance_id": None, "protocol_type": None, "protocol": None} | changes
        wanted = SyncRequest(
            member_id=member_id, generation=generation, assignments=assignments, **fields
        )
        sync(self.group, wanted, ticket=self.next_ticket, now=self.now)
        self.collect()
        return self.next_ticket

    def heartbeat(
        self, member_id: str, generation: int = 1, instance: str | None = None
    ) -> Refusal | None:
        return self.group.heartbeat(MemberIdentity(member_id, instance), generation, self.now)

    def leave(self, *members: MemberIdentity) -> list[Refusal | None]:
        answers = self.group.leave(members, self.now)
        self.collect()
        return answers

    def wait(self, seconds: float) -> None:
        let_pass(self, seconds)

    def collect(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers
                self.answers[effect.ticket] = effect.value
            else:
                assert isinstance(effect, Persist)
                self.records.append(effect.record)
                if self.auto_persist:
                    self.group.persisted(self.now)
                    self.collect()

    def persisted(self) -> None:
        self.group.persisted(self.now)
        self.collect()

    def stable(self, *names: str, **changes: Any) -> list[str]:
        """Bring dynamic members into a stable group; return their ids, the leader first."""
        tickets = [self.join(requires_known_id=False, fresh_id=each, **changes) for each in names]
        if self.settings.initial_rebalance_delay_ms:
            self.wait(self.settings.initial_delay_seconds * (len(names) + 1))
        # the last member to join made the others rebalance
        for number, name in enumerate(names[:-1]):
            if tickets[number] in self.answers:
                tickets[number] = self.join(f"client-{name}", fresh_id=name, **changes)
        answers = [self.answers[each] for each in tickets]
        assert all(each.refusal is None for each in answers), answers
        ids = [each.member_id for each in answers]
        leader = answers[0].leader
        assignments = {each: f"part of {each}".encode() for each in ids}
        for each in ids:
            mine = assignments if each == leader else {}
            self.sync(each, self.group.generation, assignments=mine)
        assert self.group.state is State.STABLE
        return sorted(ids, key=lambda each: each != leader)


def request(member_id: str = "", **changes: Any) -> JoinRequest:
    base = JoinRequest(
        member_id=member_id,
        instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", b"topics"), ("sticky", b"topics")),
        fresh_id="fresh",
    )
    return replace(base, **changes)
