"""Fences of topics hold writes to the topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.migration.returns import unreversed
from tidegate_coordination.rules.migration.switches import LiftFence, ReachFence, unreached
from tidegate_coordination.state.migration.switches import Fence, SwitchTable

_log = structlog.get_logger("tidegate.links")


class TopicFences:
    """See fences.FenceKind.

    drained: waits until all writes to the topics of a fence have answers.
    """

    def __init__(
        self, coordinator: Coordinator, drained: Callable[[Fence], Awaitable[None]]
    ) -> None:
        self.table: SwitchTable = coordinator.state.switches
        self._coordinator = coordinator
        self._drained = drained

    async def reached(self, fence: Fence) -> ReachFence:
        """See fences.FenceKind."""
        await self._drained(fence)
        return ReachFence(fence.number)

    def gives_up(self, fence: Fence) -> bool:
        """Return whether the fence is for a return.  Only switching.py lifts a switch's fence.

        After such a lift the source must be opened again.
        """
        return fence.is_back

    async def give_up(self, fence: Fence) -> None:
        """See fences.FenceKind."""
        state = self._coordinator.state
        text = unreached(state, fence) or unreversed(state, fence)
        text = text or "the source did not say in time what it has"
        if await self._coordinator.propose(LiftFence(fence.number, text)):
            _log.info("a return is given up", link=fence.link, reason=text)
