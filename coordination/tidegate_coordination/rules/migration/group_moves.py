"""Moves of forwarded consumer groups to this cluster; see state/migration/source_groups.py.

A move takes the group's claim, so that no gateway continues with an older machine of the group. The
command that moves the group is no gateway, so any gateway may take the claim next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ...events.cluster import ClaimTaken, Event
from ...events.groups import CommittedOffset, GroupChanged, OffsetsCommitted
from ...events.links import (
    ForwardedMember,
    GroupFenceReached,
    GroupsFenced,
    GroupsMoved,
    GroupsUnfenced,
)
from ...state.cluster import ClusterState
from ...state.migration.source_groups import GroupFence
from ..consumer_groups.groups import group_claim, group_scope, offsets_scope
from ..consumer_groups.offsets import OffsetToCommit, partition_exists
from ..proposal import GATEWAYS, TOPICS, Decided, View
from .obstacles import obstacle_of

MAX_GROUPS: Final = 100
"""Of one fence."""
MAX_MEMBERS: Final = 2_000
"""That a gateway tells of a fence, the last heard first: an entry of the log must hold them."""
MAX_OFFSETS: Final = 10_000
"""The most offsets of one move: an entry of the log must hold them."""
_READS: Final = frozenset({TOPICS, GATEWAYS})
_TOPICS: Final = frozenset({TOPICS})


@dataclass(frozen=True, slots=True)
class FenceGroups:
    """Begin to move groups, and transactional ids by the names that the link has for them.

    Answer: the fence's number, or why there is none, for a person.
    """

    link: str
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...] = ()
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[int | str]:
        """See the class."""
        state, ids = view.state, self.transactional_ids
        refusal = obstacle_of(state, self.link) or self._misfit(state) or _misfit_ids(state, self)
        if refusal:
            return Decided((), refusal)
        number = state.link_groups.next_fence
        event = GroupsFenced(number, self.link, self.groups, transactional_ids=ids)
        return Decided((event,), number)

    def _misfit(self, state: ClusterState) -> str:
        table, count = state.link_groups, len(self.groups)
        is_none = not count and not self.transactional_ids
        if is_none or len(set(self.groups)) < count or count > MAX_GROUPS:
            return f"name each group once, and up to {MAX_GROUPS}"
        for each in self.groups:
            if table.link_of(each) != self.link:
                return f"group {each} is not one that gateways forward to the source"
            if table.fence_of(each) is not None:
                return f"group {each} is being moved already"
        return ""


def _misfit_ids(state: ClusterState, wanted: FenceGroups) -> str:
    ids, table = wanted.transactional_ids, state.link_groups
    if len(set(ids)) < len(ids):
        return "name each transactional id once"
    for each in ids:
        if each not in state.links.by_name[wanted.link].transactional_ids:
            return f"the link does not forward transactional ids by the name {each}"
        if each in table.moved_ids.get(wanted.link, ()):
            return f"the transactional ids {each} have moved already"
        if any(each in fence.ids for fence in table.fences.values()):
            return f"the transactional ids {each} are being moved already"
    return ""


@dataclass(frozen=True, slots=True)
class ReachGroupFence:
    """This gateway forwards nothing of the groups of a fence any more.  Answer: None."""

    fence: int
    members: tuple[ForwardedMember, ...]
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        fence = view.state.link_groups.fences.get(self.fence)
        if fence is None or view.writer not in fence.awaited:
            return Decided((), None)
        members = self.members[:MAX_MEMBERS]
        return Decided((GroupFenceReached(self.fence, view.writer, members),), None)


@dataclass(frozen=True, slots=True)
class UnfenceGroups:
    """Leave the groups of a fence at their source.  Answer: whether there was the fence."""

    fence: int
    reason: str
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        fence = view.state.link_groups.fences.get(self.fence)
        if fence is None or fence.switch:  # the fence of the topics lifts this one, too
            return Decided((), False)
        return Decided((GroupsUnfenced(self.fence, self.reason),), True)


@dataclass(frozen=True, slots=True)
class GroupToMove:
    """record: its state; without members if they have to join again.  offsets: to commit."""

    record: GroupChanged
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class MoveGroups:
    """Make the groups of a fence this cluster's.

    Answer: "", or why they were not moved, for a person.
    """

    fence: int
    groups: tuple[GroupToMove, ...]

    @property
    def reads(self) -> frozenset[str]:
        """The fence, the gateways that it waits for, and the groups."""
        return _READS | self.writes

    @property
    def writes(self) -> frozenset[str]:
        """The fence and the groups."""
        return _TOPICS | group_scopes(self.groups)

    def decide(self, view: View) -> Decided[str]:
        """See the class."""
        fence = view.state.link_groups.fences.get(self.fence)
        if fence is None:
            return Decided((), "the fence was lifted")
        if fence.ids or fence.switch:
            return Decided((), "its transactional ids move with their topics")
        text = unreached_groups(view.state, fence) or unfit_groups(view.state, fence, self.groups)
        return Decided((), text) if text else Decided(moved_groups(view, fence, self.groups), "")


def unfit_groups(state: ClusterState, fence: GroupFence, groups: Sequence[GroupToMove]) -> str:
    """Return why groups cannot move with a fence; "" for nothing."""
    if sorted(each.record.group_id for each in groups) != sorted(fence.groups):
        return "these are not the groups of the fence"
    offsets = [each for group in groups for each in group.offsets]
    if len(offsets) > MAX_OFFSETS:
        return f"there are {len(offsets)} offsets: a move takes up to {MAX_OFFSETS}"
    if not all(partition_exists(state, each) for each in offsets):
        return "a topic is gone"
    here = [each for each in fence.groups if state.groups.get(each) is not None]
    return f"group {here[0]} is here already" if here else ""


def moved_groups(view: View, fence: GroupFence, groups: Sequence[GroupToMove]) -> list[Event]:
    """Return the events that move the groups of a fence here."""
    events: list[Event] = [GroupsMoved(fence.number)]
    for each in groups:
        events += _moved(view, each)
    return events


def group_scopes(groups: Sequence[GroupToMove]) -> frozenset[str]:
    """Return the scopes that a move of groups writes, beside that of the fence."""
    ids = [each.record.group_id for each in groups]
    return frozenset(scope(each) for each in ids for scope in (group_scope, offsets_scope))


def unreached_groups(state: ClusterState, fence: GroupFence) -> str:
    """Return which gateways may still have commits without an answer; "" for none."""
    gateways = state.gateways
    late = sorted(each for each in fence.awaited if gateways.is_live(each))
    nodes = ", ".join(str(gateways.live[each].node_id) for each in late)
    return f"gateway {nodes} did not answer" if late else ""


def _moved(view: View, group: GroupToMove) -> Iterator[Event]:
    group_id, name = group.record.group_id, group_claim(group.record.group_id)
    last = view.state.claims.get(name)
    epoch = (last.epoch if last is not None else 0) + 1
    yield ClaimTaken(name, view.writer, epoch)
    yield msgspec.structs.replace(group.record, claim_epoch=epoch)
    offsets = _committed(group.offsets, view.log_time_ms)
    if offsets:
        yield OffsetsCommitted(group_id, epoch, offsets)


def _committed(offsets: Sequence[OffsetToCommit], now_ms: int) -> tuple[CommittedOffset, ...]:
    return tuple(
        CommittedOffset(
            each.topic_id,
            each.partition,
            each.offset,
            each.leader_epoch,
            each.metadata,
            now_ms,
        )
        for each in offsets
    )
