"""Target: the machine of a classic group, driven by any requests of its members, in any order.

The machine must not fail, and must answer every waiting member exactly once.  Its durable state
must restore to an equal group.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Final

from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.subscription import subscribed_topics
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    Answer,
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    Persist,
    Refusal,
    SyncRequest,
)

SETTINGS: Final = GroupSettings(max_size=5, max_join_bytes=4000, max_assignment_bytes=500)
PROTOCOLS: Final = (
    (("range", b"\0\0\0\0\0\1\0\1t"),),
    (("range", b"\0\1"), ("roundrobin", b"")),
    (("roundrobin", b"\2"),),
    (),
    (("x" * 900, b"y" * 900),),
)
INSTANCES: Final = (None, None, "i1", "i2", "")
STEP_BYTES: Final = 4
MAX_TICKS: Final = 8
"""Several timers may be due at once, as with a rebalance timeout of 0."""


class Play:
    """A group, its waiting members, and their answers.  Each step is an operation and a choice."""

    def __init__(self) -> None:
        self.group = ClassicGroup("g", 1, SETTINGS)
        self.now = 100.0
        self.waiting: set[int] = set()
        self.unstored: list[GroupChanged] = []
        self.stored: GroupChanged | None = None
        self.ids: list[str] = ["", "nobody"]
        self._tickets = 0

    def step(self, operation: int, who: int, what: int, amount: int) -> None:
        """Do one operation."""
        _STEPS[operation % len(_STEPS)](self, who, what, amount)
        self.take_effects()
        assert self.group.roster.joining <= SETTINGS.max_size
        assert self.group.next_deadline() > 0

    def _ticket(self) -> int:
        self._tickets += 1
        self.waiting.add(self._tickets)
        return self._tickets

    def take_effects(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Persist):
                self.unstored.append(effect.record)
            else:
                self._answered(effect)

    def _answered(self, answer: Answer) -> None:
        assert answer.ticket in self.waiting, "answered twice, or never asked"
        self.waiting.remove(answer.ticket)
        if isinstance(answer.value, JoinAnswer) and answer.value.member_id not in self.ids:
            self.ids.append(answer.value.member_id)

    def member(self, who: int, what: int) -> MemberIdentity:
        return MemberIdentity(self.ids[who % len(self.ids)], INSTANCES[what % len(INSTANCES)])

    def join(self, who: int, what: int, amount: int) -> None:
        member = self.member(who, what)
        request = JoinRequest(
            member.member_id,
            member.instance_id,
            "client",
            "host",
            (0, 6000, 30_000, 2**31 - 1)[amount % 4],
            (-1, 0, 60_000, 2**31 - 1)[amount // 4 % 4],
            ("consumer", "connect", "")[amount // 16 % 3],
            PROTOCOLS[what // 8 % len(PROTOCOLS)],
            f"fresh{self._tickets}",
            requires_known_id=bool(amount & 64),
            can_skip_assignment=bool(amount & 128),
        )
        join(self.group, request, ticket=self._ticket(), now=self.now)

    def sync(self, who: int, what: int, amount: int) -> None:
        member = self.member(who, what)
        assigned = tuple((each, bytes(amount)) for each in self.ids[: amount % 8])
        request = SyncRequest(
            member.member_id,
            member.instance_id,
            self.generation(amount),
            (None, "consumer", "connect")[what % 3],
            (None, "range", "roundrobin")[what // 8 % 3],
            assigned,
        )
        sync(self.group, request, ticket=self._ticket(), now=self.now)

    def generation(self, amount: int) -> int:
        return self.group.generation if amount < 200 else amount - 228

    def heartbeat(self, who: int, what: int, amount: int) -> None:
        self.group.heartbeat(self.member(who, what), self.generation(amount), self.now)

    def leave(self, who: int, what: int, amount: int) -> None:
        leaving = [self.member(who + number, what) for number in range(amount % 4)]
        refusals = self.group.leave(leaving, self.now)
        assert len(refusals) == len(leaving)

    def check_commit(self, who: int, what: int, amount: int) -> None:
        self.group.check_commit(self.member(who, what), self.generation(amount), self.now)

    def pass_time(self, who: int, what: int, amount: int) -> None:
        self.now += (0.5, 3.1, 10.0, 31.0, 400.0)[amount % 5]
        self.group.tick(self.now)

    def reach_deadline(self, who: int, what: int, amount: int) -> None:
        deadline = self.group.next_deadline()
        if deadline != inf:
            self.now = max(self.now, deadline)
            for _ in range(MAX_TICKS):
                self.group.tick(self.now)
            assert self.group.next_deadline() > self.now, "its timer would fire forever"

    def persisted(self, who: int, what: int, amount: int) -> None:
        if self.unstored:
            self.stored = self.unstored.pop(0)
            self.group.persisted(self.now)

    def abandon(self, who: int, what: int, amount: int) -> None:
        """Fail an append: the group is restored from its durable state."""
        if amount % 4:
            return
        self.group.abandon(Refusal.UNAVAILABLE)
        self.take_effects()
        assert not self.waiting, "a waiting member was forgotten"
        self.unstored.clear()
        self.group = ClassicGroup("g", 1, SETTINGS)
        if self.stored is not None:
            self.group = ClassicGroup.restore(
                self.stored, claim_epoch=1, settings=SETTINGS, now=self.now
            )

    def restart_timers(self, who: int, what: int, amount: int) -> None:
        self.group.restart_timers(self.now)

    def describe(self, who: int, what: int, amount: int) -> None:
        description = self.group.describe()
        assert len(description.members) == len(self.group.roster.members)


_STEPS: Final[tuple[Callable[[Play, int, int, int], None], ...]] = (
    Play.join,
    Play.join,
    Play.join,
    Play.sync,
    Play.sync,
    Play.heartbeat,
    Play.leave,
    Play.check_commit,
    Play.pass_time,
    Play.reach_deadline,
    Play.persisted,
    Play.persisted,
    Play.abandon,
    Play.restart_timers,
    Play.describe,
)


class GroupsTarget:
    """Input: steps of 4 bytes (operation, member, choice, amount).

    The whole input is also decoded as a subscription.
    """

    head_bytes = 0
    fixed_bytes = 256 * 1024
    bytes_per_byte = 1024
    seconds_per_kib = 0.1

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [rng.randbytes(STEP_BYTES * count) for count in (1, 5, 20, 60) for _ in range(10)]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target: plays stay short."""
        del data[100 * STEP_BYTES :]

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        subscribed_topics((data, data[1:]))
        play = Play()
        for start in range(0, len(data) - STEP_BYTES + 1, STEP_BYTES):
            play.step(*data[start : start + STEP_BYTES])
        play.group.abandon(Refusal.NOT_COORDINATOR)
        play.take_effects()
        assert not play.waiting, "a waiting member was forgotten"
