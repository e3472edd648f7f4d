"""The groups that this gateway serves.

The gateway that holds a group's claim serves the group.  If the claim has no live holder, a gateway
that gets a request for the group takes the claim.  It restores the group's state machine from the
cluster state, and keeps the machine while the group has members.  When the group is empty, it drops
the machine, since the cluster state has all facts about an empty group.

The machines make the decisions.  This module carries out their effects, sets their timers, and
parks requests to join and sync.  A gateway may not yet know that it has lost a claim.  So commits
and assignments are proposals to the log, and its rules refuse them if another gateway has the claim
(docs/architecture.md, "Consumer groups").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from uuid import UUID

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    Description,
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    Refusal,
    State,
    SyncAnswer,
    SyncRequest,
)
from tidegate_coordination.placement.groups import holder
from tidegate_coordination.rules.consumer_groups.groups import ChangeGroup, DeleteGroup, Deletion
from tidegate_coordination.rules.consumer_groups.offsets import (
    CommitOffsets,
    CommitRefusal,
    DeleteOffsets,
    OffsetDeletionRefusal,
    OffsetToCommit,
)
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.rules.transactions.staging import StageOffsets
from tidegate_coordination.state.writers.gateways import Gateway

from ..network.turns import Turns
from ..transactions.steps import ProducerName
from .hosted_group import HostedGroup
from .hosted_groups import HostedGroups

SETTLE_SECONDS = 30.0
TOUCH_MS = 60_000
"""If a group was empty this long, its first join writes its record again."""


class GroupManager:
    """Serves the handlers of group requests.

    Args:
      rng: for member ids; passed in so that a run can be repeated.
      absent: returns the incarnations that do not answer.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        settings: GroupSettings,
        *,
        rng: Random,
        absent: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        self._coordinator = coordinator
        self.settings = settings
        self._rng = rng
        self._groups = HostedGroups(coordinator, settings, absent)

    async def run(self) -> None:
        """Run the timers of all groups, forever."""
        await self._groups.run()

    async def hand_over(self) -> None:
        """Release all groups before this gateway leaves, so that other gateways serve them.

        Raises:
          CoordinatorUnavailable: unreleased claims end when the lease expires.
        """
        await self._groups.hand_over()

    def step_aside(self) -> None:
        """Release the groups while this gateway drains, if other gateways can serve them."""
        self._groups.step_aside()

    def fresh_id(self) -> str:
        """Return a random text for a member id, in the form of a UUID, as in Kafka."""
        return str(UUID(bytes=self._rng.randbytes(16), version=4))

    async def join(self, group_id: str, request: JoinRequest) -> JoinAnswer:
        """Join a member; wait for the rebalance."""
        if not group_id:
            return JoinAnswer(Refusal.INVALID_GROUP_ID, request.member_id)
        hosted = await self._host(group_id, create=not request.member_id)
        if isinstance(hosted, Refusal):
            return JoinAnswer(hosted, request.member_id)
        if self._has_no_room(hosted, request):
            return JoinAnswer(Refusal.UNAVAILABLE, request.member_id)
        if await self._touch_long_empty(hosted):
            return JoinAnswer(Refusal.NOT_COORDINATOR, request.member_id)
        ticket = hosted.park()
        join(hosted.machine, request, ticket=ticket, now=trio.current_time())
        hosted.carry_out()
        patience = hosted.machine.roster.rebalance_seconds()
        answer = await hosted.wait(ticket, patience + self.settings.new_member_join_seconds)
        if isinstance(answer, JoinAnswer):
            return await self._sure_join(hosted, answer)
        return JoinAnswer(self._no_answer, request.member_id)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncAnswer:
        """Return the member's assignment; wait until the leader's assignments are durable."""
        hosted = await self._host(group_id)
        if isinstance(hosted, Refusal):
            return SyncAnswer(hosted)
        ticket = hosted.park()
        sync(hosted.machine, request, ticket=ticket, now=trio.current_time())
        hosted.carry_out()
        patience = hosted.machine.roster.rebalance_seconds()
        answer = await hosted.wait(ticket, patience + SETTLE_SECONDS)
        if not isinstance(answer, SyncAnswer):
            return SyncAnswer(self._no_answer)
        sure = await self._sure(hosted, answer.refusal)
        return answer if sure is answer.refusal else SyncAnswer(sure)

    async def heartbeat(
        self, group_id: str, member: MemberIdentity, generation: int
    ) -> Refusal | None:
        """Restart a member's session timer; return the refusal, or None."""
        hosted = await self._host(group_id)
        if isinstance(hosted, Refusal):
            return hosted
        refusal = hosted.machine.heartbeat(member, generation, trio.current_time())
        return await self._sure(hosted, refusal)

    async def leave(
        self, group_id: str, members: Sequence[MemberIdentity]
    ) -> list[Refusal | None] | Refusal:
        """Remove members; return an outcome for each, in the same order."""
        hosted = await self._host(group_id)
        if hosted is Refusal.UNKNOWN_MEMBER:
            return [hosted for _ in members]
        if isinstance(hosted, Refusal):
            return hosted
        answers = hosted.machine.leave(members, trio.current_time())
        hosted.carry_out()
        await hosted.settle(SETTLE_SECONDS)
        return Refusal.NOT_COORDINATOR if self._coordinator.is_cut_off else answers

    async def commit(
        self,
        group_id: str,
        member: MemberIdentity,
        generation: int,
        offsets: Sequence[OffsetToCommit],
    ) -> list[bool] | Refusal:
        """Commit offsets; return for each offset whether its partition exists.

        Raises:
          ProposalFailed: the offsets do not fit in an entry of the metadata log.
        """
        hosted = await self._host(group_id, create=generation < 0)
        if isinstance(hosted, Refusal):
            unknown = hosted is Refusal.UNKNOWN_MEMBER
            return Refusal.ILLEGAL_GENERATION if unknown else hosted
        machine = hosted.machine
        refusal = machine.check_commit(member, generation, trio.current_time())
        if refusal is not None:
            return await self._sure(hosted, refusal) or refusal
        proposal = CommitOffsets(group_id, machine.claim_epoch, generation, tuple(offsets))
        try:
            answer = await self._coordinator.propose(proposal)
        except CoordinatorUnavailable:
            return Refusal.UNAVAILABLE
        if answer is CommitRefusal.ILLEGAL_GENERATION:
            return Refusal.ILLEGAL_GENERATION
        if isinstance(answer, CommitRefusal):
            self._groups.lose(hosted, Refusal.NOT_COORDINATOR)
            return Refusal.NOT_COORDINATOR
        self._groups.drop_if_idle(hosted)
        return answer

    async def stage(
        self,
        group_id: str,
        member: MemberIdentity,
        generation: int,
        offsets: Sequence[OffsetToCommit],
        producer: ProducerName,
        *,
        may_add: bool,
        began: int,
    ) -> list[bool] | Refusal | TransactionRefusal:
        """Commit offsets in a producer's transaction; in all other respects as commit().

        may_add, began: see StageOffsets.

        Raises:
          ProposalFailed: the offsets do not fit in an entry of the metadata log.
        """
        if not group_id:
            return Refusal.INVALID_GROUP_ID  # only commit() may use it, as in Kafka
        hosted = await self._host(group_id, create=generation < 0)
        if isinstance(hosted, Refusal):
            unknown = hosted is Refusal.UNKNOWN_MEMBER
            return Refusal.ILLEGAL_GENERATION if unknown else hosted
        machine = hosted.machine
        refusal = machine.check_staging(member, generation)
        if refusal is not None:
            return await self._sure(hosted, refusal) or refusal
        proposal = StageOffsets(
            group_id,
            machine.claim_epoch,
            generation,
            tuple(offsets),
            producer.transactional_id,
            producer.producer_id,
            producer.epoch,
            may_add,
            began,
        )
        try:
            answer = await self._coordinator.propose(proposal)
        except CoordinatorUnavailable:
            return Refusal.UNAVAILABLE
        if answer is TransactionRefusal.NOT_HOLDER:
            self._groups.lose(hosted, Refusal.NOT_COORDINATOR)
        else:
            self._groups.drop_if_idle(hosted)
        return answer

    async def delete(self, group_id: str) -> Deletion | Refusal:
        """Delete a group without members, and its offsets."""
        hosted = self._groups.get(group_id)
        if hosted is not None:
            await hosted.settle(SETTLE_SECONDS)
            if self._coordinator.is_cut_off:
                return Refusal.NOT_COORDINATOR
            if hosted.machine.state not in (State.EMPTY, State.DEAD):
                return Deletion.HAS_MEMBERS
            self._groups.drop(hosted)
        try:
            return await self._coordinator.propose(DeleteGroup(group_id))
        except (CoordinatorUnavailable, ProposalFailed):
            return Refusal.UNAVAILABLE

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[bytes, int]]
    ) -> list[bool] | OffsetDeletionRefusal | Refusal:
        """Delete committed offsets; return for each partition False if its topic is subscribed."""
        try:
            return await self._coordinator.propose(DeleteOffsets(group_id, tuple(partitions)))
        except (CoordinatorUnavailable, ProposalFailed):
            return Refusal.UNAVAILABLE

    async def describe(self, group_ids: Sequence[str]) -> list[Description | Refusal | None]:
        """Return the descriptions of groups for tools; None for one that does not exist."""
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable:
            return [Refusal.UNAVAILABLE for _ in group_ids]
        turns = Turns()
        described: list[Description | Refusal | None] = []
        for each in group_ids:
            seen = self._describe(each)
            described.append(seen)
            await turns.count(1 + len(seen.members) if isinstance(seen, Description) else 1)
        return described

    def _describe(self, group_id: str) -> Description | Refusal | None:
        held = holder(self._coordinator.state, group_id)
        if held is not None and held.incarnation != self._coordinator.incarnation:
            return Refusal.NOT_COORDINATOR
        return self._groups.describe(group_id)

    def candidates(self, listener: str) -> dict[int, Gateway]:
        """Return the gateways among which groups without a claim are divided, by node id.

        listener: that of the client's connection.
        """
        return self._groups.candidates(listener)

    def client_ids(self) -> Iterator[tuple[str, str]]:
        """Return the group and the client id of each member that this gateway knows."""
        return self._groups.client_ids()

    def list_groups(self, listener: str) -> Iterator[tuple[str, Description | None]]:
        """Yield all groups; this gateway describes the groups that it serves or would serve."""
        return self._groups.list_groups(listener)

    # ---- inner steps

    async def _host(self, group_id: str, *, create: bool = False) -> HostedGroup | Refusal:
        if not group_id and not create:
            return Refusal.INVALID_GROUP_ID
        if self._coordinator.is_cut_off:
            return Refusal.NOT_COORDINATOR  # another gateway may already serve the group
        if self._coordinator.standstill.is_recent:
            # Another gateway may have the claim by an entry that this replica has not read yet.
            try:
                await self._coordinator.catch_up()
            except CoordinatorUnavailable:
                return Refusal.NOT_COORDINATOR
        try:
            return await self._groups.host(group_id, create=create)
        except (CoordinatorUnavailable, ProposalFailed):
            return Refusal.UNAVAILABLE

    @property
    def _no_answer(self) -> Refusal:
        """The error of a join or sync that timed out.

        Sarama stays at this gateway until it gets NOT_COORDINATOR.
        """
        return Refusal.NOT_COORDINATOR if self._coordinator.is_cut_off else Refusal.UNAVAILABLE

    def _has_no_room(self, hosted: HostedGroup, request: JoinRequest) -> bool:
        """Return whether to refuse a join: groups hold too many bytes, and it would add some.

        A member whose request is not larger than before may rejoin.
        """
        if self._groups.hosted_bytes <= self.settings.max_hosted_bytes:
            return False
        member = hosted.machine.roster.members.get(request.member_id)
        return member is None or request.size_bytes > member.size_bytes

    async def _touch_long_empty(self, hosted: HostedGroup) -> bool:
        """Write an empty group's record, so that its offsets do not expire while it is rejoined.

        Return whether to refuse the join: the claim is lost, or the write failed.
        """
        state = self._coordinator.state
        group = state.groups.get(hosted.machine.group_id)
        if group is None or hosted.machine.state is not State.EMPTY:
            return False
        if group.members or group.generation != hosted.machine.generation:
            return False  # the group has just become empty, and its record is not committed yet
        if state.log_time_ms - group.empty_since_ms < TOUCH_MS or not group.protocol_type:
            return False
        with self._groups.pinned(hosted):
            record = _with_epoch(group.record(), hosted.machine.claim_epoch)
            try:
                held = await self._coordinator.propose(ChangeGroup(record))
            except (CoordinatorUnavailable, ProposalFailed):
                return True
        return not held or self._groups.get(hosted.machine.group_id) is not hosted

    async def _sure_join(self, hosted: HostedGroup, answer: JoinAnswer) -> JoinAnswer:
        sure = await self._sure(hosted, answer.refusal)
        return answer if sure is answer.refusal else JoinAnswer(sure, answer.member_id)

    async def _sure(self, hosted: HostedGroup, refusal: Refusal | None) -> Refusal | None:
        """Return the refusal, or NOT_COORDINATOR if this gateway has lost the group.

        If another gateway has the group, errors such as UNKNOWN_MEMBER_ID would be wrong.
        """
        if refusal not in _FATAL_TO_MEMBERS:
            return refusal
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable:
            return Refusal.UNAVAILABLE
        if not self._groups.holds(hosted):
            self._groups.lose(hosted, Refusal.NOT_COORDINATOR)
            return Refusal.NOT_COORDINATOR
        return refusal


_FATAL_TO_MEMBERS = (
    Refusal.UNKNOWN_MEMBER,
    Refusal.ILLEGAL_GENERATION,
    Refusal.FENCED_INSTANCE,
)


def _with_epoch(record: GroupChanged, claim_epoch: int) -> GroupChanged:
    return GroupChanged(
        record.group_id,
        claim_epoch,
        record.protocol_type,
        record.generation,
        record.protocol,
        record.leader,
        record.members,
    )
