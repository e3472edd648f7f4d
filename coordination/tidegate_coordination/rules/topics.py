"""Creating, growing and deleting topics.

Each proposal holds several topics and answers them one by one, in order.  An event has only the
number of a topic's partitions, so an entry for 10,000 partitions is as small as for one.

The client's gateway looked up the names of a proposal with the log read up to `seen` (0: unknown).
If a topic was changed after `seen`, its part of the proposal is refused as CHANGED. The gateway
looks the topic up again if its client still waits; otherwise the late proposal has no effect
(decision 22).  topic_ids: see looked_up.py.

Texts are Kafka's.  Differs from Kafka: a replication factor above the number of gateways is
accepted; it is a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..configs.validation import InvalidConfig
from ..events.cluster import Event, PartitionsAdded, TopicCreated, TopicDeleted
from ..state.topics import Topic, collision_key
from .assignments import wrong_assignments, wrong_indexes
from .configs import checked_topic_configs
from .looked_up import found_topic, mirrored_text, unfinished_text
from .proposal import GATEWAYS, HEADS, TOPICS, Decided, View
from .topic_names import illegal_topic_name

MAX_PARTITIONS_PER_REQUEST = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."
MAX_REPLICATION_FACTOR = 2**15 - 1

_TOPICS = frozenset({TOPICS})
_TOPICS_AND_GATEWAYS = frozenset({TOPICS, GATEWAYS})


class TopicRefusal(Enum):
    """Why a topic was not changed."""

    EXISTS = "the name is taken"
    ILLEGAL_NAME = "the name is not allowed, or collides"
    PARTITION_COUNT = "the partition count is not possible"
    REPLICATION_FACTOR = "the replication factor is not possible"
    ASSIGNMENT = "the assignment is not possible"
    CONFIG = "a config is wrong"
    TOO_MUCH = "more at once than is allowed"
    CONTRADICTION = "the request contradicts itself"
    UNKNOWN_NAME = "no topic has the name"
    UNKNOWN_ID = "no topic has the id"
    CHANGED = "it was changed since it was looked up"
    MIRRORED = "a link mirrors it from another cluster"


class Refused(NamedTuple):
    """text: for the client; "" if the reason suffices."""

    reason: TopicRefusal
    text: str


@dataclass(frozen=True, slots=True)
class Created:
    """A topic as it is, or would be with validate_only."""

    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    topic_id: 16 random bytes.  partition_count, replication_factor: -1 for the default.
    assignments: partition -> node ids; with assignments, both numbers must be -1.
    configs: as sent, null values included.
    """

    topic_id: bytes
    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    configs: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


