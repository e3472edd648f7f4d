"""Topics by their ids and by name.

The id that objects and events name is the *stored* one.  Clients may know a topic by another id,
its *shown* id: a mirrored topic is shown with its source's id, and two tenants may mirror one
source.  Code that speaks the Kafka protocol, with clients or with a source, uses `Topic.shown_id`
and `TopicTable.by_shown_id`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..events.cluster import TopicCreated, TopicDeleted
from .broken import expect
from .long_values import LongList, sorted_keys


@dataclass(slots=True)
class Topic:
    """A topic.  partition_numbers[i] is the dense number of partition i.

    configs: only those that were set.  version: rises with every change, for caches.  link: the
    link that mirrors it from another cluster; "" for none.  shown_id: see the module's head.
    """

    topic_id: bytes
    name: str
    partition_numbers: list[int]
    replication_factor: int
    configs: dict[str, str]
    version: int = 0
    link: str = ""
    shown_id: bytes = b""

    def __post_init__(self) -> None:
        self.shown_id = self.shown_id or self.topic_id


def collision_key(name: str) -> str:
    """Return the part of a name that must be unique: names that differ only in '.' and '_' share
    metric names.
    """
    return name.replace(".", "_")


class FrozenTopics:
    """The topics of one moment; a topic that changes is kept as it was.

    Only ids are copied, because Python's garbage collector would visit each of a million topics in
    a copy.
    """

    def __init__(self, live: Mapping[bytes, Topic]) -> None:
        self._live = live
        self._last = b""
        self._kept: dict[bytes, list[object]] = {}

    def keep(self, topic: Topic) -> None:
        """Take a topic as it is, unless it was taken: it is about to change."""
        if topic.topic_id > self._last and topic.topic_id not in self._kept:
            self._kept[topic.topic_id] = _row(topic)

    def rows(self) -> LongList:
        """Return all rows."""
        slices = (list(map(self._taken, ids)) for ids in sorted_keys(list(self._live)))
        return LongList(len(self._live), slices)

    def _taken(self, topic_id: bytes) -> list[object]:
        self._last = topic_id
        kept = self._kept.pop(topic_id, None)
        return kept if kept is not None else _row(self._live[topic_id])


def _row(topic: Topic) -> list[object]:
    other_id = (topic.shown_id,) if topic.shown_id != topic.topic_id else ()
    return [
        topic.topic_id,
        topic.name,
        list(topic.partition_numbers),
        topic.replication_factor,
        dict(sorted(topic.configs.items())),
        *((topic.link,) if topic.link or other_id else ()),
        *other_id,
    ]


class TopicTable:
    """All topics.

    by_id: the topics by stored id. by_shown_id: the same table as by_id, until a topic's shown id
    differs.  So do not keep a reference to it.
    """

    def __init__(self) -> None:
        self.by_id: dict[bytes, Topic] = {}
        self.by_shown_id = self.by_id
        self.by_name: dict[str, Topic] = {}
        self.by_collision_key: dict[str, Topic] = {}
        self.version = 0
        self._frozen: list[FrozenTopics] = []

    def fold_created(
        self,
        event: TopicCreated,
        partition_numbers: list[int],
        link: str = "",
        shown_id: bytes = b"",
    ) -> None:
        """Add a topic.  shown_id: empty for the stored one."""
        key = collision_key(event.name)
        is_taken = self.has_id(event.topic_id) or self.has_id(shown_id)
        expect(not is_taken, f"topic id of {event.name} is taken")
        expect(key not in self.by_collision_key, f"topic name {event.name} is taken")
        topic = Topic(
            event.topic_id,
            event.name,
            partition_numbers,
            event.replication_factor,
            dict(event.configs),
            link=link,
            shown_id=shown_id,
        )
        self._put(topic)
        self.version += 1

    def fold_deleted(self, event: TopicDeleted) -> Topic:
        """Remove a topic and return it."""
        topic = self._changing(event.topic_id)
        del self.by_id[topic.topic_id]
        if self.by_shown_id is not self.by_id:
            del self.by_shown_id[topic.shown_id]
        del self.by_name[topic.name]
        del self.by_collision_key[collision_key(topic.name)]
        self.version += 1
        return topic

    def fold_grown(self, topic_id: bytes, new_numbers: list[int]) -> None:
        """Append partitions."""
        topic = self._changing(topic_id)
        topic.partition_numbers.extend(new_numbers)
        self._changed(topic)

    def fold_configs(self, name: str, configs: dict[str, str]) -> None:
        """Replace the configs of a topic."""
        expect(name in self.by_name, f"configs of unknown topic {name}")
        topic = self._changing(self.by_name[name].topic_id)
        topic.configs = dict(configs)
        self._changed(topic)

    def fold_unlinked(self, topic_id: bytes) -> Topic:
        """The topic is this cluster's own from here on; return it."""
        topic = self._changing(topic_id)
        topic.link = ""
        self._changed(topic)
        return topic

    def fold_relinked(self, topic_id: bytes, link: str) -> Topic:
        """The topic is its source's from here on; return it."""
        topic = self._changing(topic_id)
        expect(not topic.link, f"{topic.name} is mirrored")
        topic.link = link
        self._changed(topic)
        return topic

    def fold_epoch(self, topic_id: bytes) -> None:
        """Note that a leader epoch of a partition has begun, which Metadata shows."""
        self._changed(self.get(topic_id))

    def get(self, topic_id: bytes) -> Topic:
        """Return the topic that an event names.

        Raises:
          StateBroken: no topic has this id.
        """
        expect(topic_id in self.by_id, f"unknown topic id {topic_id.hex()}")
        return self.by_id[topic_id]

    def has_id(self, topic_id: bytes) -> bool:
        """Return whether a topic is stored or shown under an id, so that no other topic may be."""
        return topic_id in self.by_id or topic_id in self.by_shown_id

    def _changing(self, topic_id: bytes) -> Topic:
        topic = self.get(topic_id)
        for each in self._frozen:
            each.keep(topic)
        return topic

    def _changed(self, topic: Topic) -> None:
        self.version += 1
        topic.version += 1

    def _put(self, topic: Topic) -> None:
        if topic.shown_id != topic.topic_id and self.by_shown_id is self.by_id:
            self.by_shown_id = self.by_id.copy()
        self.by_id[topic.topic_id] = topic
        self.by_shown_id[topic.shown_id] = topic
        self.by_name[topic.name] = topic
        self.by_collision_key[collision_key(topic.name)] = topic

    @contextmanager
    def frozen(self) -> Generator[LongList]:
        """Return the present rows, to be encoded while topics change."""
        frozen = FrozenTopics(self.by_id)
        self._frozen.append(frozen)
        try:
            yield frozen.rows()
        finally:
            self._frozen.remove(frozen)

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for row in rows:
            topic = Topic(*row[:5])
            topic.link = row[5] if row[5:] else ""
            topic.shown_id = row[6] if row[6:] else topic.topic_id
            self._put(topic)
