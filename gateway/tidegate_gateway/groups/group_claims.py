"""Takes, checks, releases and drops the claims of this gateway on groups."""

from __future__ import annotations

from collections.abc import Collection

from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.groups.values import Refusal
from tidegate_coordination.placement.groups import holder, may_serve
from tidegate_coordination.rules.consumer_groups.groups import (
    GROUP_CLAIMS,
    ForgetGroup,
    group_claim,
)
from tidegate_coordination.rules.gateways import ReleaseClaim, Renew, TakeClaim
from tidegate_coordination.rules.proposal import Proposal


class GroupClaims:
    """uncertain: ids of groups that the gateway must claim again before it serves them.

    is_leaving: the gateway takes no more claims.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.uncertain: set[str] = set()
        self.is_leaving = False
        self._strays: set[str] = set()
        self._releasing: set[str] = set()

    @property
    def may_serve(self) -> bool:
        """Whether this gateway may serve groups, according to its replica of the state."""
        return may_serve(self._coordinator.state, self._coordinator.incarnation)

    def holds(self, group_id: str, epoch: int) -> bool:
        """Return whether this gateway holds the claim, according to its replica of the state."""
        claim = self._coordinator.state.claims.get(group_claim(group_id))
        return claim is not None and claim == (self._coordinator.incarnation, epoch)

    def own_epoch(self, group_id: str) -> int | None:
        """Return the epoch of a claim that this gateway holds; None if it must first take it."""
        claim = self._coordinator.state.claims.get(group_claim(group_id))
        if claim is None or self.is_leaving or group_id in self.uncertain:
            return None
        return claim.epoch if claim.incarnation == self._coordinator.incarnation else None

    def is_durable(self, group_id: str) -> bool:
        """Return whether the state has the group."""
        return self._coordinator.state.groups.get(group_id) is not None

    async def take(self, group_id: str, *, create: bool) -> int | Refusal:
        """Take a claim that no other gateway holds; return its epoch.

        create: take it even if the state does not have the group.

        Raises:
          CoordinatorUnavailable, ProposalFailed
        """
        refusal = await self._reason_not_to_take(group_id, create=create)
        if refusal is not None:
            return refusal
        epoch = await self._coordinator.propose(TakeClaim(group_claim(group_id)))
        if epoch is None:
            return Refusal.NOT_COORDINATOR
        self.uncertain.discard(group_id)
        return epoch

    async def _reason_not_to_take(self, group_id: str, *, create: bool) -> Refusal | None:
        state, me = self._coordinator.state, self._coordinator.incarnation
        if self.is_leaving or not may_serve(state, me):
            return Refusal.NOT_COORDINATOR
        if not create and state.groups.get(group_id) is None:
            await self._coordinator.catch_up()
            if state.groups.get(group_id) is None and holder(state, group_id) is None:
                return Refusal.UNKNOWN_MEMBER
        held = holder(state, group_id)
        other = held is not None and held.incarnation != me
        return Refusal.NOT_COORDINATOR if other else None

    def forget(self, group_id: str) -> None:
        """Drop the claim on a group that never became durable."""
        self.uncertain.add(group_id)
        self._coordinator.submit(ForgetGroup(group_id), _done, failed)

    def release_all(self) -> None:
        """Release the claims on durable groups, and drop the claims on other groups."""
        held = self._held()
        durable = {each for each in held if self.is_durable(each)}
        for group_id in sorted(durable):
            self._submit_once(group_id, ReleaseClaim(group_claim(group_id)))
        for group_id in sorted((held | self.uncertain) - durable):
            self._submit_once(group_id, ForgetGroup(group_id))

    async def settle(self) -> None:
        """Wait until all earlier proposals are decided.

        Raises:
          CoordinatorUnavailable
        """
        await self._coordinator.propose(Renew())  # the log decides it after the earlier ones

    def forget_certain(self) -> None:
        """Drop uncertain ids whose claim this gateway does not hold: it must take them anyway.

        Otherwise every group id that a client ever sent could stay in memory.
        """
        claims, me = self._coordinator.state.claims, self._coordinator.incarnation
        for group_id in list(self.uncertain):
            claim = claims.get(group_claim(group_id))
            if claim is None or claim.incarnation != me:
                self.uncertain.discard(group_id)

    def forget_strays(self, hosted: Collection[str]) -> None:
        """Drop claims on groups that two calls in a row found neither hosted here nor in the state.

        Such a claim is left if a client disconnects before the claim is committed.  A restarted
        gateway also inherits such claims.
        """
        if self.is_leaving:
            return
        held = self._held()
        strays = {each for each in held if each not in hosted and not self.is_durable(each)}
        for group_id in sorted(strays & self._strays):
            self.uncertain.add(group_id)
            self._submit_once(group_id, ForgetGroup(group_id))
        self._strays = strays

    def _held(self) -> set[str]:
        """Return the ids of the groups whose claims this gateway holds."""
        state, me = self._coordinator.state, self._coordinator.incarnation
        if not state.gateways.is_live(me):
            return set()
        return {each.removeprefix(GROUP_CLAIMS) for each in state.claims.held_by(me, GROUP_CLAIMS)}

    def _submit_once(self, group_id: str, proposal: Proposal[None]) -> None:
        """Submit a proposal unless an earlier one for the group is pending: the log may be slow."""
        if group_id in self._releasing:
            return
        self._releasing.add(group_id)

        def deliver(answer: None) -> None:
            self._releasing.discard(group_id)

        def fail(failure: Failure) -> None:
            self._releasing.discard(group_id)
            failed(failure)

        self._coordinator.submit(proposal, deliver, fail)


def _done(_answer: object) -> None:
    """Ignore the answer: no caller waits for it."""


def failed(_failure: Failure) -> None:
    """Ignore the failure: the gateway proposes again later, or its lease expires."""
