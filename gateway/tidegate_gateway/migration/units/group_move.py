"""Moves a group that gateways forward from its source to this cluster, with its members.

A fence holds the group's requests, so that no commit reaches the source any more.  Then one log
entry takes over the group's offsets and members, which continue at the gateways.  If the move is
not complete within COMMAND_SECONDS, the fence is lifted, and the group stays at the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.groups.group_offsets import GroupOffset, committed, described
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events.links import ForwardedMember
from tidegate_coordination.rules.consumer_groups.offsets import OffsetToCommit
from tidegate_coordination.rules.migration.group_moves import (
    FenceGroups,
    GroupToMove,
    MoveGroups,
    UnfenceGroups,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic

from ..fence_ages import COMMAND_SECONDS
from .group_plan import GroupPlan, planned, unrest_of

COPY_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05


class Moved(NamedTuple):
    """The outcome of a group's move.

    offsets: how many are here now.  members: how many continue.  problem: why the group was not
    moved, or "".

    joins_again: whether its members must join again.  left: the number of offsets in topics that
    the link does not have.  needs_start: whether its consumers were stopped before, and must be
    started here.
    """

    group: str
    offsets: int
    problem: str
    members: int = 0
    joins_again: bool = False
    left: int = 0
    needs_start: bool = False


class GroupMove:
    """See the module's head.  source: a client with the right to describe groups."""

    def __init__(self, coordinator: Coordinator, link: str, source: ClassicCluster) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._link = link
        self._source = source

    async def move(self, group_id: str) -> Moved:
        """Move one group.

        Raises:
          CoordinatorUnavailable: the log does not answer.  Gateways lift the fence, if it stands.
        """
        try:
            problem = await self._unready(group_id)
            if problem:
                return Moved(group_id, 0, problem)
            return await self._fenced(group_id)
        except ClassicError as error:
            return Moved(group_id, 0, str(error))

    async def _unready(self, group_id: str) -> str:
        """Wait for the slow steps before the fence; return why a fence would be useless, or ""."""
        unrest = unrest_of(await described(self._source, group_id))
        if unrest:
            return unrest
        found = await committed(self._source, group_id)
        offsets = await of_link(self._state, self._link, self._source, found)
        with trio.move_on_after(COPY_SECONDS):
            await _copied(self._coordinator, self._link, offsets)
        late = first_late(self._state, self._link, offsets)
        return late_text(late) if late is not None else ""

    async def _fenced(self, group_id: str) -> Moved:
        number = await self._coordinator.propose(FenceGroups(self._link, (group_id,)))
        if isinstance(number, str):
            return Moved(group_id, 0, number)
        moved = Moved(group_id, 0, "it did not get on")
        try:
            with trio.move_on_after(COMMAND_SECONDS):
                moved = await self._moved(number, group_id)
        except ProposalFailed:
            moved = Moved(group_id, 0, "its members and offsets do not fit into the metadata log")
        finally:
            if moved.problem:
                with trio.CancelScope(shield=True), trio.move_on_after(COMMAND_SECONDS):
                    await self._coordinator.propose(UnfenceGroups(number, moved.problem))
        if moved.problem and group_id in self._state.link_groups.moved.get(self._link, ()):
            return self._as_moved(group_id)  # the move was committed, but its answer was lost
        return moved

    def _as_moved(self, group_id: str) -> Moved:
        group = self._state.groups.get(group_id)
        if group is None:
            return Moved(group_id, 0, "")
        return Moved(group_id, sum(map(len, group.offsets.values())), "", len(group.members))

    async def _moved(self, number: int, group_id: str) -> Moved:
        seen = await self._reached(number)
        if seen is None:
            return Moved(group_id, 0, "the fence was lifted")
        found = await group_at_source(self._coordinator, self._link, self._source, group_id, seen)
        if isinstance(found, str):
            return Moved(group_id, 0, found)
        problem = await self._coordinator.propose(MoveGroups(number, (found.group,)))
        if problem:
            return Moved(group_id, 0, problem)
        plan, offsets = found.plan, len(found.group.offsets)
        return Moved(group_id, offsets, "", plan.members, plan.joins_again, found.left)

    async def _reached(self, number: int) -> Sequence[ForwardedMember] | None:
        """Wait until all gateways have reached the fence; return the members that they saw."""
        while True:
            await self._coordinator.catch_up()
            fence = self._state.link_groups.fences.get(number)
            if fence is None:
                return None
            if not any(self._state.gateways.is_live(each) for each in fence.awaited):
                return list(fence.members)
            await trio.sleep(LOOK_SECONDS)


