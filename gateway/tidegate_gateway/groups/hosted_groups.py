"""The machines of the groups that this gateway serves, and the task that runs them.

While the gateway hosts a group, the task wakes at least once a second, for two reasons.  It drops
groups whose claim (group_claims.py) another gateway has taken.  It also notices if the process
itself stood still; then all timers (group_timers.py) restart (docs/architecture.md, "Consumer
groups").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from math import inf

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.values import Description, Refusal
from tidegate_coordination.placement.groups import candidates, server
from tidegate_coordination.rules.consumer_groups.groups import group_claim
from tidegate_coordination.rules.gateways import TakeClaim
from tidegate_coordination.state.writers.gateways import Gateway

from .group_claims import GroupClaims, failed
from .group_timers import GroupTimers
from .hosted_group import HostedGroup

LOOK_SECONDS = 1.0
ADOPT_SECONDS = 10.0
GROUP_BYTES = 4096
"""The memory of a machine without members."""


class HostedGroups:
    """The machines by group id.

    absent: returns the incarnations that do not answer.  hosted_bytes: the memory of all machines,
    including the metadata that members sent.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        settings: GroupSettings,
        absent: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        self._coordinator = coordinator
        self._absent = absent
        self._settings = settings
        self._hosted: dict[str, HostedGroup] = {}
        self._claims = GroupClaims(coordinator)
        self._timers = GroupTimers(self._hosted)
        self._adopting: set[str] = set()
        self._pins: dict[str, int] = {}
        self._adopt_at = -inf
        self._look_at = -inf
        self.hosted_bytes = 0

    def get(self, group_id: str) -> HostedGroup | None:
        """Return a group that is in memory."""
        return self._hosted.get(group_id)

    def client_ids(self) -> Iterator[tuple[str, str]]:
        """Yield the group and the client id of each member."""
        for group_id, hosted in self._hosted.items():
            for member in hosted.machine.roster.members.values():
                yield group_id, member.client_id

    def holds(self, hosted: HostedGroup) -> bool:
        """Return whether this gateway holds the claim, according to its replica of the state."""
        return self._claims.holds(hosted.machine.group_id, hosted.machine.claim_epoch)

    async def host(self, group_id: str, *, create: bool) -> HostedGroup | Refusal:
        """Return a group's machine; take the claim if no other gateway holds it.

        create: take it even if the state does not have the group.

        Raises:
          CoordinatorUnavailable, ProposalFailed
        """
        hosted = self._present(group_id)
        if hosted is not None:
            return hosted
        epoch = self._claims.own_epoch(group_id)
        if epoch is None:
            taken = await self._claims.take(group_id, create=create)
            if isinstance(taken, Refusal):
                return taken
            epoch = taken
        return self._present(group_id) or self._restore(group_id, epoch)

    def lose(self, hosted: HostedGroup, refusal: Refusal) -> None:
        """Stop serving a group; answer its parked requests with the refusal.

        Records of the group's machine may still be undecided.  So the gateway must take the claim
        again before it serves the group again: the log decides this claim after those records.
        """
        if self._hosted.get(hosted.machine.group_id) is hosted:
            self._claims.uncertain.add(hosted.machine.group_id)
            self.drop(hosted)
        hosted.give_up(refusal)

    def drop(self, hosted: HostedGroup) -> None:
        """Take a machine out of memory."""
        if self._hosted.get(hosted.machine.group_id) is hosted:
            del self._hosted[hosted.machine.group_id]
            self.hosted_bytes -= hosted.counted_bytes

    def drop_if_idle(self, hosted: HostedGroup) -> None:
        """Drop a machine if the cluster state has all its facts.

        If the group never became durable, drop its claim, too.
        """
        group_id = hosted.machine.group_id
        pinned = group_id in self._pins or hosted.waiters
        if pinned or not hosted.machine.is_idle or self._hosted.get(group_id) is not hosted:
            return
        self.drop(hosted)
        if not self._claims.is_durable(group_id):
            self._claims.forget(group_id)

    @contextmanager
    def pinned(self, hosted: HostedGroup) -> Generator[None, None, None]:
        """Keep a machine in memory even if it is idle."""
        group_id = hosted.machine.group_id
        self._pins[group_id] = self._pins.get(group_id, 0) + 1
        try:
            yield
        finally:
            self._pins[group_id] -= 1
            if not self._pins[group_id]:
                del self._pins[group_id]

    def describe(self, group_id: str) -> Description | None:
        """Return a group's description from its machine, or else from the state."""
        hosted = self._hosted.get(group_id)
        if hosted is not None:
            return hosted.machine.describe()
        group = self._coordinator.state.groups.get(group_id)
        if group is None:
            return None
        return ClassicGroup.restore(
            group.record(), claim_epoch=0, settings=self._settings, now=0.0
        ).describe()

    def candidates(self, listener: str | None = None) -> dict[int, Gateway]:
        """Return the gateways among which groups without a claim are divided, by node id.

        listener: see placement/groups.py.
        """
        return candidates(self._coordinator.state, self._absent(), listener)

    def list_groups(self, listener: str) -> Iterator[tuple[str, Description | None]]:
        """Yield all groups; this gateway describes the groups that it serves or would serve.

        Each gateway describes its own groups only: a tool asks all gateways of its listener.  Other
        tasks may run between two groups.
        """
        state, me = self._coordinator.state, self._coordinator.incarnation
        hosted = [each for each in self._hosted if state.groups.get(each) is None]
        among = self.candidates(listener)
        for group_id in chain(state.groups.copied_ids(), hosted):
            place = server(state, group_id, among)
            is_own = place is not None and place.incarnation == me
            yield group_id, self.describe(group_id) if is_own else None

    async def hand_over(self) -> None:
        """Drop all machines, release all claims, and take no more claims.

        Raises:
          CoordinatorUnavailable
        """
        self._claims.is_leaving = True
        self._release_all()
        await self._claims.settle()

    def step_aside(self) -> None:
        """Drop all machines and release all claims while other gateways must serve the groups.

        Other gateways must serve them while this gateway drains and another one does not.  The
        members find the new gateway, which restores the groups from the state, and continue there.
        """
        if not self._claims.may_serve:
            self._release_all()

    def _release_all(self) -> None:
        for hosted in list(self._hosted.values()):
            self.lose(hosted, Refusal.NOT_COORDINATOR)
        self._claims.release_all()

    async def run(self) -> None:
        """Run the timers, forever."""
        while True:
            now = trio.current_time()
            self._timers.heed_cut_off(self._coordinator.is_cut_off)
            if not self._timers.stand_still:
                self._timers.tick_due(now)
            if now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self.step_aside()
                self._look()
            if now >= self._adopt_at:
                self._adopt_at = now + ADOPT_SECONDS
                if self._timers.stand_still:
                    continue
                self._claims.forget_certain()
                self._claims.forget_strays(self._hosted.keys())
                self._adopt()
            until = self._adopt_at
            if self._hosted or not self._claims.may_serve:
                until = min(until, self._look_at)
            await self._timers.sleep(until)

    # ---- machines restored and dropped

    def _present(self, group_id: str) -> HostedGroup | None:
        hosted = self._hosted.get(group_id)
        if hosted is not None and not self.holds(hosted):
            self.lose(hosted, Refusal.NOT_COORDINATOR)
            return None
        return hosted

    def _restore(self, group_id: str, epoch: int) -> HostedGroup:
        known = self._coordinator.state.groups.get(group_id)
        machine = ClassicGroup(group_id, epoch, self._settings)
        if known is not None:
            machine = ClassicGroup.restore(
                known.record(),
                claim_epoch=epoch,
                settings=self._settings,
                now=trio.current_time(),
            )
        hosted = HostedGroup(machine, self._coordinator, self._changed, self.lose)
        self._hosted[group_id] = hosted
        self._count(hosted)
        self._timers.set(hosted)
        self._timers.wake()
        return hosted

    def _look(self) -> None:
        """Drop lost and idle machines."""
        for hosted in list(self._hosted.values()):
            if self._present(hosted.machine.group_id) is hosted:
                self.drop_if_idle(hosted)

    def _adopt(self) -> None:
        """Take over groups with members but no gateway; otherwise dead members stay forever."""
        state, me = self._coordinator.state, self._coordinator.incarnation
        if self._claims.is_leaving or not self._claims.may_serve:
            return
        among = self.candidates()
        for group in state.groups:
            group_id = group.group_id
            if not group.members or group_id in self._hosted or group_id in self._adopting:
                continue
            place = server(state, group_id, among)
            if place is None or place.incarnation != me:
                continue
            epoch = self._claims.own_epoch(group_id)
            if epoch is not None:
                self._restore(group_id, epoch)
            else:
                self._adopting.add(group_id)  # the log may not answer for a long time
                self._coordinator.submit(
                    TakeClaim(group_claim(group_id)),
                    partial(self._adopted, group_id),
                    partial(self._not_adopted, group_id),
                )

    def _not_adopted(self, group_id: str, failure: Failure) -> None:
        self._adopting.discard(group_id)
        failed(failure)

    def _adopted(self, group_id: str, epoch: int | None) -> None:
        self._adopting.discard(group_id)
        if epoch is not None and not self._claims.is_leaving:
            self._claims.uncertain.discard(group_id)
            if group_id not in self._hosted:
                self._restore(group_id, epoch)

    def _changed(self, hosted: HostedGroup) -> None:
        self._count(hosted)
        self._timers.set(hosted)
        self.drop_if_idle(hosted)

    def _count(self, hosted: HostedGroup) -> None:
        roster = hosted.machine.roster
        size_bytes = GROUP_BYTES + roster.size_bytes + roster.pending_bytes
        if self._hosted.get(hosted.machine.group_id) is hosted:
            self.hosted_bytes += size_bytes - hosted.counted_bytes
            hosted.counted_bytes = size_bytes
