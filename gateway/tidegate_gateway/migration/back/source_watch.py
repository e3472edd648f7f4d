"""Watches the source of a link for stray records after a switch.

If a client writes records to the source of a switched topic, these are strays: this cluster does
not have them.  The gateway only logs them as an error.  The gateway also makes max.message.bytes at
the source agree with the log.  A late gateway may have fenced a topic whose fence was lifted, and
an operator may have removed the fence of a switched topic.  If gateways write a topic back, the
gateway opens the source for it, unless the source has strays: then nothing can be written back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Final

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import Place, source_ends
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.switches import unfinished_switches
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.migration.switches import Switched
from tidegate_coordination.state.topics import Topic

from ...fetch.log_reader import LogReader
from ..assignment import candidates, looks_after
from ..switch.source_fence import FENCED_LIMIT, limits_of, set_limits
from .source_tail import SourceTails

_log = structlog.get_logger("tidegate.links")

LOOK_SECONDS: Final = 1.0
LOOKS_A_ROUND: Final = 8
"""Many topics are looked at in portions, each topic within so many looks."""
MIN_PORTION: Final = 20
"""Topics of a look, at least."""
CALL_SECONDS: Final = 2.0
WATCHED_MS: Final = 3_600_000
"""So long, in log time, a topic whose fence was lifted is looked after."""


class SourceWatch:
    """See the module's head.  strays: records of the source that are not here, by partition."""

    def __init__(
        self, coordinator: Coordinator, reader: LogReader, link: Link, cluster: ClassicCluster
    ) -> None:
        self.strays: dict[Place, int] = {}
        self._coordinator = coordinator
        self._state = coordinator.state
        self._link = link
        self._cluster = cluster
        self._tails = SourceTails(coordinator.state, reader, cluster)
        self._looked_at = ""  # the last topic of the last look

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            if not self._is_mine:
                self.strays = {}
                continue
            try:
                await self._look()
            except (ClassicError, CoordinatorUnavailable) as error:
                _log.warning("a source is not watched", link=self._link.name, error=str(error))

    @property
    def _is_mine(self) -> bool:
        is_held = self._link.name in self._state.switches.on_hold
        gateways = candidates(self._state)
        return not is_held and looks_after(self._link.name, self._coordinator.incarnation, gateways)

    async def _look(self) -> None:
        switched = list(unfinished_switches(self._state, self._link.name).values())
        watched = {each.name: each for each, _ in switched}
        watched |= {each.name: each for each in reopened_topics(self._state, self._link.name)}
        self.strays = {place: count for place, count in self.strays.items() if place[0] in watched}
        if not watched:
            return
        names = portion(sorted(watched), self._looked_at)
        self._looked_at = names[-1]
        metadata = await self._cluster.refresh(names)
        there = {
            name
            for name in names
            if (found := metadata.topics.get(name)) is not None
            and topic_id_of(found, self._link.cluster_id) == watched[name].shown_id
        }
        limits = await limits_of(self._cluster, sorted(there))
        self._tails.begin_look({each.topic_id for each in watched.values()})
        unknown = await self._look_for_strays(
            [each for each in switched if each[0].name in there and _is_closed(each, limits)], names
        )
        await self._keep_fences(limits, unknown | {name for name, _ in self.strays})

    async def _look_for_strays(
        self, switched: list[tuple[Topic, Switched]], names: Sequence[str]
    ) -> set[str]:
        """Count the strays of topics; return the topics whose number of strays is unknown.

        names: of all topics of this look.
        """
        places = {
            (topic.name, index): (topic, each)
            for topic, each in switched
            for index in range(len(each.ends))
        }
        ends = await source_ends(self._cluster, places)
        if any(each.has_reversed for _, each in switched):
            # Another gateway may have written back batches that this replica has not read yet.
            await self._coordinator.catch_up()
        found: dict[Place, int] = {}
        unknown: set[str] = set()
        for place, end in ends.items():
            found[place] = self.strays.get(place, 0)
            if isinstance(end, str):
                continue
            first = await self._first_stray(*places[place], place[1], end.offset)
            if first is None:
                unknown.add(place[0])
                continue
            found[place] = max(end.offset - first, 0)
            self._tell(place, first, found[place])
        others = {place: count for place, count in self.strays.items() if place[0] not in names}
        self.strays = others | {place: count for place, count in found.items() if count}
        return unknown

    async def _first_stray(
        self, topic: Topic, switched: Switched, index: int, end: int
    ) -> int | None:
        """Return the first stray offset of the source; its end or more if none; None if unknown.

        end: of the source's log.
        """
        if not switched.has_reversed:
            return switched.ends[index]
        # The log does not know exactly how far gateways wrote back.
        base = (switched.reached or switched.ends)[index]
        return await self._tails.limit(topic, index, base, end)

    def _tell(self, place: Place, first: int, count: int) -> None:
        if count and self.strays.get(place) != count:
            _log.error(
                "the source has records that were written after the switch",
                link=self._link.name,
                partition=f"{place[0]}-{place[1]}",
                first_offset=first,
                records=count,
            )

    async def _keep_fences(self, limits: dict[str, str], closed: Collection[str]) -> None:
        """Set max.message.bytes at the source so that topics take writes, or none, as the log says.

        limits: the present ones at the source.  closed: topics not to open for writing back.
        """
        await self._coordinator.catch_up()
        wrong = wrong_limits(self._state, self._link.name, limits, closed)
        if not wrong:
            return
        with trio.move_on_after(CALL_SECONDS):
            await set_limits(self._cluster, wrong)
            back = {topic.name for topic in _reversing(self._state, self._link.name)}
            opened = {name: limit for name, limit in wrong.items() if name in back}
            mended = {name: limit for name, limit in wrong.items() if name not in back}
            if opened:
                _log.info("a source is opened to write back", link=self._link.name, limits=opened)
            if mended:
                _log.warning("the source's fences are mended", link=self._link.name, limits=mended)


