"""How long fences may stand, and which gateway acts on them when.

The gateway that looks after the link acts first.  The others act later, so that they act only if it
does not get on.
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
    """For how many seconds a fence may stand: until the gateway that goes first gives it up, and
    until any other does.
    """

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
    """Since when this gateway has seen each fence.  A fence that is lifted starts again."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._since: dict[tuple[type[AnyFence], int, bool], float] = {}

    def look(self, fences: Iterable[AnyFence]) -> None:
        """Take the present fences; forget the others."""
        now = trio.current_time()
        self._since = {each: self._since.get(each, now) for each in map(_stage, fences)}

    def age(self, fence: AnyFence) -> float:
        """Return for how many seconds a fence is open, or lifted."""
        return trio.current_time() - self._seen_at(fence)

    def _seen_at(self, fence: AnyFence) -> float:
        return self._since.setdefault(_stage(fence), trio.current_time())

    def is_mine(self, fence: AnyFence) -> bool:
        """Return whether this gateway goes first.  If the fence is lifted, its lifter does."""
        me, state = self._coordinator.incarnation, self._coordinator.state
        if isinstance(fence, Fence) and fence.lifted:
            return fence.lifter == me
        return looks_after(fence.link, me, candidates(state))

    def is_my_turn(self, fence: AnyFence) -> bool:
        """Return whether this gateway may continue with a fence: half of the time is for others."""
        return self.is_mine(fence) or self.age(fence) > patience_with(fence).own / 2

    def deadline(self, fence: AnyFence) -> float:
        """Return when this gateway gives a fence up, on Trio's clock."""
        own, others = patience_with(fence)
        return self._seen_at(fence) + (own if self.is_mine(fence) else others)


def _stage(fence: AnyFence) -> tuple[type[AnyFence], int, bool]:
    return type(fence), fence.number, isinstance(fence, Fence) and bool(fence.lifted)


def patience_with(fence: AnyFence) -> Patience:
    """Return how long a fence may stand."""
    return TOPICS if isinstance(fence, Fence) else GROUPS
