"""Asks the leaders of sources for the end offsets of partitions, for links that forward writes.

A copy lags a moment behind its source.  But a client that asks a gateway for the end offset of a
partition, and then reads up to it, must find all records that were acknowledged before.  Kafka
Streams restores its stores in this way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import (
    Place,
    SourceEnd,
    ends_for_consumers,
    places_by_leader,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic

from ..links import RunningLink
from .write_routes import is_forwarded

ANSWER_SECONDS: Final = 5.0


class SourceEnds:
    """See the module's head.  running: the links, by name."""

    def __init__(self, state: ClusterState, running: Mapping[str, RunningLink]) -> None:
        self._state = state
        self._running = running

    def knows(self, topic: Topic) -> bool:
        """Return whether the end offsets of a topic come from its source."""
        return is_forwarded(self._state, topic)

    async def ends(
        self, asked: Mapping[Place, Topic], *, is_committed: bool
    ) -> Mapping[Place, SourceEnd]:
        """Return the ends that leaders told within ANSWER_SECONDS.

        asked: partitions with their topics.  is_committed: return last stable offsets instead.
        """
        found: dict[Place, SourceEnd] = {}
        by_link: defaultdict[str, dict[Place, Topic]] = defaultdict(dict)
        for place, topic in asked.items():
            by_link[topic.link][place] = topic
        with trio.move_on_after(ANSWER_SECONDS):
            async with trio.open_nursery() as nursery:
                for name, theirs in by_link.items():
                    source = self._source(name)
                    if source is not None:
                        asking = _Asking(source, theirs, is_committed, found)
                        nursery.start_soon(asking.run, nursery, self._running[name].link.cluster_id)
        return found

    def _source(self, link: str) -> ClassicCluster | None:
        running = self._running.get(link)
        if running is None or link in self._state.switches.on_hold:
            return None
        return running.forwards_to


class _Asking(NamedTuple):
    """The partitions of one source."""

    source: ClassicCluster
    topics: Mapping[Place, Topic]
    is_committed: bool
    found: dict[Place, SourceEnd]

    async def run(self, nursery: trio.Nursery, cluster_id: str) -> None:
        """Ask all leaders at once, since one may be down."""
        if places_by_leader(self.source, self.topics)[1]:
            with suppress(ClassicError):
                await self.source.refresh({name for name, _ in self.topics})
        same = [each for each in self.topics if self._is_same(each, cluster_id)]
        for theirs in places_by_leader(self.source, same)[0].values():
            nursery.start_soon(self._ask, theirs)

    def _is_same(self, place: Place, cluster_id: str) -> bool:
        """Return whether the source's topic is the mirrored one, not another of the same name."""
        known = self.source.metadata.topics.get(place[0])
        shown_id = self.topics[place].shown_id
        return known is not None and topic_id_of(known, cluster_id) == shown_id

    async def _ask(self, places: Iterable[Place]) -> None:
        answers = await ends_for_consumers(self.source, places, is_committed=self.is_committed)
        found = {place: each for place, each in answers.items() if not isinstance(each, str)}
        self.found.update(found)
