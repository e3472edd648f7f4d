"""Has this gateway reach the fences of groups and transactional ids that move here, and lifts those
that do not get on.

The command that moves them lifts its fence itself if it fails; if it is killed, a gateway does.
Once their topics are fenced, too, all of them end together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.link_groups import MAX_MEMBERS, ReachGroupFence, UnfenceGroups
from tidegate_coordination.state.link_groups import GroupFence

from .assignment import candidates, looks_after
from .forwards import Forwards
from .group_forwards import GroupForwards
from .transaction_forwards import TransactionForwards

_log = structlog.get_logger("tidegate.links")

AGAIN_SECONDS: Final = 0.2
STALL_SECONDS: Final = 5.0
"""A command gives up earlier."""
OTHERS_STALL_SECONDS: Final = 7.0


class GroupFenceWatch:
    """See the module's head.  on_fence: called once for each new fence."""

    def __init__(
        self,
        coordinator: Coordinator,
        groups: GroupForwards,
        transactions: TransactionForwards,
        batches: Forwards,
        on_fence: Callable[[GroupFence], None],
    ) -> None:
        self._coordinator = coordinator
        self._table = coordinator.state.link_groups
        self._groups = groups
        self._transactions = transactions
        self._batches = batches
        self._on_fence = on_fence
        self._begun: set[int] = set()
        self._seen = -1
        self._changed = trio.Event()
        coordinator.listen(self._on_change)

    def _on_change(self, _: set[int]) -> None:
        if self._table.version != self._seen:
            self._changed.set()

    async def run(self) -> None:
        """Reach fences as they begin; forever."""
        self._begun.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._seen, self._changed = self._table.version, trio.Event()
                self._begun &= self._table.fences.keys()
                for fence in self._table.fences.values():
                    if fence.number not in self._begun:
                        self._begun.add(fence.number)
                        self._on_fence(fence)
                        nursery.start_soon(self._reach, fence)
                        nursery.start_soon(self._lift_late, fence)
                await self._changed.wait()

    async def _reach(self, fence: GroupFence) -> None:
        await self._groups.drained(fence)
        await self._transactions.drained(fence)
        await self._batches.ids_drained(fence)
        seen = self._groups.members.of(set(fence.groups), trio.current_time())
        members = tuple(seen[:MAX_MEMBERS])
        while self._is_awaited(fence.number):
            try:
                await self._coordinator.propose(ReachGroupFence(fence.number, members))
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    async def _lift_late(self, fence: GroupFence) -> None:
        coordinator = self._coordinator
        mine = looks_after(fence.link, coordinator.incarnation, candidates(coordinator.state))
        await trio.sleep(STALL_SECONDS if mine else OTHERS_STALL_SECONDS)
        while fence.number in self._table.fences:
            if fence.switch:
                await trio.sleep(AGAIN_SECONDS)
                continue
            try:
                reason = "the command that moved the groups did not go on"
                if await coordinator.propose(UnfenceGroups(fence.number, reason)):
                    _log.info("groups stay at their source", groups=fence.groups, reason=reason)
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    def _is_awaited(self, number: int) -> bool:
        fence = self._table.fences.get(number)
        return fence is not None and self._coordinator.incarnation in fence.awaited
