"""Moves of forwarded consumer groups from their source to this cluster; see state/link_groups.py.

A move takes the group's claim, so that no gateway goes on with an older machine of the group.  The
command that moves it is no gateway: then any gateway may take the claim next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..events.cluster import ClaimTaken, Event
from ..events.groups import CommittedOffset, GroupChanged, OffsetsCommitted
from ..events.links import (
    ForwardedMember,
    GroupFenceReached,
    GroupsFenced,
    GroupsMoved,
    GroupsUnfenced,
)
from ..state.link_groups import GroupFence
from .consumer_groups.groups import group_claim, group_scope, offsets_scope
from .consumer_groups.offsets import OffsetToCommit, partition_exists
from .proposal import GATEWAYS, TOPICS, Decided, View
from .switches import obstacle_of

MAX_GROUPS: Final = 100
"""Of one fence."""
MAX_MEMBERS: Final = 2_000
"""That a gateway tells of a fence, the last heard first: an entry of the log must hold them."""
MAX_OFFSETS: Final = 10_000
"""Of one move: an entry of the log must hold it."""
_READS: Final = frozenset({TOPICS, GATEWAYS})
_TOPICS: Final = frozenset({TOPICS})


@dataclass(frozen=True, slots=True)
class FenceGroups:
    """Begin to move groups.  Answer: the fence's number, or why there is none, for a person."""

    link: str
    groups: tuple[str, ...]
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[int | str]:
        """See the class."""
        state, table = view.state, view.state.link_groups
        refusal = obstacle_of(state, self.link)
        if refusal:
            return Decided((), refusal)
        if not 0 < len(set(self.groups)) == len(self.groups) <= MAX_GROUPS:
            return Decided((), f"name each group once, and up to {MAX_GROUPS}")
        for each in self.groups:
            if table.link_of(each) != self.link:
                return Decided((), f"group {each} is not one that gateways forward to the source")
            if table.fence_of(each) is not None:
                return Decided((), f"group {each} is being moved already")
        number = table.next_fence
        return Decided((GroupsFenced(number, self.link, self.groups),), number)


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
        if self.fence not in view.state.link_groups.fences:
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
        """The fence, whom it waits for, and the groups."""
        return _READS | self.writes

    @property
    def writes(self) -> frozenset[str]:
        """The fence and the groups."""
        ids = [each.record.group_id for each in self.groups]
        return _TOPICS | {group_scope(each) for each in ids} | {offsets_scope(each) for each in ids}

    def decide(self, view: View) -> Decided[str]:
        """See the class."""
        fence = view.state.link_groups.fences.get(self.fence)
        if fence is None:
            return Decided((), "the fence was lifted")
        text = unreached_groups(view, fence) or self._unfit(view, fence)
        if text:
            return Decided((), text)
        events: list[Event] = [GroupsMoved(self.fence)]
        for each in self.groups:
            events += _moved(view, each)
        return Decided(events, "")

    def _unfit(self, view: View, fence: GroupFence) -> str:
        if sorted(each.record.group_id for each in self.groups) != sorted(fence.groups):
            return "these are not the groups of the fence"
        offsets = [each for group in self.groups for each in group.offsets]
        if len(offsets) > MAX_OFFSETS:
            return f"there are {len(offsets)} offsets: a move takes up to {MAX_OFFSETS}"
        if not all(partition_exists(view.state, each) for each in offsets):
            return "a topic is gone"
        here = [each for each in fence.groups if view.state.groups.get(each) is not None]
        return f"group {here[0]} is here already" if here else ""


def unreached_groups(view: View, fence: GroupFence) -> str:
    """Return which gateways may still have commits without an answer; "" for none."""
    gateways = view.state.gateways
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
