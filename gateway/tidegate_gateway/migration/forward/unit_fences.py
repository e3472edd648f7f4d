"""Fences of groups hold the requests of groups and transactional ids that move here.

If the command that moves them fails, it lifts the fence itself.  If the command is killed, a
gateway lifts the fence.  If topics are fenced together with groups, all these fences end together.
"""

from __future__ import annotations

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.migration.group_moves import (
    MAX_MEMBERS,
    ReachGroupFence,
    UnfenceGroups,
)
from tidegate_coordination.state.migration.source_groups import GroupFence, LinkGroupTable

from .groups import GroupForwards
from .transactions import TransactionForwards
from .writes import Forwards

_log = structlog.get_logger("tidegate.links")


class GroupFences:
    """See fences.FenceKind."""

    def __init__(
        self,
        coordinator: Coordinator,
        groups: GroupForwards,
        transactions: TransactionForwards,
        batches: Forwards,
    ) -> None:
        self.table: LinkGroupTable = coordinator.state.link_groups
        self._coordinator = coordinator
        self._groups = groups
        self._transactions = transactions
        self._batches = batches

    async def reached(self, fence: GroupFence) -> ReachGroupFence:
        """See fences.FenceKind."""
        await self._groups.drained(fence)
        await self._transactions.drained(fence)
        await self._batches.ids_drained(fence)
        seen = self._groups.members.of(set(fence.groups), trio.current_time())
        return ReachGroupFence(fence.number, tuple(seen[:MAX_MEMBERS]))

    def gives_up(self, fence: GroupFence) -> bool:
        """Return whether a fence has no topics; otherwise it ends with the topics' switch."""
        return not fence.switch

    async def give_up(self, fence: GroupFence) -> None:
        """See fences.FenceKind."""
        reason = "the command that moved the groups did not go on"
        if await self._coordinator.propose(UnfenceGroups(fence.number, reason)):
            _log.info("groups stay at their source", groups=fence.groups, reason=reason)
