"""Random clients, times and slow appends against one group; invariants after every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.worlds.group_script import let_pass, request
from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    Answer,
    JoinAnswer,
    MemberIdentity,
    Refusal,
    State,
    SyncAnswer,
    SyncRequest,
)

PROTOCOLS = [
    (("range", b"one"),),
    (("range", b"two"), ("sticky", b"two")),
    (("sticky", b"three"), ("range", b"three")),
]
NUMBERS = st.integers(0, 5)


@dataclass
class Client:
    """A client's own view; assignment: None until the client gets one in its generation."""

    name: str
    instance: str | None
    version_known: bool
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS[0]


class GroupMachine(RuleBasedStateMachine):
    """A ticket names the client that waits. Each ticket must be answered exactly once."""

    @initialize(delay=st.sampled_from([0, 3000]), size=st.sampled_from([2, 100]))
    def begin(self, delay: int, size: int) -> None:
        self.now = 0.0
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=delay, max_size=size, new_member_join_seconds=50
        )
        self.group = ClassicGroup("g", 1, self.settings)
        self.waiting: dict[int, Callable[[JoinAnswer | SyncAnswer], None]] = {}
        self.records: list[GroupChanged] = []
        self.durable: GroupChanged | None = None
        self.tickets = 0
        self.names = 0
        self.generation = 0
        self.handed_out: dict[tuple[int, str], bytes] = {}
        self.everybody: list[Client] = []
        for static, known in ((False, True), (True, True), (False, False)):
            self.new_client(static, known)

    def client(self, number: int) -> Client:
        """Return one of the last few clients; older ones are silent."""
        return self.everybody[-1 - number % len(self.everybody)]

    # ---- what clients and time do

    @rule(static=st.booleans(), known=st.booleans())
    def new_client(self, static: bool, known: bool) -> None:
        self.names += 1
        name = f"c{self.names}"
        self.everybody.append(Client(name, name if static else None, known))

    @rule(number=NUMBERS)
    def restart_client(self, number: int) -> None:
        client = self.client(number)
        self.everybody.append(Client(client.name, client.instance, client.version_known))

    @rule(number=NUMBERS, protocols=st.sampled_from(PROTOCOLS), timeout=st.sampled_from([7, 20]))
    def join(self, number: int, protocols: tuple[tuple[str, bytes], ...], timeout: int) -> None:
        client = self.client(number)
        client.protocols = protocols
        self.send_join(client, timeout)

    @rule(data=st.data(), store=st.booleans())
    def all_who_live_go_on(self, data: st.DataObject, store: bool) -> None:
        """Most of the clients do what a client would do next."""
        for client in [each for each in self.everybody if each.member_id]:
            if data.draw(st.integers(0, 9)) == 0:
                continue
            if self.group.state is State.PREPARING_REBALANCE or client.generation < 0:
                self.send_join(client, 20)
            else:
                self.send_sync(client)
        if store:
            self.one_append_is_done()

    def send_join(self, client: Client, timeout: int) -> None:
        self.tickets += 1
        self.waiting[self.tickets] = lambda answer: self.joined(client, answer)
        wanted = request(
            client.member_id,
            instance_id=client.instance,
            client_id=client.name,
            session_timeout_ms=6000 * (2 + timeout % 2),
            rebalance_timeout_ms=timeout * 1000,
            protocols=client.protocols,
            fresh_id=f"{self.tickets}",
            requires_known_id=client.version_known,
        )
        join(self.group, wanted, ticket=self.tickets, now=self.now)
        self.collect()

    @rule(number=NUMBERS)
    def sync(self, number: int) -> None:
        self.send_sync(self.client(number))

    def send_sync(self, client: Client) -> None:
        if client.generation < 0:
            return
        self.tickets += 1
        generation = client.generation
        self.waiting[self.tickets] = lambda answer: self.synced(client, generation, answer)
        parts = tuple((each, f"{generation}:{each}".encode()) for each in client.members)
        wanted = SyncRequest(
            client.member_id,
            client.instance,
            generation,
            None,
            None,
            parts if client.leads else (),
        )
        sync(self.group, wanted, ticket=self.tickets, now=self.now)
        self.collect()

    @rule(number=NUMBERS)
    def heartbeat(self, number: int) -> None:
        client = self.client(number)
        identity = MemberIdentity(client.member_id, client.instance)
        refusal = self.group.heartbeat(identity, client.generation, self.now)
        if refusal in (Refusal.UNKNOWN_MEMBER, Refusal.FENCED_INSTANCE):
            client.member_id, client.generation = "", -1

    @rule(number=NUMBERS)
    def leave(self, number: int) -> None:
        client = self.client(number)
        if client.member_id:
            self.group.leave([MemberIdentity(client.member_id, client.instance)], self.now)
            client.member_id, client.generation = "", -1
            self.collect()

    @rule(seconds=st.sampled_from([0.5, 3.0, 7.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        let_pass(self, seconds)

    @rule()
    def one_append_is_done(self) -> None:
        if self.records:
            self.durable = self.records.pop(0)
            self.group.persisted(self.now)
            self.collect()

    @rule()
    def gateway_restarts(self) -> None:
        """Only durable state is left; waiting members lose their connections."""
        self.group.abandon(Refusal.NOT_COORDINATOR)
        self.collect()
        assert not self.waiting
        self.records.clear()
        self.group = ClassicGroup("g", 2, self.settings)
        if self.durable is not None:
            self.group = ClassicGroup.restore(
                self.durable, claim_epoch=2, settings=self.settings, now=self.now
            )
            for each in self.durable.members:
                got = self.handed_out.get((self.durable.generation, each.member_id))
                assert got is None or got == each.assignment
        self.generation = self.group.generation
        future = [key for key in self.handed_out if key[0] > self.generation]
        assert not future, "an assignment was handed out that is not in the log"

    # ---- effects

    def collect(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                self.waiting.pop(effect.ticket)(effect.value)
            else:
                self.records.append(effect.record)

    def joined(self, client: Client, answer: JoinAnswer | SyncAnswer) -> None:
        assert isinstance(answer, JoinAnswer)
        if answer.refusal is Refusal.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.refusal in (Refusal.UNKNOWN_MEMBER, Refusal.FENCED_INSTANCE):
            client.member_id, client.generation = "", -1
        elif answer.refusal is None:
            client.member_id, client.generation = answer.member_id, answer.generation
            client.leads = answer.leader == answer.member_id and not answer.skip_assignment
            client.members = tuple(each.member_id for each in answer.members)
            assert answer.generation == self.group.generation
            assert answer.member_id in self.group.roster.members
            assert (answer.leader == answer.member_id) == bool(answer.members)
            assert answer.protocol is not None

    def synced(self, client: Client, generation: int, answer: JoinAnswer | SyncAnswer) -> None:
        assert isinstance(answer, SyncAnswer)
        if answer.refusal is not None:
            return
        assert self.group.state is State.STABLE
        assert generation == self.group.generation
        assert self.durable is not None
        assert self.durable.generation == generation
        stored = {each.member_id: each.assignment for each in self.durable.members}
        assert stored[client.member_id] == answer.assignment
        self.handed_out[generation, client.member_id] = answer.assignment

    # ---- what always holds

    @invariant()
    def one_leader_who_is_a_member(self) -> None:
        roster = self.group.roster
        assert (roster.leader in roster.members) == bool(roster.members)
        assert (roster.leader is None) == (not roster.members)

    @invariant()
    def generation_only_rises(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def counts_are_right(self) -> None:
        roster = self.group.roster
        members = roster.members.values()
        assert roster.joining == sum(each.join_ticket is not None for each in members)
        assert roster.size_bytes == sum(each.size_bytes for each in members)
        statics = {each.instance_id: each.member_id for each in members if each.instance_id}
        assert roster.by_instance == statics
        spoken = {name for each in members for name, _ in each.protocols}
        assert set(roster.speakers) == spoken
        assert not set(roster.pending) & set(roster.members)

    @invariant()
    def states_agree_with_members(self) -> None:
        group = self.group
        syncing = [each for each in group.roster.members.values() if each.sync_ticket is not None]
        assert not syncing or group.state is State.COMPLETING_REBALANCE
        assert (group.state is State.EMPTY) <= (not group.roster.members)
        assert group.to_sync <= set(group.roster.members)
        assert not group.to_sync or group.sync_deadline < inf
        assert (group.state is State.PREPARING_REBALANCE) == (group.join_deadline < inf)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            assert group.roster.members
            assert group.protocol is not None
        assert len(group.storing) == len(self.records)

    @invariant()
    def whoever_waits_waits_for_something(self) -> None:
        """The group keeps each open ticket, and a timer or an append will answer it."""
        parked = {
            ticket
            for each in self.group.roster.members.values()
            for ticket in (each.join_ticket, each.sync_ticket)
            if ticket is not None
        }
        assert parked == set(self.waiting)
        if parked:
            assert self.group.next_deadline() < inf or self.records

    def teardown(self) -> None:
        """If time passes and the log answers, every ticket gets an answer in the end."""
        if not hasattr(self, "group"):
            return
        for _ in range(200):
            self.one_append_is_done()
            self.time_passes(30.0)
        assert not self.waiting
        assert self.group.state is State.EMPTY
        assert self.group.is_idle


TestGroupMachine = pytest.mark.slow(GroupMachine.TestCase)
TestGroupMachine.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