class GroupAtSource(NamedTuple):
    """A fenced group.  left: the number of offsets in topics that the link does not have."""

    group: GroupToMove
    plan: GroupPlan
    left: int


async def group_at_source(
    coordinator: Coordinator,
    link: str,
    source: ClassicCluster,
    group_id: str,
    seen: Sequence[ForwardedMember],
) -> GroupAtSource | str:
    """Return a group's state to move here, or why it cannot move now, for a person.

    This waits until the copies have reached the group's offsets.  seen: see planned().

    Raises:
      ClassicError: the source does not say.
      CoordinatorUnavailable: the log does not answer.
    """
    plan = planned(await described(source, group_id), seen)
    if isinstance(plan, str):
        return plan
    found = await committed(source, group_id)
    offsets = await of_link(coordinator.state, link, source, found)
    await _copied(coordinator, link, offsets)
    again = planned(await described(source, group_id), seen)
    if isinstance(again, str):
        return again
    if again != plan:
        return "its members at the source have changed: try again"
    group = GroupToMove(plan.record, tuple(_to_commit(coordinator.state, offsets)))
    return GroupAtSource(group, plan, len(found) - len(offsets))


async def _copied(coordinator: Coordinator, link: str, offsets: Sequence[GroupOffset]) -> None:
    while first_late(coordinator.state, link, offsets) is not None:
        await trio.sleep(LOOK_SECONDS)
        await coordinator.catch_up()


async def of_link(
    state: ClusterState, link: str, source: ClassicCluster, offsets: Sequence[GroupOffset]
) -> list[GroupOffset]:
    """Return the offsets in topics that a link mirrors, or that were switched.

    Raises:
      ClassicError: the source does not say.
    """
    names = {each.topic for each in offsets}
    metadata = await source.refresh(names)
    known = state.links.by_name.get(link)
    cluster_id = known.cluster_id if known is not None else ""
    theirs = {
        name: topic_id_of(found, cluster_id)
        for name in names
        if (found := metadata.topics.get(name)) is not None and not found.error_code
    }
    return [
        each
        for each in offsets
        if (topic := topic_of_link(state, link, each.topic)) is not None
        and theirs.get(each.topic) == topic.shown_id
        and each.partition < len(topic.partition_numbers)
    ]


def topic_of_link(state: ClusterState, link: str, name: str) -> Topic | None:
    """Return a topic that a link mirrors, or that was switched from its source."""
    topic = state.topics.by_name.get(name)
    if topic is None:
        return None
    switched = state.switches.switched.get(topic.topic_id)
    is_own = topic.link == link or (switched is not None and switched.link == link)
    return topic if is_own else None


def first_late(
    state: ClusterState, link: str, offsets: Sequence[GroupOffset]
) -> GroupOffset | None:
    """Return an offset that the copy has not reached, or None.

    With such an offset a consumer would have a position after the log end offset.
    """
    for each in offsets:
        topic = topic_of_link(state, link, each.topic)
        if topic is None:
            continue
        number = topic.partition_numbers[each.partition]
        if state.partitions[number].next_offset < each.offset:
            return each
    return None


def late_text(late: GroupOffset) -> str:
    """Return a text about an offset that the copy has not reached."""
    return f"the copy of {late.topic}-{late.partition} has not reached offset {late.offset}"


def _to_commit(state: ClusterState, offsets: Sequence[GroupOffset]) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            state.topics.by_name[each.topic].topic_id,
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata,
        )
        for each in offsets
        if each.topic in state.topics.by_name
    ]
