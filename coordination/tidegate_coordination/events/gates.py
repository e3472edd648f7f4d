"""The levels that events need, as their classes say; see metadata_versions.py and fields.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .cluster import Event, MetadataVersionSet
from .entries import EVENTS
from .fields import Since, facts_of, structs_of
from .level_gates import LevelGates
from .metadata_versions import FIRST, NEWEST

EVENT_LEVELS: Final[dict[type[Event], int]] = {
    kind: kind.level for kind in EVENTS if kind.level > FIRST
}
FIELD_LEVELS: Final[dict[tuple[type[msgspec.Struct], str], int]] = {
    (struct, name): since.level
    for kind in EVENTS
    for struct in structs_of(kind)
    for name, since in facts_of(struct, Since)
}
"""By the class of an event, or of a value in one, and the name of the field."""
ABOVE_NEWEST: Final = frozenset[type](
    kind
    for kind in EVENTS
    if any(since.level > NEWEST for each in structs_of(kind) for _, since in facts_of(each, Since))
)
"""The events that may need a level that this release does not have; all others never do."""
GATES: Final = LevelGates(FIRST, EVENT_LEVELS, FIELD_LEVELS)


def needed_for(events: Iterable[Event]) -> int:
    """Return the level that all these events need."""
    return GATES.needed_for(events)


def allowed_to(events: Iterable[Event], present: int) -> int:
    """Return the level up to which events may go in a cluster that is at `present`.

    If the events raise the level, return the new level, as no older release folds their entry.
    """
    raised = (each.version for each in events if isinstance(each, MetadataVersionSet))
    return max(raised, default=present)
