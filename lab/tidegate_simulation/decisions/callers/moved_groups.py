"""Moves of forwarded groups, and of transactional ids, to this cluster."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.events.links import ForwardedMember
from tidegate_coordination.rules.consumer_groups.offsets import OffsetToCommit
from tidegate_coordination.rules.migration.group_moves import (
    FenceGroups,
    GroupToMove,
    MoveGroups,
    ReachGroupFence,
    UnfenceGroups,
)
from tidegate_coordination.rules.migration.units import IdToMove
from tidegate_coordination.state.migration.source_groups import GroupFence

from ..decider import Decider
from ..source import FOREIGN
from .known import LINKED_GROUPS, Caller, Known
from .links import LINK, LINKED_IDS

_ID: Final = "west-1"
_AT_REST: Final = 4
_HASTE: Final = 0.1


def groups_of(known: Known, fence: GroupFence) -> tuple[GroupToMove, ...]:
    """Return the groups of a fence as their source has them."""
    rng = known.world.rng
    return tuple(
        GroupToMove(
            GroupChanged(each, 0, "consumer", rng.randint(1, 3), None, None, ()),
            _offsets(known) if known.topics else (),
        )
        for each in fence.groups
    )


def _offsets(known: Known) -> tuple[OffsetToCommit, ...]:
    topic_id, index = known.place()
    return (OffsetToCommit(topic_id, index, known.world.rng.randrange(100), -1, ""),)


def ids_of(known: Known, fence: GroupFence) -> tuple[IdToMove, ...]:
    """Return the transactional ids of a fence as their source has them."""
    if not fence.ids:
        return ()
    producer_id = FOREIGN + 100 + known.world.rng.randrange(1 << 20)
    return (IdToMove(_ID, producer_id, 3, 60_000, _AT_REST),)


class MoveCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.fence, 3),
            (self.go_on, 8),
            (self.unfence, 1),
        )

    def fence(self, decider: Decider) -> None:
        """Begin to move a group, or ids with it."""
        with_ids = self._rng.random() < 0.4
        groups = (self._rng.choice(LINKED_GROUPS),) if self._rng.random() < 0.9 else ()
        self._world.ask(decider, FenceGroups(LINK, groups, LINKED_IDS if with_ids else ()))

    def go_on(self, decider: Decider) -> None:
        """Do the next step of a move."""
        fences = list(decider.state.link_groups.fences.values())
        if not fences:
            return
        fence = self._rng.choice(fences)
        if decider.incarnation in fence.awaited and self._rng.random() > _HASTE:
            members = tuple(ForwardedMember(each, "m", 3, "m", 45_000, -1) for each in fence.groups)
            self._world.ask(decider, ReachGroupFence(fence.number, members))
            return
        groups = groups_of(self._known, fence)

        def judged(text: str, is_told: bool) -> None:
            if not text:
                self._world.moved_groups(fence.number, groups)

        self._world.ask(decider, MoveGroups(fence.number, groups), judged)

    def unfence(self, decider: Decider) -> None:
        """Leave groups at their source."""
        fences = list(decider.state.link_groups.fences)
        if fences:
            self._world.ask(decider, UnfenceGroups(self._rng.choice(fences), "late"))
