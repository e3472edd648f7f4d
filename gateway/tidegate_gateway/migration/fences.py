"""Reports when this gateway has reached the fences of all links, and gives up late fences.

A gateway has reached a fence when it has no open request that the fence holds, and sends no further
ones.  It can reach a fence without a connection to the source, since then it forwards nothing.  One
task looks after all fences, of topics and of groups.  fence_ages.py says when a fence is late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, Protocol, TypeVar

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.state.changes import LINK_GROUPS, SWITCHES

from .fence_ages import AnyFence, FenceAges

AGAIN_SECONDS: Final = 0.2
F = TypeVar("F", bound=AnyFence)
F_co = TypeVar("F_co", bound=AnyFence, covariant=True)


class FenceTable(Protocol[F_co]):
    """A table of the state with fences.  fences: by number.  version: rises with every change."""

    @property
    def fences(self) -> Mapping[int, F_co]: ...
    @property
    def version(self) -> int: ...


class FenceKind(Protocol[F]):
    """The writes or requests that the fences of one table hold."""

    @property
    def table(self) -> FenceTable[F]: ...

    async def reached(self, fence: F) -> Proposal[None]:
        """Wait until every request that a fence holds has an answer.

        Return the proposal that reports this.  The state has the fence already, so no such request
        begins any more.
        """
        ...

    def gives_up(self, fence: F) -> bool:
        """Return whether the watch gives up a fence when it is late."""
        ...

    async def give_up(self, fence: F) -> None:
        """Propose that the topics or groups of the fence stay where they are.

        Raises:
          CoordinatorUnavailable, ProposalFailed: call this again later.
        """
        ...


class FenceWatch:
    """See the module's head.  on_fence: called once for each new fence."""

    def __init__(
        self,
        coordinator: Coordinator,
        kinds: Sequence[FenceKind[Any]],
        ages: FenceAges,
        on_fence: Callable[[AnyFence], None],
    ) -> None:
        self._coordinator = coordinator
        self._kinds = kinds
        self._ages = ages
        self._on_fence = on_fence
        self._begun: set[tuple[FenceKind[Any], int]] = set()
        self._late: set[tuple[FenceKind[Any], int]] = set()
        self._seen: list[int] = []
        self._changed = trio.Event()
        coordinator.listen(self._on_change, SWITCHES | LINK_GROUPS)

    def _versions(self) -> list[int]:
        return [each.table.version for each in self._kinds]

    def _on_change(self, _: set[int]) -> None:
        if self._versions() != self._seen:
            self._changed.set()

    async def run(self) -> None:
        """Reach fences as they begin, and give up late ones; forever."""
        self._begun.clear()
        self._late.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._seen, self._changed = self._versions(), trio.Event()
                with trio.move_on_at(self._look(nursery)):
                    await self._changed.wait()

    def _look(self, nursery: trio.Nursery) -> float:
        """Start the due work; return when to look again, on Trio's clock.

        Deadlines are compared with the present time: a tiny remaining time could be lost in
        rounding.
        """
        found = {
            (kind, number): fence
            for kind in self._kinds
            for number, fence in kind.table.fences.items()
        }
        self._ages.look(found.values())
        self._begun &= found.keys()
        self._late &= found.keys()
        again = inf
        for key, fence in found.items():
            if key not in self._begun:
                self._begun.add(key)
                self._on_fence(fence)
                nursery.start_soon(self._reach, key[0], fence)
            if key in self._late or not key[0].gives_up(fence):
                continue
            deadline = self._ages.deadline(fence)
            if deadline > trio.current_time():
                again = min(again, deadline)
            else:
                self._late.add(key)
                nursery.start_soon(self._give_up, *key)
        return again

    async def _reach(self, kind: FenceKind[Any], reached: AnyFence) -> None:
        proposal = await kind.reached(reached)
        number, me = reached.number, self._coordinator.incarnation
        while (fence := kind.table.fences.get(number)) is not None and me in fence.awaited:
            try:
                await self._coordinator.propose(proposal)
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)

    async def _give_up(self, kind: FenceKind[Any], number: int) -> None:
        """Give up a fence, even if its source does not answer."""
        while (fence := kind.table.fences.get(number)) is not None and kind.gives_up(fence):
            try:
                await kind.give_up(fence)
            except (CoordinatorUnavailable, ProposalFailed):
                await trio.sleep(AGAIN_SECONDS)
