"""The time limits of fences, and the order in which gateways act on them.

The gateway that looks after the link acts first.  The others act later, in case this gateway makes
no progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.migration.source_groups import GroupFence
from tidegate_coordination.state.migration.switches import Fence

from .assignment import candidates, looks_after

AnyFence: TypeAlias = Fence | GroupFence


class Patience(NamedTuple):
    """Time limits of a fence, in seconds: for the gateway that acts first, and for the others."""

    own: float
    others: float


TOPICS: Final = Patience(4.0, 4.6)
"""So long, and for longer than ALONE_MS of the rules, the gateway that lifted a fence is the only
one that has the source take writes again.
"""
GROUPS: Final = Patience(5.0, 7.0)
COMMAND_SECONDS: Final = 4.0
"""A command that moves groups gives up before any gateway does."""


class FenceAges:
    """The times since which this gateway has seen each fence.  A lifted fence starts again."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._since: dict[tuple[type[AnyFence], int, bool], float] = {}

    def look(self, fences: Iterable[AnyFence]) -> None:
        """Note the present fences, and forget the others."""
        now = trio.current_time()
        self._since = {each: self._since.get(each, now) for each in map(_stage, fences)}

    def age(self, fence: AnyFence) -> float:
        """Return how many seconds ago this gateway saw a fence begin, or saw it lifted."""
        return trio.current_time() - self._seen_at(fence)

    def _seen_at(self, fence: AnyFence) -> float:
        return self._since.setdefault(_stage(fence), trio.current_time())

    def is_mine(self, fence: AnyFence) -> bool:
        """Return whether this gateway acts first; on a lifted fence, its lifter does."""
        me, state = self._coordinator.incarnation, self._coordinator.state
        if isinstance(fence, Fence) and fence.lifted:
            return fence.lifter == me
        return looks_after(fence.link, me, candidates(state))

    def is_my_turn(self, fence: AnyFence) -> bool:
        """Return whether this gateway may act on a fence.

        In the first half of its time limit (Patience.own) only the gateway that acts first may.
        """
        return self.is_mine(fence) or self.age(fence) > patience_with(fence).own / 2

    def deadline(self, fence: AnyFence) -> float:
        """Return when this gateway must give up a fence, on Trio's clock."""
        own, others = patience_with(fence)
        return self._seen_at(fence) + (own if self.is_mine(fence) else others)


def _stage(fence: AnyFence) -> tuple[type[AnyFence], int, bool]:
    return type(fence), fence.number, isinstance(fence, Fence) and bool(fence.lifted)


def patience_with(fence: AnyFence) -> Patience:
    """Return the time limits of a fence."""
    return TOPICS if isinstance(fence, Fence) else GROUPS
