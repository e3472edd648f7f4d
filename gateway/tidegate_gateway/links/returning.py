"""Returns the topics of a link's fences to their source at this gateway.

Such a fence makes its topics mirrored at once, so what they have here does not grow any more.  Once
all of it is at the source (reversing.py) and no gateway has a batch without an answer, they are the
source's again.  Any gateway can do that; fence_watch.py lifts a fence that does not get on.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
import trio

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.errors import BrokerUnreachable, ClassicError
from tidegate_coordination.classic.metadata import topic_id_of
from tidegate_coordination.classic.source_bounds import Place, SourceEnd, source_ends
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.returns import ReturnTopics, unreversed
from tidegate_coordination.rules.switches import LiftFence, unreached
from tidegate_coordination.state.links import Link
from tidegate_coordination.state.switches import Fence
from tidegate_coordination.state.topics import Topic

from .assignment import candidates, looks_after
from .source_fence import FENCED_LIMIT, limits_of
from .switching import IDLE_SECONDS, LOOK_SECONDS, STALL_SECONDS, places_of, topics_of

_log = structlog.get_logger("tidegate.links")


class Returning:
    """See the module's head."""

    def __init__(self, coordinator: Coordinator, link: Link, cluster: ClassicCluster) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._link = link
        self._cluster = cluster
        self._seen: dict[int, float] = {}

    async def run(self) -> None:
        """Work on the link's fences, until cancelled."""
        while True:
            fences = [
                each for each in self._state.switches.of_link(self._link.name) if each.is_back
            ]
            now = trio.current_time()
            self._seen = {each.number: self._seen.get(each.number, now) for each in fences}
            for fence in fences:
                await self._work_on(fence)
            await trio.sleep(LOOK_SECONDS if fences else IDLE_SECONDS)

    async def _work_on(self, fence: Fence) -> None:
        gateways = candidates(self._state)
        is_mine = looks_after(self._link.name, self._coordinator.incarnation, gateways)
        # Should the one that looks after the link not get on, half of the time is left for others.
        if not is_mine and self._age(fence) <= STALL_SECONDS / 2:
            return
        if unreached(self._state, fence) or unreversed(self._state, fence):
            return
        try:
            with trio.move_on_after(STALL_SECONDS):
                await self._return(fence)
        except (CoordinatorUnavailable, ProposalFailed, ClassicError) as error:
            _log.warning("a return does not go on", link=self._link.name, error=str(error))
            await trio.sleep(IDLE_SECONDS)

    def _age(self, fence: Fence) -> float:
        return trio.current_time() - self._seen[fence.number]

    async def _return(self, fence: Fence) -> None:
        """Return the topics, with the leader epochs that the source's leaders have.

        Raises:
          ClassicError: the source does not say all of them.
        """
        topics = topics_of(self._state, fence)
        metadata = await self._cluster.refresh([each.name for each in topics])
        for topic in topics:
            there = metadata.topics.get(topic.name)
            if there is None or topic_id_of(there, self._link.cluster_id) != topic.topic_id:
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
        """Return which records the source has lost since they were written back, "" for none, and
        the leader epochs.

        Raises:
          BrokerUnreachable: the source does not say all of them.
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
