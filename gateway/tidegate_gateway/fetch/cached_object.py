"""An object in the reader's cache by its WalName.

This gateway wrote the object, or its bytes are in the metadata log.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.range_cache import RangeCache

from .prepared_runs import PreparedRun


@dataclass(slots=True)
class CachedObject:
    """The body of an object, as a whole.

    prepared: its runs by position, each added at its first read.  At this time its offsets are
      written into the body; no CRC covers these bytes.  is_stamped: time stamps and CRCs were
      written into the body, too, so it differs from the stored object.
    """

    object_key: str
    body: bytearray
    prepared: dict[int, PreparedRun] = field(default_factory=dict[int, PreparedRun])
    is_stamped: bool = False


def inlined_object(
    state: ClusterState, cache: RangeCache[object], row: RunRow
) -> CachedObject | None:
    """Cache the object of a run whose bytes are in the state, and in no store; None for others."""
    inlined = state.objects.inlined
    body = inlined.body(row.object_number) if inlined else None
    if body is None:
        return None
    name = state.objects.name(row.object_number)
    made = CachedObject(object_key(state, name), bytearray(body))
    cache.put(name, made, len(body), hot=True)
    return made
