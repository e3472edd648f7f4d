"""All callers."""

from __future__ import annotations

from random import Random
from typing import Final

from ..world import World
from .groups import GroupCallers
from .known import Caller, Known, Operation, Operations
from .links import LinkCallers
from .moved_groups import MoveCallers
from .producers import ProducerCallers
from .records import RecordCallers
from .restores import RestoreCallers
from .security import SecurityCallers
from .segments import SegmentCallers
from .settings import SettingCallers
from .small_writes import SmallWriteCallers
from .switches import SwitchCallers
from .topics import TopicCallers
from .upkeep import UpkeepCallers

_SUBJECTS: Final[tuple[tuple[tuple[int, ...], tuple[type[Caller], ...]], ...]] = (
    ((1, 1, 3), (RecordCallers, TopicCallers)),
    ((0, 1, 4), (ProducerCallers,)),
    ((0, 1, 4), (GroupCallers,)),
    ((0, 1, 4), (SegmentCallers,)),
    ((0, 1, 4), (SecurityCallers,)),
    ((0, 1, 2), (SettingCallers,)),
    ((0, 1, 2), (UpkeepCallers,)),
    ((0, 1, 10), (LinkCallers, SwitchCallers)),
    ((0, 1, 4), (MoveCallers,)),
    ((0, 1), (RestoreCallers,)),
)
"""Callers by subject, with factors of their weights.  A seed draws one factor for each subject, so
that runs differ in which subjects have many operations, and which have none.
"""
_SMALL_WRITES_SHARE: Final = 0.2


def operations_of(world: World) -> Operations:
    """Return the operations of all callers, with their weights."""
    known = Known(world)
    found: list[tuple[Operation, int]] = []
    for factors, kinds in _SUBJECTS:
        factor = world.rng.choice(factors)
        for kind in kinds:
            found += [(each, factor * weight) for each, weight in kind(known).operations]
    # Drawn apart, so that the other seeds keep their draws, which tests replay.
    if Random(f"{world.rng.getstate()[1][0]}/small writes").random() < _SMALL_WRITES_SHARE:
        found += SmallWriteCallers(known).operations
    return tuple(found)