class _Refusal(Exception):
    """Carries a Refused out of the checks."""

    def __init__(self, reason: TopicRefusal, text: str) -> None:
        super().__init__(text)
        self.refused = Refused(reason, text)


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Answer: per topic Created or Refused.

    default_*: num.partitions and default.replication.factor of the proposing gateway.
    """

    topics: Sequence[NewTopic]
    default_partition_count: int = 1
    default_replication_factor: int = 1
    validate_only: bool = False
    seen: int = 0
    reads: frozenset[str] = field(default=_TOPICS_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[Created | Refused]]:
        """Names of earlier topics of the same proposal count as taken."""
        taken: dict[str, str] = {}
        answers: list[Created | Refused] = []
        events: list[Event] = []
        room = MAX_PARTITIONS_PER_REQUEST
        for topic in self.topics:
            try:
                created = self._create(view, topic, taken, room)
            except _Refusal as refusal:
                answers.append(refusal.refused)
                continue
            answers.append(created)
            taken[collision_key(topic.name)] = topic.name
            room -= created.partition_count
            events.append(
                TopicCreated(
                    created.topic_id,
                    topic.name,
                    created.partition_count,
                    created.replication_factor,
                    dict(created.configs),
                )
            )
        return Decided(() if self.validate_only else events, answers)

    def _create(self, view: View, topic: NewTopic, taken: Mapping[str, str], room: int) -> Created:
        _check_name(view, topic.name, taken)
        if view.state.name_changes.is_topic_since(topic.name, self.seen):
            raise _Refusal(TopicRefusal.CHANGED, "")
        count, factor = self._numbers(view, topic)
        if count > room:
            raise _Refusal(TopicRefusal.TOO_MUCH, TOO_MANY_PARTITIONS)
        try:
            configs = checked_topic_configs(topic.configs)
        except InvalidConfig as error:
            raise _Refusal(TopicRefusal.CONFIG, str(error)) from error
        return Created(topic.topic_id, count, factor, configs)

    def _numbers(self, view: View, topic: NewTopic) -> tuple[int, int]:
        if topic.assignments:
            return _assigned_numbers(view, topic)
        factor, count = topic.replication_factor, topic.partition_count
        if factor != -1 and not 1 <= factor <= MAX_REPLICATION_FACTOR:
            text = "Replication factor must be larger than 0, or -1 to use the default value."
            raise _Refusal(TopicRefusal.REPLICATION_FACTOR, text)
        if count != -1 and count <= 0:
            text = "Number of partitions was set to an invalid non-positive value."
            raise _Refusal(TopicRefusal.PARTITION_COUNT, text)
        return (
            self.default_partition_count if count == -1 else count,
            self.default_replication_factor if factor == -1 else factor,
        )


def _check_name(view: View, name: str, taken: Mapping[str, str]) -> None:
    text = illegal_topic_name(name)
    if text is not None:
        raise _Refusal(TopicRefusal.ILLEGAL_NAME, text)
    key = collision_key(name)
    present = view.state.topics.by_collision_key.get(key)
    other = present.name if present is not None else taken.get(key)
    if other == name:
        raise _Refusal(TopicRefusal.EXISTS, f"Topic '{name}' already exists.")
    if other is not None:
        text = f"Topic '{name}' collides with existing topic: {other}"
        raise _Refusal(TopicRefusal.ILLEGAL_NAME, text)


def _live_node_ids(view: View) -> set[int]:
    return {each.node_id for each in view.state.gateways.brokers()}


def _assigned_numbers(view: View, topic: NewTopic) -> tuple[int, int]:
    if topic.replication_factor != -1:
        text = (
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
        raise _Refusal(TopicRefusal.CONTRADICTION, text)
    if topic.partition_count != -1:
        text = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise _Refusal(TopicRefusal.CONTRADICTION, text)
    lists = list(topic.assignments.values())
    wrong = wrong_assignments(lists, _live_node_ids(view)) or wrong_indexes(topic.assignments)
    if wrong is not None:
        raise _Refusal(TopicRefusal.ASSIGNMENT, wrong)
    return len(lists), len(lists[0])


class TopicKey(NamedTuple):
    """A topic by its name, or by its 16-byte id if it has none."""

    name: str | None
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted topic."""

    topic_id: bytes
    name: str


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Answer: per topic Deleted or Refused."""

    topics: Sequence[TopicKey]
    seen: int = 0
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=frozenset({TOPICS, HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[Deleted | Refused]]:
        """A topic that is named twice is deleted the first time."""
        gone: set[bytes] = set()
        answers = [self._delete(view, each, gone) for each in self.topics]
        events = [TopicDeleted(each.topic_id) for each in answers if isinstance(each, Deleted)]
        return Decided(events, answers)

    def _delete(self, view: View, wanted: TopicKey, gone: set[bytes]) -> Deleted | Refused:
        if wanted.name is not None:
            topic, reason = view.state.topics.by_name.get(wanted.name), TopicRefusal.UNKNOWN_NAME
        else:
            topic, reason = view.state.topics.by_id.get(wanted.topic_id), TopicRefusal.UNKNOWN_ID
        if topic is None or topic.topic_id in gone:
            return Refused(reason, "")
        if view.state.name_changes.is_topic_since(topic.name, self.seen):
            return Refused(TopicRefusal.CHANGED, "")
        if topic.link:
            return Refused(TopicRefusal.MIRRORED, mirrored_text(topic))
        switched = view.state.switches.switched.get(topic.topic_id)
        if switched is not None and not switched.is_finished:
            return Refused(TopicRefusal.MIRRORED, unfinished_text(topic, switched.link))
        gone.add(topic.topic_id)
        return Deleted(topic.topic_id, topic.name)


@dataclass(frozen=True, slots=True)
class Growth:
    """partition_count: the new total.  assignments: the replicas of the new partitions, or None."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Answer: per topic None when it grew (or would), or Refused."""

    topics: Sequence[Growth]
    validate_only: bool = False
    seen: int = 0
    topic_ids: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    reads: frozenset[str] = field(default=_TOPICS_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[Refused | None]]:
        """A topic grows as a whole or not at all.

        The bound is for all topics together, as in Kafka.  Otherwise one small request could make
        millions of partitions, which every gateway would have to hold.
        """
        room = MAX_PARTITIONS_PER_REQUEST
        answers: list[Refused | None] = []
        twice = duplicates(each.name for each in self.topics)
        for each in self.topics:
            if each.name in twice:  # two events for one topic could not be folded
                answers.append(Refused(TopicRefusal.CONTRADICTION, "Duplicate topic name."))
                continue
            answers.append(self._refused(view, each, room))
            if answers[-1] is None:
                present = len(view.state.topics.by_name[each.name].partition_numbers)
                room -= each.partition_count - present
        events = [
            PartitionsAdded(view.state.topics.by_name[each.name].topic_id, each.partition_count)
            for each, refused in zip(self.topics, answers, strict=True)
            if refused is None
        ]
        return Decided(() if self.validate_only else events, answers)

    def _refused(self, view: View, growth: Growth, room: int) -> Refused | None:
        topic = found_topic(view, growth.name, self.topic_ids)
        if topic is None:
            return Refused(TopicRefusal.UNKNOWN_NAME, "")
        if view.state.name_changes.is_topic_since(growth.name, self.seen):
            return Refused(TopicRefusal.CHANGED, "")
        return _refused_growth(view, topic, growth, room)


def _refused_growth(view: View, topic: Topic, growth: Growth, room: int) -> Refused | None:
    if topic.link:
        return Refused(TopicRefusal.MIRRORED, mirrored_text(topic))
    switched = view.state.switches.switched.get(topic.topic_id)
    if switched is not None and switched.reached:
        text = f"Topic '{topic.name}' is written back to its source, which has no such partition."
        return Refused(TopicRefusal.MIRRORED, text)
    present, added = len(topic.partition_numbers), growth.partition_count
    if added == present:
        return Refused(TopicRefusal.PARTITION_COUNT, f"Topic already has {present} partition(s).")
    if added < present:
        return Refused(
            TopicRefusal.PARTITION_COUNT,
            f"The topic {growth.name} currently has {present} partition(s); {added} would not be an"
            " increase.",
        )
    added -= present
    if added > room:
        return Refused(TopicRefusal.TOO_MUCH, TOO_MANY_PARTITIONS)
    lists = growth.assignments
    if lists is None:
        return None
    if len(lists) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only {len(lists)} assignment(s)"
            " were specified."
        )
        return Refused(TopicRefusal.ASSIGNMENT, text)
    wrong = wrong_assignments(lists, _live_node_ids(view))
    return Refused(TopicRefusal.ASSIGNMENT, wrong) if wrong is not None else None


def duplicates(names: Iterable[str]) -> set[str]:
    """Return the names that stand more than once."""
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice
