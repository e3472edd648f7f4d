"""This gateway's part in switching the topics of a link's fences, or in lifting the fences.

Any gateway can do every step, and may repeat it: the cluster state has the progress, and the source
accepts the same change twice.  The gateway that looks after the link acts first.  If it makes no
progress, another gateway lifts the fence.

A switch has these steps.  (1) Every gateway gets the answers to the requests that it forwarded.
(2) The source is fenced, and all its leaders confirm this.  (3) The copies reach the ends of the
source's logs.  (4) A check: the leaders are still fenced, the ends are the same, and no transaction
is open, since its marker could not pass the fence.  For a moment a leader may append batches that
it checked before it was fenced.  So the ends are read twice, before and after step 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import Place, SourceEnd, source_ends
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.group_moves import GroupToMove
from tidegate_coordination.rules.migration.switches import (
    LiftFence,
    ReopenSource,
    SwitchTopics,
    unfinished,
    unreached,
)
from tidegate_coordination.rules.migration.units import IdToMove
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.migration.switches import Fence
from tidegate_coordination.state.topics import Topic

from ..fence_ages import FenceAges
from ..units.at_source import UnitAtSource
from ..units.source_producers import open_at_source
from .source_fence import FENCED_LIMIT, set_limits, unfenced

_log = structlog.get_logger("tidegate.links")

REACH_SECONDS: Final = 1.5
SETTLE_SECONDS: Final = 0.1
"""For so long after its answer to a probe a leader may append what it checked before."""
LOOK_SECONDS: Final = 0.02
IDLE_SECONDS: Final = 0.2
CALL_SECONDS: Final = 2.0


class NotYet(Exception):
    """The switch cannot continue now; the text says why, for a person."""


class Switching:
    """See the module's head.

    members: a client of the source with the right to describe groups and transactional ids; None if
    gateways forward neither.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        link: Link,
        cluster: ClassicCluster,
        members: ClassicCluster | None,
        ages: FenceAges,
    ) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._link = link
        self._cluster = cluster
        self._members = members
        self._ages = ages

    async def run(self) -> None:
        """Work on the link's fences, until cancelled."""
        while True:
            fences = [
                each for each in self._state.switches.of_link(self._link.name) if not each.is_back
            ]
            if self._link.name not in self._state.switches.on_hold:
                for fence in fences:
                    await self._work_on(fence)
            await trio.sleep(LOOK_SECONDS if fences else IDLE_SECONDS)

    async def _work_on(self, fence: Fence) -> None:
        is_late = trio.current_time() >= self._ages.deadline(fence)
        if not self._ages.is_mine(fence) and not is_late:
            return
        try:
            if fence.lifted:
                await self._reopen(fence)
            elif is_late:
                await self._lift(fence, "it took too long")
            else:
                await self._switch(fence)
        except (CoordinatorUnavailable, ProposalFailed, ClassicError) as error:
            _log.warning("a switch does not go on", link=self._link.name, error=str(error))
            await trio.sleep(IDLE_SECONDS)

    # -- forwards ----------------------------------------------------------------------------------

    async def _switch(self, fence: Fence) -> None:
        """Do all steps of a switch; lift the fence if a step fails."""
        reason = "it took too long"
        with trio.move_on_at(self._ages.deadline(fence)):
            try:
                await self._gateways_reach(fence)
                await self._fence_source(fence)
                settled_at = trio.current_time() + SETTLE_SECONDS
                while self._is_open(fence):
                    drained = await self._drained(fence, settled_at)
                    groups, ids = await self._unit(fence)
                    proposal = replace(drained, groups=groups, ids=ids)
                    reason = await self._coordinator.propose(proposal)
                    if not reason:
                        return _told("topics are switched", self._state, fence)
                    await trio.sleep(LOOK_SECONDS)
            except (NotYet, ClassicError) as error:
                reason = str(error)
        await self._coordinator.catch_up()
        if self._is_open(fence):
            await self._lift(fence, reason)
        else:
            await self._undo(fence)

    async def _undo(self, fence: Fence) -> None:
        """Open the source again if the fence was lifted before this gateway fenced the source."""
        switches = self._state.switches
        limits = [
            (topic, fence.limits[topic.topic_id])
            for topic in topics_of(self._state, fence)
            if switches.fence_of(topic.topic_id) is None and topic.topic_id in switches.reopened
        ]
        if limits:
            await self._set(limits)

    def _is_open(self, fence: Fence) -> bool:
        present = self._state.switches.fences.get(fence.number)
        return present is not None and not present.lifted

    async def _gateways_reach(self, fence: Fence) -> None:
        with trio.move_on_after(REACH_SECONDS):
            while unreached(self._state, fence):  # noqa: ASYNC110 - the log brings it
                await trio.sleep(LOOK_SECONDS)
        text = unreached(self._state, fence)
        if text:
            raise NotYet(text)

    async def _fence_source(self, fence: Fence) -> None:
        """Fence the topics at the source, and wait until every leader confirms this."""
        topics = topics_of(self._state, fence)
        await self._look_at_source(topics)
        await set_limits(self._cluster, dict.fromkeys((each.name for each in topics), FENCED_LIMIT))
        while await unfenced(self._cluster, places_of(topics)):
            await trio.sleep(LOOK_SECONDS)
            await self._look_at_source(topics)

    async def _look_at_source(self, topics: list[Topic]) -> None:
        """Read the source's metadata.

        Raises:
          NotYet: the source does not name a topic, has another topic of this name, or has another
            number of partitions.
        """
        metadata = await self._cluster.refresh([each.name for each in topics])
        for topic in topics:
            found = metadata.topics.get(topic.name)
            if found is None or found.error_code:
                raise NotYet(f"the source does not name topic {topic.name}")
            if topic_id_of(found, self._link.cluster_id) != topic.shown_id:
                raise NotYet(f"the source has another topic {topic.name} now")
            if len(found.partitions) != len(topic.partition_numbers):
                raise NotYet(f"{topic.name} has {len(found.partitions)} partitions at the source")

    async def _drained(self, fence: Fence, settled_at: float) -> SwitchTopics:
        """Wait until the copies have reached the source's ends, and these do not change any more.

        Return the proposal of the switch, without its groups and transactional ids.
        """
        topics = topics_of(self._state, fence)
        places = places_of(topics)
        while True:
            ends = known_ends(await source_ends(self._cluster, places))
            while not reached(self._state, topics, ends):  # noqa: ASYNC110 - mirrors bring it
                await trio.sleep(LOOK_SECONDS)
            text = unfinished(self._state, fence)
            if text:
                raise NotYet(text)
            await trio.sleep_until(settled_at)
            await self._look_at_source(topics)
            not_fenced = await unfenced(self._cluster, places)
            if not_fenced:
                place, text = next(iter(not_fenced.items()))
                raise NotYet(f"{place[0]}-{place[1]}: {text}")
            if known_ends(await source_ends(self._cluster, places)) == ends:
                still_open = await open_at_source(self._cluster, places)
                if still_open:
                    raise NotYet(still_open)
                epochs = epochs_of(topics, ends)
                return SwitchTopics(fence.number, by_topic(topics, ends), epochs=epochs)
            await trio.sleep(LOOK_SECONDS)

    async def _unit(self, fence: Fence) -> tuple[tuple[GroupToMove, ...], tuple[IdToMove, ...]]:
        """Return the groups and transactional ids that move with the topics.

        Raises:
          NotYet: they cannot move now.
          ClassicError: the source does not say.
        """
        if not fence.unit:
            return (), ()
        unit = self._state.link_groups.fences.get(fence.unit)
        if unit is None or self._members is None:
            raise NotYet("the fence of the groups and transactional ids was lifted")
        found = UnitAtSource(self._coordinator, self._members, unit)
        await found.look()
        if found.problem:
            raise NotYet(found.problem)
        return tuple(found.groups.values()), tuple(found.ids)

    # -- back --------------------------------------------------------------------------------------

    async def _lift(self, fence: Fence, reason: str) -> None:
        if await self._coordinator.propose(LiftFence(fence.number, reason)):
            _told("a switch is given up", self._state, fence, reason=reason)

    async def _reopen(self, fence: Fence) -> None:
        """Open the source for writes again, as before the fence."""
        topics = topics_of(self._state, fence)
        await self._set([(each, fence.limits[each.topic_id]) for each in topics])
        await self._coordinator.propose(ReopenSource(fence.number))

    async def _set(self, limits: Sequence[tuple[Topic, str]]) -> None:
        """Set the limits of topics at the source; skip topics that the source has replaced.

        Raises:
          ClassicError: the source did not take them in time.  The caller may try again.
        """
        with trio.move_on_after(CALL_SECONDS):
            metadata = await self._cluster.refresh([each.name for each, _ in limits])
            same = {
                topic.name: limit
                for topic, limit in limits
                if (found := metadata.topics.get(topic.name)) is not None
                and topic_id_of(found, self._link.cluster_id) == topic.shown_id
            }
            await set_limits(self._cluster, same)
            return
        raise BrokerUnreachable("the source did not answer in time.")


def topics_of(state: ClusterState, fence: Fence) -> list[Topic]:
    """Return the topics of a fence, without deleted ones."""
    found = (state.topics.by_id.get(each) for each in fence.limits)
    return [each for each in found if each is not None]


def places_of(topics: list[Topic]) -> list[Place]:
    """Return all partitions of topics."""
    return [(each.name, index) for each in topics for index in range(len(each.partition_numbers))]


def known_ends(answers: Mapping[Place, SourceEnd | str]) -> dict[Place, SourceEnd]:
    """Return the ends of all partitions.

    Raises:
      NotYet: the source did not tell all ends.
    """
    ends = {place: each for place, each in answers.items() if isinstance(each, SourceEnd)}
    for place, each in answers.items():
        if isinstance(each, str):
            raise NotYet(f"{place[0]}-{place[1]}: {each}")
    return ends


def reached(state: ClusterState, topics: list[Topic], ends: Mapping[Place, SourceEnd]) -> bool:
    """Return whether the copies have reached the ends of the source's logs."""
    return all(
        state.partitions[number].next_offset >= ends[topic.name, index].offset
        for topic in topics
        for index, number in enumerate(topic.partition_numbers)
    )


def by_topic(
    topics: list[Topic], ends: Mapping[Place, SourceEnd]
) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Return the end offsets in the form that the rule takes."""
    return tuple(
        (
            topic.topic_id,
            tuple(ends[topic.name, at].offset for at in range(len(topic.partition_numbers))),
        )
        for topic in topics
    )


def epochs_of(topics: list[Topic], ends: Mapping[Place, SourceEnd]) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of the source by partition number."""
    return tuple(
        (number, ends[topic.name, index].leader_epoch)
        for topic in topics
        for index, number in enumerate(topic.partition_numbers)
    )


def _told(event: str, state: ClusterState, fence: Fence, **more: str) -> None:
    names = sorted(each.name for each in topics_of(state, fence))
    _log.info(event, link=fence.link, topics=names, **more)
