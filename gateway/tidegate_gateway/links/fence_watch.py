"""Has this gateway reach the fences of all links: from then on it writes nothing to their topics.

A gateway reaches a fence even if it does not reach the source: then it forwards nothing anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.switches import ReachFence
from tidegate_coordination.state.switches import Fence

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
                await self._changed.wait()

    async def _reach(self, fence: Fence) -> None:
        await self._drained(fence)
        while self._is_awaited(fence.number):
            try:
                await self._coordinator.propose(ReachFence(fence.number))
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    def _is_awaited(self, number: int) -> bool:
        fence = self._state.switches.fences.get(number)
        return fence is not None and self._coordinator.incarnation in fence.awaited
