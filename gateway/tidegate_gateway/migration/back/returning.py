"""This gateway's part in returning the topics of a link's fences to their source.

Such a fence makes its topics mirrored at once, so they take no more records here.  The topics
return once all their records are at the source (writing.py) and no gateway has a batch without an
answer.  Any gateway can complete the return.  If a return makes no progress, fences.py lifts its
fence.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import Place, SourceEnd, source_ends
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.returns import ReturnTopics, unreversed
from tidegate_coordination.rules.migration.switches import LiftFence, unreached
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.migration.switches import Fence
from tidegate_coordination.state.topics import Topic

from ..fence_ages import TOPICS, FenceAges
from ..switch.source_fence import FENCED_LIMIT, limits_of
from ..switch.switching import IDLE_SECONDS, LOOK_SECONDS, places_of, topics_of

_log = structlog.get_logger("tidegate.links")


class Returning:
    """Works on returns: each round reads the fences, and does this gateway's part."""

    def __init__(
        self, coordinator: Coordinator, link: Link, cluster: ClassicCluster, ages: FenceAges
    ) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._link = link
        self._cluster = cluster
        self._ages = ages

    async def run(self) -> None:
        """Work on the link's fences, until cancelled."""
        while True:
            fences = [
                each for each in self._state.switches.of_link(self._link.name) if each.is_back
            ]
            for fence in fences:
                await self._work_on(fence)
            await trio.sleep(LOOK_SECONDS if fences else IDLE_SECONDS)

    async def _work_on(self, fence: Fence) -> None:
        if not self._ages.is_my_turn(fence):
            return
        if unreached(self._state, fence) or unreversed(self._state, fence):
            return
        try:
            with trio.move_on_after(TOPICS.own):
                await self._return(fence)
        except (CoordinatorUnavailable, ProposalFailed, ClassicError) as error:
            _log.warning("a return does not go on", link=self._link.name, error=str(error))
            await trio.sleep(IDLE_SECONDS)

    async def _return(self, fence: Fence) -> None:
        """Return the topics to the source, with the leader epochs of the source's leaders.

        Raises:
          ClassicError: the source lacks a topic, does not tell all leader epochs, or does not take
            writes yet.
        """
        topics = topics_of(self._state, fence)
        metadata = await self._cluster.refresh([each.name for each in topics])
        for topic in topics:
            there = metadata.topics.get(topic.name)
            if there is None or topic_id_of(there, self._link.cluster_id) != topic.shown_id:
                raise BrokerUnreachable(f"the source has no topic {topic.name} any more")
        names = sorted(each.name for each in topics)
        limits = await limits_of(self._cluster, names)
        closed = [each for each in names if limits.get(each, FENCED_LIMIT) == FENCED_LIMIT]
        if closed:  # source_watch.py opens it
            raise BrokerUnreachable(f"the source takes no writes to {closed[0]} yet")
        ends = await source_ends(self._cluster, places_of(topics))
        reason, epochs = self._compared(topics, ends)
        reason = reason or await self._coordinator.propose(ReturnTopics(fence.number, epochs))
        if not reason:
            _log.info("topics are their source's again", link=fence.link, topics=names)
        elif await self._coordinator.propose(LiftFence(fence.number, reason)):
            _log.warning("a return is given up", link=fence.link, topics=names, reason=reason)

    def _compared(
        self, topics: list[Topic], ends: Mapping[Place, SourceEnd | str]
    ) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return which records the source has lost, or "", and the source's leader epochs.

        Raises:
          BrokerUnreachable: the source does not tell all ends.
        """
        epochs: list[tuple[int, int]] = []
        for topic in topics:
            for index, number in enumerate(topic.partition_numbers):
                end, own = ends[topic.name, index], self._state.partitions[number].next_offset
                if not isinstance(end, SourceEnd):
                    raise BrokerUnreachable(f"{topic.name}-{index}: {end}")
                if end.offset < own:
                    where = f"{topic.name}-{index}"
                    return f"{where} ends at {end.offset} at its source, and here at {own}", ()
                epochs.append((number, end.leader_epoch))
        return "", tuple(epochs)
