"""How switched topics return to their source; see state/migration/switches.py.

Records that were written to the topics here are written to the source first, at the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...events.cluster import RUN_MARKER
from ...events.links import (
    ReturnFenced,
    ReversedPlace,
    ReverseEnded,
    ReverseReached,
    TopicsReturned,
    TopicsReversing,
)
from ...state.cluster import ClusterState
from ...state.migration.switches import Fence, Switched
from ...state.records.cleanings import cleaned_to
from ...state.records.partitions import Partition
from ...state.topics import Topic
from ..proposal import GATEWAYS, HEADS, OBJECTS, TOPICS, Decided, View
from ..written_back import reached_of
from .obstacles import obstacle_of
from .source_epochs import newer_epochs
from .switches import MAX_WAVE_PARTITIONS, unfinished_switches, unreached

_ALL: Final = frozenset({TOPICS, HEADS, OBJECTS, GATEWAYS})
_TOPICS: Final = frozenset({TOPICS})
MAX_REASON_CHARACTERS: Final = 500


IDS_ARE_HERE: Final = "transactional ids of the link have moved here, and cannot go back"


@dataclass(frozen=True, slots=True)
class ReverseTopics:
    """Begin to write back records of switched topics; none: of all switched topics of the link.

    Answer: the names of the topics that reverse now, or why there are none, for a person.
    """

    link: str
    names: tuple[str, ...] = ()
    reads: frozenset[str] = field(default=_ALL, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[str] | str]:
        """See the class."""
        found = _switched_of(view.state, self.link, self.names)
        if isinstance(found, str):
            return Decided((), found)
        if view.state.link_groups.moved_ids.get(self.link):
            return Decided((), IDS_ARE_HERE)
        for topic, switched in found:
            text = _not_reversible(view.state, topic, switched)
            if text:
                return Decided((), text)
        begins = tuple(topic.topic_id for topic, each in found if not each.reached)
        events = (TopicsReversing(self.link, begins),) if begins else ()
        return Decided(events, [topic.name for topic, _ in found])


def _switched_of(
    state: ClusterState, link: str, names: Sequence[str]
) -> list[tuple[Topic, Switched]] | str:
    """Return switched topics by name, or why they cannot be had, for a person."""
    obstacle = obstacle_of(state, link)
    if obstacle:
        return obstacle
    found = unfinished_switches(state, link)
    unknown = sorted(set(names) - found.keys())
    if unknown:
        topic = state.topics.by_name.get(unknown[0])
        if topic is not None and topic.link == link:
            return f"{unknown[0]} is at its source: this is a copy"
        return f"{unknown[0]} was not switched, or is finished already"
    if not found:
        return "no topic of the link was switched"
    return [found[each] for each in sorted(set(names) or found)]


def _not_reversible(state: ClusterState, topic: Topic, switched: Switched) -> str:
    """Return why a topic cannot be written back; "" if it can."""
    if state.switches.fence_of(topic.topic_id) is not None:
        return f"{topic.name} is going back already"
    if len(topic.partition_numbers) != len(switched.ends):
        return f"{topic.name} has got more partitions here than it has at its source"
    if switched.reached:
        return ""
    for index, number in enumerate(topic.partition_numbers):
        text = _lacks(state.partitions[number], switched.ends[index])
        if text:
            return f"{topic.name}-{index} {text}"
    return ""


def _lacks(partition: Partition, end: int) -> str:
    """Return why some records since the switch cannot be written back; "" if all can."""
    if partition.log_start > end:
        return "has lost records that were written after the switch: they expired, or were deleted"
    if cleaned_to(partition.cleanings) > end:
        return "was compacted beyond the switch"
    if partition.open or partition.runs.has_flag_from(end, RUN_MARKER):
        return "has transactions that were written after the switch"
    return ""


@dataclass(frozen=True, slots=True)
class NoteReversed:
    """All batches of partitions below these offsets are at the source.  Answer: None.

    places: partition numbers with offsets; those that no longer fit the state are dropped.
    """

    places: tuple[tuple[int, int], ...]
    reads: frozenset[str] = field(default=frozenset({TOPICS, HEADS}), init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        places = tuple(self._fitting(view.state))
        return Decided((ReverseReached(places),) if places else (), None)

    def _fitting(self, state: ClusterState) -> Iterator[ReversedPlace]:
        for number, offset in dict(self.places).items():
            partition = state.partitions.get(number)
            reached = reached_of(state, partition) if partition is not None else None
            if partition is None or reached is None:
                continue
            if reached < offset <= partition.next_offset:
                yield ReversedPlace(number, offset)


@dataclass(frozen=True, slots=True)
class EndReverse:
    """Write nothing back any more; none: of all topics of the link that reverse.

    reason: see ReverseEnded.  Answer: the names of the topics, or why there are none.
    """

    link: str
    names: tuple[str, ...] = ()
    reason: str = ""
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[str] | str]:
        """See the class."""
        found = _switched_of(view.state, self.link, self.names)
        if isinstance(found, str):
            return Decided((), found)
        fence_of = view.state.switches.fence_of
        going = [topic.name for topic, _ in found if fence_of(topic.topic_id) is not None]
        if going and self.names:
            return Decided((), f"{going[0]} is going back at this moment: wait some seconds")
        ending = [
            topic for topic, each in found if each.reached and fence_of(topic.topic_id) is None
        ]
        reason = self.reason[:MAX_REASON_CHARACTERS]
        ids = tuple(each.topic_id for each in ending)
        events = (ReverseEnded(ids, reason),) if ids else ()
        return Decided(events, [each.name for each in ending])


@dataclass(frozen=True, slots=True)
class FenceReturn:
    """Begin to return topics that reverse to their source.

    Answer: the number of the fence, or why there is none, for a person.
    """

    link: str
    names: tuple[str, ...]
    reads: frozenset[str] = field(default=_ALL, init=False)
    writes: frozenset[str] = field(default=_ALL, init=False)

    def decide(self, view: View) -> Decided[int | str]:
        """This proposal reads heads, so it never shares an entry with an earlier commit."""
        found = _switched_of(view.state, self.link, self.names)
        if isinstance(found, str):
            return Decided((), found)
        text = next(filter(None, (self._obstacle(view, *each) for each in found)), "")
        count = sum(len(topic.partition_numbers) for topic, _ in found)
        if count > MAX_WAVE_PARTITIONS:
            text = f"these are {count} partitions: return up to {MAX_WAVE_PARTITIONS} at a time"
        if text:
            return Decided((), text)
        number = view.state.switches.next_fence
        ids = tuple(topic.topic_id for topic, _ in found)
        return Decided((ReturnFenced(number, self.link, ids),), number)

    def _obstacle(self, view: View, topic: Topic, switched: Switched) -> str:
        state = view.state
        text = _not_reversible(state, topic, switched)
        if text:
            return text
        if not switched.reached:
            return f"{topic.name} is not written back: {switched.problem or 'begin with that'}"
        if not state.links.by_name[self.link].forwards:
            return "the link forwards no writes: set it with `tidegate link add --forward-writes`"
        numbers = topic.partition_numbers
        if state.transactions.with_partitions(numbers) or view.transactions.has_open(numbers):
            return f"a transaction that includes {topic.name} is open"
        return ""


@dataclass(frozen=True, slots=True)
class ReturnTopics:
    """Make the topics of a fence their source's again.

    epochs: the leader epoch at the source of each partition, by number, as its leader says.
    Answer: "", or why they did not return, for a person.
    """

    fence: int
    epochs: tuple[tuple[int, int], ...]
    reads: frozenset[str] = field(default=_ALL, init=False)
    writes: frozenset[str] = field(default=_ALL, init=False)

    def decide(self, view: View) -> Decided[str]:
        """See the class."""
        fence = view.state.switches.fences.get(self.fence)
        if fence is None or not fence.is_back:
            return Decided((), "the fence was lifted")
        text = unreached(view.state, fence) or unreversed(view.state, fence)
        text = text or self._older(view.state, fence)
        if text:
            return Decided((), text)
        epochs = tuple(newer_epochs(view.state, fence, self.epochs))
        return Decided((TopicsReturned(self.fence, epochs),), "")

    def _older(self, state: ClusterState, fence: Fence) -> str:
        """Return which partition has a newer leader epoch here than at its source; "" for none.

        A restored log begins a new epoch in the topics of this cluster.  Gateways would refuse the
        source's batches, whose epoch is older.
        """
        known = dict(self.epochs)
        for topic_id in fence.limits:
            topic = state.topics.get(topic_id)
            for index, number in enumerate(topic.partition_numbers):
                epoch, own = known.get(number, -1), state.partitions[number].leader_epoch
                if epoch < own:
                    return f"{topic.name}-{index} has leader epoch {own}, and its source {epoch}"
        return ""


def unreversed(state: ClusterState, fence: Fence) -> str:
    """Return why the topics of a fence are not yet written back; "" if they are."""
    for topic_id in fence.limits:
        topic = state.topics.by_id.get(topic_id)
        if topic is None:
            return "a topic is gone"
        for index, number in enumerate(topic.partition_numbers):
            partition = state.partitions[number]
            reached = reached_of(state, partition)
            if reached != partition.next_offset:
                end = partition.next_offset
                return f"{topic.name}-{index} ends at {end}, and is written back up to {reached}"
    return ""
