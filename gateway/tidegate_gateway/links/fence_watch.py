"""Has this gateway reach the fences of all links: from then on it writes nothing to their topics.

A gateway reaches a fence even if it does not reach the source: then it forwards nothing anyway.  It
also lifts the fence of a return that does not get on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.returns import unreversed
from tidegate_coordination.rules.switches import LiftFence, ReachFence, unreached
from tidegate_coordination.state.switches import Fence

from .assignment import candidates, looks_after
from .switching import OTHERS_STALL_SECONDS, STALL_SECONDS

_log = structlog.get_logger("tidegate.links")

AGAIN_SECONDS: Final = 0.2


class FenceWatch:
    """See the module's head.

    Args:
      drained: waits until no write to the topics of a fence is without an answer; the state has
        the fence, so no further one begins.
      on_fence: called once for each new fence.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        drained: Callable[[Fence], Awaitable[None]],
        on_fence: Callable[[Fence], None],
    ) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._drained = drained
        self._on_fence = on_fence
        self._begun: set[int] = set()
        self._seen = -1
        self._changed = trio.Event()
        coordinator.listen(self._on_change)

    def _on_change(self, _: set[int]) -> None:
        if self._state.switches.version != self._seen:
            self._changed.set()

    async def run(self) -> None:
        """Reach fences as they begin; forever."""
        self._begun.clear()
        async with trio.open_nursery() as nursery:
            while True:
                switches = self._state.switches
                self._seen, self._changed = switches.version, trio.Event()
                self._begun &= switches.fences.keys()
                for fence in switches.fences.values():
                    if fence.number not in self._begun:
                        self._begun.add(fence.number)
                        self._on_fence(fence)
                        nursery.start_soon(self._reach, fence)
                        if fence.is_back:
                            nursery.start_soon(self._lift_late, fence)
                await self._changed.wait()

    async def _reach(self, fence: Fence) -> None:
        await self._drained(fence)
        while self._is_awaited(fence.number):
            try:
                await self._coordinator.propose(ReachFence(fence.number))
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    async def _lift_late(self, fence: Fence) -> None:
        """Lift the fence of a return that does not get on, whether or not the source is there."""
        mine = looks_after(fence.link, self._coordinator.incarnation, candidates(self._state))
        await trio.sleep(STALL_SECONDS if mine else OTHERS_STALL_SECONDS)
        while self._state.switches.fences.get(fence.number) is fence:
            text = unreached(self._state, fence) or unreversed(self._state, fence)
            text = text or "the source did not say in time what it has"
            try:
                if await self._coordinator.propose(LiftFence(fence.number, text)):
                    _log.info("a return is given up", link=fence.link, reason=text)
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    def _is_awaited(self, number: int) -> bool:
        fence = self._state.switches.fences.get(number)
        return fence is not None and self._coordinator.incarnation in fence.awaited
