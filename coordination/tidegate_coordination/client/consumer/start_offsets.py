"""The offsets of a position in partitions: ListOffsets, as their leaders answer it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..cluster import ClassicCluster
from ..failed import Failed
from ..source_bounds import EARLIEST, Place, source_offsets
from .positions import Position, PositionKind


async def start_offsets(
    cluster: ClassicCluster, places: Iterable[Place], start: Position, ends: Mapping[Place, int]
) -> Mapping[Place, int]:
    """Return the offset of a position in each partition.  A time after all records is the end.

    start: no shift.

    Raises:
      Failed: a leader does not say.
    """
    places = list(places)
    if start.kind is PositionKind.OFFSET:
        return dict.fromkeys(places, start.number)
    if start.kind is PositionKind.LATEST:
        return ends
    which = start.number if start.kind is PositionKind.TIME else EARLIEST
    found = known_offsets(await source_offsets(cluster, places, which))
    return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}


def known_offsets(found: Mapping[Place, int | str]) -> dict[Place, int]:
    """Return offsets that were asked for.

    Raises:
      Failed: an offset is not known; the text says why.
    """
    known: dict[Place, int] = {}
    for (topic, index), offset in found.items():
        if isinstance(offset, str):
            raise Failed(f"{topic}, partition {index}: {offset}")
        known[topic, index] = offset
    return known
