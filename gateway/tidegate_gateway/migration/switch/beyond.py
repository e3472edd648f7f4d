"""Counts the offsets that a source has after the switch of topics, as a command can see them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.source_bounds import LATEST, source_offsets
from tidegate_coordination.rules.migration.switches import unfinished_switches
from tidegate_coordination.state.cluster import ClusterState


class Beyond(NamedTuple):
    """Offsets of a switched topic's source that are after the ones in the log.

    is_sure: they are strays for sure.  If not, gateways wrote back to the source, and may have
    written them.
    """

    offsets: int
    is_sure: bool


async def beyond_switch(
    source: ClassicCluster, state: ClusterState, link: str, names: Collection[str] = ()
) -> dict[str, Beyond]:
    """Return the offsets after the switch of each topic whose source has some.

    names: empty for all topics.  The source's metadata must include the topics.  Topics that
    gateways write back now are left out.

    Raises:
      ClassicError: the source does not answer.
    """
    switched = {
        name: each
        for name, (_, each) in unfinished_switches(state, link).items()
        if not each.reached and (not names or name in names)
    }
    places = {
        (name, index): end for name, each in switched.items() for index, end in enumerate(each.ends)
    }
    ends = await source_offsets(source, places, LATEST)
    counts: dict[str, int] = {}
    for place, own in places.items():
        end = ends.get(place)
        if isinstance(end, int) and end > own:
            counts[place[0]] = counts.get(place[0], 0) + end - own
    return {name: Beyond(count, not switched[name].has_reversed) for name, count in counts.items()}
