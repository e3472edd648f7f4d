"""Links, the topics that they mirror, and the bounds of mirrored partitions.

Each proposal of a mirror names the state of this cluster that its gateway has seen. If that state
has changed since, the proposal is refused, and the gateway reads the state again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from ...configs.topic_configs import TOPIC_CONFIGS
from ...configs.validation import InvalidConfig
from ...events.cluster import ConfigsSet, Event, PartitionsAdded, TopicDeleted
from ...events.links import (
    LinkedTopic,
    LinkRemoved,
    LinkSet,
    MirrorPlace,
    MirrorsPlaced,
    TopicsLinked,
)
from ...events.metadata_versions import FEATURE_NAME, LINKS, SWITCHES
from ...state.migration.links import Link
from ...state.migration.source_groups import overlap
from ...state.name_changes import TOPIC_RESOURCE
from ...state.topics import Topic, collision_key
from ..configs import checked_topic_configs
from ..proposal import HEADS, OBJECTS, TOPICS, Decided, View
from ..topic_names import illegal_topic_name
from ..topics import MAX_PARTITIONS_PER_REQUEST

MAX_LINKS: Final = 100
MAX_PATTERNS: Final = 1_000
_LIMIT: Final = "max.message.bytes"
_FENCED: Final = "0"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TOPICS: Final = frozenset({TOPICS})
_ALL: Final = frozenset({TOPICS, HEADS, OBJECTS})


class LinkRefusal(Enum):
    """Why a link or its topics were not changed."""

    NOT_YET = (
        f"the cluster's {FEATURE_NAME} is below {LINKS}: run this release on all gateways and"
        f" drivers, then raise it with `kafka-features.sh upgrade --feature {FEATURE_NAME}={LINKS}`"
    )
    NAME = "a link's name has up to 63 small letters, digits and hyphens, and begins with no hyphen"
    EXISTS = "there is such a link; give --replace to change it"
    UNKNOWN = "there is no such link"
    OTHER_SOURCE = "the link is to another cluster: its topics' offsets would make no sense there"
    OWN_CLUSTER = "the source is this cluster itself"
    TOO_MANY = (
        f"a cluster has up to {MAX_LINKS} links, and a link up to {MAX_PATTERNS} patterns of each"
    )
    HAS_TOPICS = "it mirrors topics; give --delete-topics to delete their copies here"
    FORWARDS_NOT_YET = (
        f"the cluster's {FEATURE_NAME} is below {SWITCHES}, so gateways forward nothing: raise it"
        f" with `kafka-features.sh upgrade --feature {FEATURE_NAME}={SWITCHES}`"
    )
    NO_GROUP = "a group's id is not empty; `*` stands for all groups, and `billing-*` for some"
    GROUPS_TAKEN = "another link names some of these groups, too"
    NO_ID = "a transactional id is not empty; `*` stands for all of them, and `billing-*` for some"
    IDS_TAKEN = "another link names some of these transactional ids, too"
    IDS_WITHOUT_WRITES = "transactional ids need --forward-writes"
    MOVING = "a group of it is being moved: wait until that has ended"
    SWITCHING = "topics of it are being switched: wait until that has ended"
    SWITCHED = "topics of it were switched; end that with `tidegate link finish` first"


def _refusal(view: View) -> LinkRefusal | None:
    return None if view.state.metadata_version >= LINKS else LinkRefusal.NOT_YET


@dataclass(frozen=True, slots=True)
class SetLink:
    """Make a link, or replace the settings of one.  Answer: a refusal, or None.

    replaces: whether the link may exist already; its source must then be the same cluster.  Other
    fields: see LinkSet.
    """

    name: str
    cluster_id: str
    bootstrap_servers: str
    topics: tuple[str, ...]
    replaces: bool = False
    forwards: bool = False
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    transaction_version: int = 0
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[LinkRefusal | None]:
        """See the class."""
        state = view.state
        refusal = _refusal(view) or self._refusal(state.links.by_name, state.cluster_id)
        if refusal is None and state.link_groups.of_link(self.name):
            refusal = LinkRefusal.MOVING
        if refusal is not None:
            return Decided((), refusal)
        if (self.forwards or self.groups) and view.state.metadata_version < SWITCHES:
            return Decided((), LinkRefusal.FORWARDS_NOT_YET)
        event = LinkSet(
            self.name,
            self.cluster_id,
            self.bootstrap_servers,
            self.topics,
            forwards=self.forwards,
            groups=self.groups,
            transactional_ids=self.transactional_ids,
            transaction_version=self.transaction_version,
        )
        return Decided((event,), None)

    def _refusal(self, links: Mapping[str, Link], own_id: str) -> LinkRefusal | None:
        present = links.get(self.name)
        too_many = len(links) >= MAX_LINKS and present is None
        if not _NAME.fullmatch(self.name):
            return LinkRefusal.NAME
        if self.cluster_id == own_id:
            return LinkRefusal.OWN_CLUSTER
        names = max(len(self.topics), len(self.groups), len(self.transactional_ids))
        if too_many or names > MAX_PATTERNS:
            return LinkRefusal.TOO_MANY
        refusal = self._refused_names(links)
        if refusal is not None:
            return refusal
        if present is not None and not self.replaces:
            return LinkRefusal.EXISTS
        if present is not None and present.cluster_id != self.cluster_id:
            return LinkRefusal.OTHER_SOURCE
        return None

    def _refused_names(self, links: Mapping[str, Link]) -> LinkRefusal | None:
        others = [each for each in links.values() if each.name != self.name]
        if not all(self.groups):
            return LinkRefusal.NO_GROUP
        if _overlap(self.groups, [name for each in others for name in each.groups]):
            return LinkRefusal.GROUPS_TAKEN
        if not all(self.transactional_ids):
            return LinkRefusal.NO_ID
        theirs = [name for each in others for name in each.transactional_ids]
        if _overlap(self.transactional_ids, theirs):
            return LinkRefusal.IDS_TAKEN
        if self.transactional_ids and not self.forwards:
            return LinkRefusal.IDS_WITHOUT_WRITES
        return None


def _overlap(own: Sequence[str], others: Sequence[str]) -> bool:
    return any(overlap(each, other) for each in own for other in others)


@dataclass(frozen=True, slots=True)
class RemoveLink:
    """Forget a link.  Answer: a refusal, or the names of the topics that are deleted with it."""

    name: str
    deletes_topics: bool = False
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_ALL, init=False)

    def decide(self, view: View) -> Decided[LinkRefusal | list[str]]:
        """See the class."""
        if self.name not in view.state.links.by_name:
            return Decided((), LinkRefusal.UNKNOWN)
        topics = list(view.state.links.topics_of(self.name))
        if topics and not self.deletes_topics:
            return Decided((), LinkRefusal.HAS_TOPICS)
        if view.state.link_groups.of_link(self.name):
            return Decided((), LinkRefusal.MOVING)
        switches = view.state.switches
        # Without its source a lifted fence would stay for ever.
        if not all(each.lifted for each in switches.of_link(self.name)):
            return Decided((), LinkRefusal.SWITCHING)
        own = (each for each in switches.switched.values() if each.link == self.name)
        if not all(each.is_finished for each in own):
            return Decided((), LinkRefusal.SWITCHED)
        events: list[Event] = [TopicDeleted(each.topic_id) for each in topics]
        return Decided((*events, LinkRemoved(self.name)), [each.name for each in topics])


class TopicRefused(NamedTuple):
    """Why a topic of the source is not mirrored, for a person."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class MirrorTopics:
    """Create topics as a link's source has them, or update existing ones.

    topics: the topics with the configs that are set at the source; configs unknown to this cluster
      are left out.  The topics have up to MAX_PARTITIONS_PER_REQUEST partitions together.  Answer:
      the topics that are not mirrored, or whose change is not possible.
    """

    link: str
    topics: tuple[LinkedTopic, ...]
    reads: frozenset[str] = field(default=_TOPICS, init=False)
    writes: frozenset[str] = field(default=_TOPICS, init=False)

    def decide(self, view: View) -> Decided[list[TopicRefused]]:
        """See the class."""
        refused: list[TopicRefused] = []
        made: list[LinkedTopic] = []
        changes: list[Event] = []
        if self.link not in view.state.links.by_name:
            gone = "the link is gone"
            return Decided((), [TopicRefused(each.name, gone) for each in self.topics])
        taken: set[str] = set()
        for each in self.topics:
            present = view.state.topics.by_shown_id.get(each.source_id)
            known_id = present.topic_id if present is not None else each.source_id
            if known_id in view.state.switches.switched:
                continue  # switched: this cluster's own, even if it was deleted here
            text = _wrong(view, self.link, each, present, taken)
            if text:
                refused.append(TopicRefused(each.name, text))
            elif present is None:
                taken.add(collision_key(each.name))
                made.append(_known(each))
            # fenced topics do not follow their source
            elif view.state.switches.fence_of(known_id) is None:
                changes += _changes(present, _known(each))
        linked = (TopicsLinked(self.link, tuple(made)),) if made else ()
        return Decided((*linked, *changes), refused)


