"""Switches of mirrored topics to this cluster; see state/migration/switches.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...events.cluster import Event
from ...events.links import (
    FencedTopic,
    FenceLifted,
    FenceReached,
    GroupsUnfenced,
    SourceReopened,
    SwitchesFinished,
    TopicsFenced,
    TopicsSwitched,
)
from ...state.cluster import ClusterState
from ...state.migration.switches import Fence, Switched
from ...state.topics import Topic
from ..proposal import GATEWAYS, HEADS, OBJECTS, STAGED, TOPICS, Decided, View
from .group_moves import GroupToMove, group_scopes
from .obstacles import obstacle_of
from .source_epochs import newer_epochs
from .units import IdToMove, moved_unit, unfit_unit, unready_unit

MAX_WAVE_PARTITIONS: Final = 2_000
"""A fence names no more: all of them are drained while their writers wait."""
MAX_LIMIT_CHARACTERS: Final = 20
ALONE_MS: Final = 4_000
"""After so much log time others, too, have the source of a lifted fence take writes again."""
_ALL: Final = frozenset({TOPICS, HEADS, OBJECTS, GATEWAYS})
_TOPICS: Final = frozenset({TOPICS})


@dataclass(frozen=True, slots=True)
class FenceTopics:
    """Begin to switch topics of a link.

    topics: their ids, with the max.message.bytes that is set for each at the source, "" for none.
    unit: the fence, already at rest, of groups and transactional ids that move with them; 0: none.
    Answer: the number of the fence, or why there is none, for a person.
    """

    link: str
    topics: tuple[tuple[bytes, str], ...]
    unit: int = 0
    reads: frozenset[str] = field(default=_ALL, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[int | str]:
        """See the class."""
        refusal = _not_fenced(view.state, self.link, self.topics)
        if not refusal and self.unit:
            refusal = unready_unit(view.state, self.link, self.unit)
        if refusal:
            return Decided((), refusal)
        number = view.state.switches.next_fence
        topics = tuple(FencedTopic(*each) for each in self.topics)
        return Decided((TopicsFenced(number, self.link, topics, unit=self.unit),), number)


def unfinished_switches(state: ClusterState, link: str) -> dict[str, tuple[Topic, Switched]]:
    """Return the topics of a link that were switched, and whose source is not forgotten."""
    return {
        topic.name: (topic, each)
        for topic_id, each in state.switches.switched.items()
        if each.link == link
        and not each.is_finished
        and (topic := state.topics.by_id.get(topic_id)) is not None
    }


def _not_fenced(state: ClusterState, link: str, topics: Sequence[tuple[bytes, str]]) -> str:
    obstacle = obstacle_of(state, link)
    if obstacle:
        return obstacle
    if not topics or len(dict(topics)) < len(topics):
        return "name each topic once, and one at least"
    partitions = 0
    for topic_id, limit in topics:
        topic = state.topics.by_id.get(topic_id)
        if topic is None or topic.link != link:
            return "one of the topics is not mirrored any more"
        if len(limit) > MAX_LIMIT_CHARACTERS or not (limit.isdecimal() or not limit):
            return f"the max.message.bytes of {topic.name} is no number"
        text = _not_switchable(state, topic)
        if text:
            return text
        partitions += len(topic.partition_numbers)
    if partitions > MAX_WAVE_PARTITIONS:
        return f"these are {partitions} partitions: switch up to {MAX_WAVE_PARTITIONS} at a time"
    return ""


def _not_switchable(state: ClusterState, topic: Topic) -> str:
    """Return why a mirrored topic cannot be switched; "" if it can."""
    if state.switches.fence_of(topic.topic_id) is not None:
        return f"{topic.name} is being switched already"
    before = state.switches.reopened.get(topic.topic_id)
    if before is not None and state.log_time_ms < before.rests_until_ms:
        seconds = -(-(before.rests_until_ms - state.log_time_ms) // 1000)
        return f"the last switch of {topic.name} was given up: wait {seconds} s"
    return _open_transaction(state, topic)


def _open_transaction(state: ClusterState, topic: Topic) -> str:
    for index, number in enumerate(topic.partition_numbers):
        if state.partitions[number].open:
            return f"{topic.name}-{index} has an open transaction"
    return ""


@dataclass(frozen=True, slots=True)
class ReachFence:
    """This gateway has answered all batches of its clients to the topics of a fence.

    This includes forwarded batches, and batches that are written here.  Answer: None.
    """

    fence: int
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        fence = view.state.switches.fences.get(self.fence)
        if fence is None or view.writer not in fence.awaited:
            return Decided((), None)
        return Decided((FenceReached(self.fence, view.writer),), None)


@dataclass(frozen=True, slots=True)
class LiftFence:
    """Leave the topics of a fence where they were.  Answer: whether the fence was open."""

    fence: int
    reason: str
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        fence = view.state.switches.fences.get(self.fence)
        if fence is None or fence.lifted:
            return Decided((), False)
        events: list[Event] = [FenceLifted(self.fence, self.reason, view.writer)]
        if fence.unit in view.state.link_groups.fences:
            events.append(GroupsUnfenced(fence.unit, self.reason))
        return Decided(events, True)


@dataclass(frozen=True, slots=True)
class ReopenSource:
    """The source takes writes to the topics of a lifted fence again.  Answer: None."""

    fence: int
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        fence = view.state.switches.fences.get(self.fence)
        if fence is None or not fence.lifted:
            return Decided((), None)
        in_time = view.log_time_ms - fence.lifted_ms < ALONE_MS
        is_sure = view.writer == fence.lifter and in_time
        return Decided((SourceReopened(self.fence, is_sure),), None)


@dataclass(frozen=True, slots=True)
class SwitchTopics:
    """Make the topics of a fence this cluster's.

    ends: topic ids, with where each partition ends at the source; read while it took no writes.
    groups, ids: the groups and transactional ids of the fence's unit.
    epochs: the leader epochs at the source, by partition number, read with the ends.
    Answer: "", or why they were not switched, for a person.
    """

    fence: int
    ends: tuple[tuple[bytes, tuple[int, ...]], ...]
    groups: tuple[GroupToMove, ...] = ()
    ids: tuple[IdToMove, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The copies, the gateways that the fence waits for, and the unit."""
        return self.writes

    @property
    def writes(self) -> frozenset[str]:
        """The topics, and the unit."""
        return _ALL | {STAGED} | group_scopes(self.groups) if self.groups or self.ids else _ALL

    def decide(self, view: View) -> Decided[str]:
        """This proposal reads heads, so it never shares an entry with an earlier commit."""
        fence = view.state.switches.fences.get(self.fence)
        if fence is None or fence.lifted or fence.is_back:
            return Decided((), "the fence was lifted")
        text = unreached(view.state, fence) or unfinished(view.state, fence)
        text = text or _unequal(view.state, fence, dict(self.ends))
        if text:
            return Decided((), text)
        switched = TopicsSwitched(self.fence, tuple(newer_epochs(view.state, fence, self.epochs)))
        if not fence.unit:
            return Decided((switched,), "")
        unit = view.state.link_groups.fences.get(fence.unit)
        if unit is None:
            return Decided((), "the fence of the groups and transactional ids was lifted")
        text = unfit_unit(view.state, unit, self.groups, self.ids)
        if text:
            return Decided((), text)
        events = moved_unit(view, unit, self.groups, self.ids)
        return Decided((switched, *events), "")


