"""The machines of the groups that this gateway serves: claims, timers, coming and going.

One task serves all timers.  It looks up at least once a second while a group is hosted, for two
reasons: to notice a claim that went to another, and to notice that the process itself was stopped.
After a stall all timers begin anew, since nobody's heartbeats could be read
(docs/architecture.md, "Consumer groups").  While the gateway is cut off from the metadata log they
stand still; nobody's heartbeats are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from math import inf

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.values import Description, Refusal
from tidegate_coordination.placement.groups import candidates, holder, may_serve, server
from tidegate_coordination.rules.consumer_groups.groups import (
    GROUP_CLAIMS,
    ForgetGroup,
    group_claim,
)
from tidegate_coordination.rules.gateways import ReleaseClaim, Renew, TakeClaim
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.state.gateways import Gateway

from .hosted_group import HostedGroup

LOOK_SECONDS = 1.0
STALL_SECONDS = 3.0
ADOPT_SECONDS = 10.0
# Of a machine whose tick failed: the others' timers, and all else, come before it again.
TICK_AGAIN_SECONDS = 5.0
GROUP_BYTES = 4096
"""What a machine costs without anybody in it."""


class HostedGroups:
    """By group id.  hosted_bytes: what all of them cost, with what their members sent.

    absent: tells the incarnations that do not answer.
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
        self._uncertain: set[str] = set()
        self._strays: set[str] = set()
        self._releasing: set[str] = set()
        self._adopting: set[str] = set()
        self._pins: dict[str, int] = {}
        self._timers: list[tuple[float, str]] = []
        self._wake = trio.Event()
        self._adopt_at = -inf
        self._look_at = -inf
        self._leaving = False
        self._stands_still = False
        self.hosted_bytes = 0

    def get(self, group_id: str) -> HostedGroup | None:
        """Return a group that is in memory."""
        return self._hosted.get(group_id)

    def holds(self, hosted: HostedGroup) -> bool:
        """Tell whether the claim is still this gateway's, as far as the replica knows."""
        machine = hosted.machine
        claim = self._coordinator.state.claims.get(group_claim(machine.group_id))
        return claim is not None and claim == (self._coordinator.incarnation, machine.claim_epoch)

    async def host(self, group_id: str, *, create: bool) -> HostedGroup | Refusal:
        """Return a group's machine, taking the claim if nobody holds it.

        create: take it although nothing durable is known of the group.

        Raises:
          CoordinatorUnavailable, ProposalFailed
        """
        hosted = self._present(group_id)
        if hosted is not None:
            return hosted
        epoch = self._own_epoch(group_id)
        if epoch is None:
            refusal = await self._reason_not_to_claim(group_id, create=create)
            if refusal is not None:
                return refusal
            epoch = await self._coordinator.propose(TakeClaim(group_claim(group_id)))
            if epoch is None:
                return Refusal.NOT_COORDINATOR
            self._uncertain.discard(group_id)
        return self._present(group_id) or self._restore(group_id, epoch)

    def lose(self, hosted: HostedGroup, refusal: Refusal) -> None:
        """Stop serving a group; whoever waits is answered with the refusal.

        Records of its machine may still be on their way, so before it is served again the claim is
        asked for anew, behind them.
        """
        if self._hosted.get(hosted.machine.group_id) is hosted:
            self._uncertain.add(hosted.machine.group_id)
            self.drop(hosted)
        hosted.give_up(refusal)

    def drop(self, hosted: HostedGroup) -> None:
        """Take a machine out of memory."""
        if self._hosted.get(hosted.machine.group_id) is hosted:
            del self._hosted[hosted.machine.group_id]
            self.hosted_bytes -= hosted.counted_bytes

    def drop_if_idle(self, hosted: HostedGroup) -> None:
        """Drop a machine that holds nothing the state does not hold too.

        A group that never became durable goes altogether.
        """
        group_id = hosted.machine.group_id
        pinned = group_id in self._pins or hosted.waiters
        if pinned or not hosted.machine.is_idle or self._hosted.get(group_id) is not hosted:
            return
        self.drop(hosted)
        if not self._is_durable(group_id):
            self._uncertain.add(group_id)
            self._coordinator.submit(ForgetGroup(group_id), _done, _failed)

    @contextmanager
    def pinned(self, hosted: HostedGroup) -> Generator[None, None, None]:
        """Keep a machine in memory although it is idle."""
        group_id = hosted.machine.group_id
        self._pins[group_id] = self._pins.get(group_id, 0) + 1
        try:
            yield
        finally:
            self._pins[group_id] -= 1
            if not self._pins[group_id]:
                del self._pins[group_id]

    def describe(self, group_id: str) -> Description | None:
        """Return a group as its machine, or else the state, knows it."""
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
        """Return the gateways that share the groups nobody holds now, by node id.

        listener: see candidates().
        """
        return candidates(self._coordinator.state, self._absent(), listener)

    def list_groups(self, listener: str) -> Iterator[tuple[str, Description | None]]:
        """Yield all groups, those with a description that are this gateway's to serve.

        Tools ask all gateways, of their listener.  Others may run between two groups.
        """
        state, me = self._coordinator.state, self._coordinator.incarnation
        ids = {each.group_id for each in state.groups} | self._hosted.keys()
        among = self.candidates(listener)
        for group_id in sorted(ids):
            place = server(state, group_id, among)
            is_own = place is not None and place.incarnation == me
            yield group_id, self.describe(group_id) if is_own else None

    async def hand_over(self) -> None:
        """Drop all machines and release all claims.

        Raises:
          CoordinatorUnavailable
        """
        self._leaving = True
        self._release_all()
        await self._coordinator.propose(Renew())  # behind them all

    def step_aside(self) -> None:
        """Do the same, but for good only as long as this gateway drains and others do not.

        Their members find who serves them now, and go on there: it knows them from the state.
        """
        if self._has_to_go:
            self._release_all()

    def _release_all(self) -> None:
        for hosted in list(self._hosted.values()):
            self.lose(hosted, Refusal.NOT_COORDINATOR)
        held = self._held()
        durable = {each for each in held if self._is_durable(each)}
        for group_id in sorted(durable):
            self._submit_once(group_id, ReleaseClaim(group_claim(group_id)))
        for group_id in sorted((held | self._uncertain) - durable):
            self._submit_once(group_id, ForgetGroup(group_id))

    def _submit_once(self, group_id: str, proposal: Proposal[None]) -> None:
        """Unless the like of it is on its way: the log may be away for long."""
        if group_id in self._releasing:
            return
        self._releasing.add(group_id)

        def deliver(answer: None) -> None:
            self._releasing.discard(group_id)

        def fail(failure: Failure) -> None:
            self._releasing.discard(group_id)
            _failed(failure)

        self._coordinator.submit(proposal, deliver, fail)

    async def run(self) -> None:
        """Serve the timers; forever."""
        while True:
            now = trio.current_time()
            self._heed_cut_off()
            if not self._stands_still:
                self._tick_due(now)
            if now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self.step_aside()
                self._look()
            if now >= self._adopt_at:
                self._adopt_at = now + ADOPT_SECONDS
                if self._stands_still:
                    continue
                self._forget_certain()
                self._forget_strays()
                self._adopt()
            await self._sleep()

    # ---- claims

    @property
    def _has_to_go(self) -> bool:
        return not may_serve(self._coordinator.state, self._coordinator.incarnation)

    def _present(self, group_id: str) -> HostedGroup | None:
        hosted = self._hosted.get(group_id)
        if hosted is not None and not self.holds(hosted):
            self.lose(hosted, Refusal.NOT_COORDINATOR)
            return None
        return hosted

    def _held(self) -> set[str]:
        """Return the ids of the groups whose claims this gateway holds."""
        state, me = self._coordinator.state, self._coordinator.incarnation
        if not state.gateways.is_live(me):
            return set()
        return {each.removeprefix(GROUP_CLAIMS) for each in state.claims.held_by(me, GROUP_CLAIMS)}

    def _is_durable(self, group_id: str) -> bool:
        return self._coordinator.state.groups.get(group_id) is not None

    def _own_epoch(self, group_id: str) -> int | None:
        claim = self._coordinator.state.claims.get(group_claim(group_id))
        if claim is None or self._leaving or group_id in self._uncertain:
            return None
        return claim.epoch if claim.incarnation == self._coordinator.incarnation else None

    async def _reason_not_to_claim(self, group_id: str, *, create: bool) -> Refusal | None:
        state, me = self._coordinator.state, self._coordinator.incarnation
        if self._leaving or not may_serve(state, me):
            return Refusal.NOT_COORDINATOR
        if not create and state.groups.get(group_id) is None:
            await self._coordinator.catch_up()
            if state.groups.get(group_id) is None and holder(state, group_id) is None:
                return Refusal.UNKNOWN_MEMBER
        held = holder(state, group_id)
        other = held is not None and held.incarnation != me
        return Refusal.NOT_COORDINATOR if other else None

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
        self._set_timer(hosted)
        self._wake.set()
        return hosted

    def _look(self) -> None:
        """Drop what is lost, and what is idle."""
        for hosted in list(self._hosted.values()):
            if self._present(hosted.machine.group_id) is hosted:
                self.drop_if_idle(hosted)

    def _forget_certain(self) -> None:
        """A claim that is gone has to be taken anew anyway; else every made-up id would stay."""
        claims, me = self._coordinator.state.claims, self._coordinator.incarnation
        for group_id in list(self._uncertain):
            claim = claims.get(group_claim(group_id))
            if claim is None or claim.incarnation != me:
                self._uncertain.discard(group_id)

    def _forget_strays(self) -> None:
        """Give up claims on groups that are known neither here nor in the log, if seen twice.

        Who asked for one may have gone before it came true, and a restart inherits some.
        """
        if self._leaving:
            return
        held = self._held()
        strays = {each for each in held if each not in self._hosted and not self._is_durable(each)}
        for group_id in sorted(strays & self._strays):
            self._uncertain.add(group_id)
            self._submit_once(group_id, ForgetGroup(group_id))
        self._strays = strays

    def _adopt(self) -> None:
        """Serve groups with members whom nobody serves, lest dead members stay in them for ever."""
        state, me = self._coordinator.state, self._coordinator.incarnation
        if self._leaving or not may_serve(state, me):
            return
        among = self.candidates()
        for group in state.groups:
            group_id = group.group_id
            if not group.members or group_id in self._hosted or group_id in self._adopting:
                continue
            place = server(state, group_id, among)
            if place is None or place.incarnation != me:
                continue
            epoch = self._own_epoch(group_id)
            if epoch is not None:
                self._restore(group_id, epoch)
            else:
                self._adopting.add(group_id)  # the log may be away for long
                self._coordinator.submit(
                    TakeClaim(group_claim(group_id)),
                    partial(self._adopted, group_id),
                    partial(self._not_adopted, group_id),
                )

    def _not_adopted(self, group_id: str, failure: Failure) -> None:
        self._adopting.discard(group_id)
        _failed(failure)

    def _adopted(self, group_id: str, epoch: int | None) -> None:
        self._adopting.discard(group_id)
        if epoch is not None and not self._leaving:
            self._uncertain.discard(group_id)
            if group_id not in self._hosted:
                self._restore(group_id, epoch)

    # ---- timers

    def _changed(self, hosted: HostedGroup) -> None:
        self._count(hosted)
        self._set_timer(hosted)
        self.drop_if_idle(hosted)

    def _count(self, hosted: HostedGroup) -> None:
        roster = hosted.machine.roster
        size_bytes = GROUP_BYTES + roster.size_bytes + roster.pending_bytes
        if self._hosted.get(hosted.machine.group_id) is hosted:
            self.hosted_bytes += size_bytes - hosted.counted_bytes
            hosted.counted_bytes = size_bytes

    def _set_timer(self, hosted: HostedGroup) -> None:
        """A timer that turns out to be early costs a look; so heartbeats set none."""
        deadline = hosted.machine.next_deadline()
        if deadline < hosted.timer_at:
            self._arm(hosted, deadline)
            self._wake.set()

    def _arm(self, hosted: HostedGroup, at: float) -> None:
        hosted.timer_at = at
        heappush(self._timers, (at, hosted.machine.group_id))

    def _tick_due(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, group_id = heappop(self._timers)
            hosted = self._hosted.get(group_id)
            if hosted is None or hosted.timer_at != at:
                continue  # of a machine that is gone, or overtaken by an earlier timer
            hosted.timer_at = inf
            try:
                hosted.machine.tick(now)
                hosted.carry_out()
            except Exception:
                self._arm(hosted, now + TICK_AGAIN_SECONDS)
                raise

    async def _sleep(self) -> None:
        runs = self._timers and not self._stands_still
        until = min(self._timers[0][0] if runs else inf, self._adopt_at)
        if self._hosted or self._has_to_go:
            until = min(until, self._look_at)
        with trio.move_on_at(until):
            await self._wake.wait()
        self._wake = trio.Event()
        if trio.current_time() > until + STALL_SECONDS:
            self._restart_timers()

    def _heed_cut_off(self) -> None:
        """Let timers stand still while another gateway may serve the groups."""
        before, self._stands_still = self._stands_still, self._coordinator.is_cut_off
        if before and not self._stands_still:
            self._restart_timers()
        if self._stands_still and not before:
            for hosted in self._hosted.values():
                hosted.send_away()

    def _restart_timers(self) -> None:
        for hosted in self._hosted.values():
            hosted.machine.restart_timers(trio.current_time())


def _done(_answer: object) -> None:
    """Nobody waits for it."""


def _failed(_failure: Failure) -> None:
    """The claim stays; it is asked for again, or ends with this gateway's lease."""