_ID_TAKEN: Final = "its topic id is in use here"


def _wrong(
    view: View, link: str, wanted: LinkedTopic, present: Topic | None, taken: set[str]
) -> str:
    """Return why a topic cannot be mirrored; "" if it can."""
    if not 1 <= wanted.partition_count <= MAX_PARTITIONS_PER_REQUEST:
        return f"it has {wanted.partition_count} partitions"
    try:
        _known(wanted)
    except InvalidConfig as error:
        return str(error)
    if present is None and _is_id_taken(view, wanted):
        return _ID_TAKEN
    if present is not None:
        if present.link != link:
            return _ID_TAKEN
        fewer = wanted.partition_count < len(present.partition_numbers)
        return "it has fewer partitions than here" if fewer else ""
    text = illegal_topic_name(wanted.name)
    if text is not None:
        return text
    key = collision_key(wanted.name)
    other = view.state.topics.by_collision_key.get(key)
    if other is not None or key in taken:
        name = other.name if other is not None else wanted.name
        return f"the name is taken here: by topic {name}"
    return ""


def _is_id_taken(view: View, wanted: LinkedTopic) -> bool:
    return any(map(view.state.topics.has_id, (wanted.topic_id, wanted.source_id)))


def known_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a source's topic that have a meaning here."""
    return {name: text for name, text in configs.items() if name in TOPIC_CONFIGS}