def _is_closed(switched: tuple[Topic, Switched], limits: Mapping[str, str]) -> bool:
    """Return whether no gateway writes to a topic of the source.  limits: those at the source."""
    topic, each = switched
    return not each.reached or limits.get(topic.name) == FENCED_LIMIT


def _reversing(state: ClusterState, link: str) -> list[Topic]:
    found = unfinished_switches(state, link).values()
    return [topic for topic, each in found if each.reached]


def portion(names: Sequence[str], after: str) -> Sequence[str]:
    """Return the topics of a look.

    names: of all, in order.  after: the last one of the look before.
    """
    size = max(MIN_PORTION, ceil(len(names) / LOOKS_A_ROUND))
    start = bisect_right(names, after)
    if len(names) <= size or start == len(names):
        start = 0
    return names[start : start + size]


def reopened_topics(state: ClusterState, link: str) -> list[Topic]:
    """Return the topics of a link whose fence was lifted."""
    since_ms = state.log_time_ms - WATCHED_MS
    recent = (key for key, each in state.switches.reopened.items() if each.at_ms > since_ms)
    found = (state.topics.by_id.get(each) for each in recent)
    return [each for each in found if each is not None and each.link == link]


def wrong_limits(
    state: ClusterState, link: str, limits: dict[str, str], closed: Collection[str]
) -> dict[str, str]:
    """Return the max.message.bytes to set at the source, by topic.

    limits: the present ones at the source.  closed: topics not to open for writing back.
    """
    wrong: dict[str, str] = {}
    for name, (_, switched) in unfinished_switches(state, link).items():
        if not switched.reached:
            wrong[name] = FENCED_LIMIT
        elif limits.get(name) == FENCED_LIMIT and name not in closed:  # gateways write back to it
            wrong[name] = switched.limit
    for topic in reopened_topics(state, link):
        is_free = state.switches.fence_of(topic.topic_id) is None
        if is_free and limits.get(topic.name) == FENCED_LIMIT:
            wrong[topic.name] = state.switches.reopened[topic.topic_id].limit
    return {name: limit for name, limit in wrong.items() if limits.get(name, limit) != limit}