def unreached(state: ClusterState, fence: Fence) -> str:
    """Return which gateways may still have writes without an answer; "" for none."""
    late = sorted(each for each in fence.awaited if state.gateways.is_live(each))
    nodes = ", ".join(str(state.gateways.live[each].node_id) for each in late)
    return f"gateway {nodes} did not answer" if late else ""


def unfinished(state: ClusterState, fence: Fence) -> str:
    """Return which copy has an open transaction; "" for none.

    The transaction cannot end while the source is fenced, because the source then refuses its
    marker.
    """
    topics = (state.topics.by_id.get(each) for each in fence.limits)
    texts = (_open_transaction(state, each) for each in topics if each is not None)
    return next(filter(None, texts), "")


def _unequal(state: ClusterState, fence: Fence, ends: Mapping[bytes, Sequence[int]]) -> str:
    for topic_id in fence.limits:
        topic = state.topics.by_id.get(topic_id)
        if topic is None or topic.link != fence.link:
            return "a topic is gone"
        theirs = ends.get(topic_id, ())
        if len(theirs) != len(topic.partition_numbers):
            return f"{topic.name} has other partitions at its source"
        for index, number in enumerate(topic.partition_numbers):
            partition = state.partitions[number]
            if partition.next_offset != theirs[index]:
                own = partition.next_offset
                return f"{topic.name}-{index} ends at {theirs[index]}, and its copy at {own}"
    return ""


@dataclass(frozen=True, slots=True)
class FinishSwitches:
    """Forget the source of switched topics; without names, of all switched topics of the link.

    Answer: the names of the topics, or why nothing was done, for a person.
    """

    link: str
    names: tuple[str, ...] = ()
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[str] | str]:
        """See the class."""
        state = view.state
        if self.link not in state.links.by_name:
            return Decided((), "there is no such link")
        found = {
            name: (topic, each)
            for name, (topic, each) in unfinished_switches(state, self.link).items()
            if state.switches.fence_of(topic.topic_id) is None
        }
        unknown = sorted(set(self.names) - found.keys())
        if unknown:
            text = f"{unknown[0]} was not switched, is finished already, or is going back"
            return Decided((), text)
        names = sorted(set(self.names) or found)
        reversing = [each for each in names if found[each][1].reached]
        if reversing:
            how = f"end that with `tidegate link rollback {self.link} {reversing[0]} --cancel`"
            return Decided((), f"{reversing[0]} is written back to its source: {how}")
        ids = tuple(found[each][0].topic_id for each in names)
        return Decided((SwitchesFinished(self.link, ids),) if ids else (), names)