def _known(topic: LinkedTopic) -> LinkedTopic:
    """Return the topic with the configs that have a meaning here.

    Raises:
      InvalidConfig: a known config has a value that is not allowed here.
    """
    checked = checked_topic_configs(known_configs(topic.configs))
    return msgspec.structs.replace(topic, configs=checked)


def _unfenced(present: Topic, wanted: LinkedTopic) -> LinkedTopic:
    """Return the topic without the fence of its source: the fence is no config of the topic."""
    if wanted.configs.get(_LIMIT) != _FENCED:
        return wanted
    rest = {name: text for name, text in wanted.configs.items() if name != _LIMIT}
    before = {_LIMIT: present.configs[_LIMIT]} if _LIMIT in present.configs else {}
    return msgspec.structs.replace(wanted, configs=rest | before)


def _changes(present: Topic, wanted: LinkedTopic) -> Iterator[Event]:
    """Yield the events with which a topic follows its source."""
    wanted = _unfenced(present, wanted)
    if wanted.partition_count > len(present.partition_numbers):
        yield PartitionsAdded(present.topic_id, wanted.partition_count)
    if wanted.configs != present.configs:
        yield ConfigsSet(TOPIC_RESOURCE, present.name, wanted.configs)


ANY_END: Final = -1


class Placing(NamedTuple):
    """Move the bounds of a mirrored partition up; see MirrorPlace.

    after: where the partition ends here now; ANY_END: any end, which then stays.
    """

    topic_id: bytes
    partition: int
    after: int
    log_start: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class PlaceMirrors:
    """Answer: for each placing, whether it was done."""

    link: str
    placings: Sequence[Placing]
    reads: frozenset[str] = field(default=_ALL, init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS, OBJECTS}), init=False)

    def decide(self, view: View) -> Decided[list[bool]]:
        """A placing reads heads, so it never shares an entry with an earlier commit."""
        placed: dict[int, MirrorPlace] = {}
        answers: list[bool] = []
        for each in self.placings:
            place = self._place(view, each)
            is_new = place is not None and place.partition not in placed
            if place is not None and is_new:
                placed[place.partition] = place
                view.next_offsets[place.partition] = place.next_offset
            answers.append(is_new)
        events = (MirrorsPlaced(tuple(placed.values())),) if placed else ()
        return Decided(events, answers)

    def _place(self, view: View, placing: Placing) -> MirrorPlace | None:
        topic = view.state.topics.by_id.get(placing.topic_id)
        if topic is None or topic.link != self.link:
            return None
        if not 0 <= placing.partition < len(topic.partition_numbers):
            return None
        partition = view.state.partitions[topic.partition_numbers[placing.partition]]
        log_start, next_offset = placing.log_start, placing.next_offset
        if placing.after == ANY_END:
            next_offset = partition.next_offset
            if log_start == partition.log_start:
                return None
        elif partition.next_offset != placing.after or next_offset < placing.after:
            return None
        in_order = partition.log_start <= log_start <= next_offset
        return MirrorPlace(partition.number, log_start, next_offset) if in_order else None
