"""Links to classic Kafka clusters, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..events.links import LinkRemoved, LinkSet
from .broken import expect
from .topics import Topic, TopicTable


@dataclass(frozen=True, slots=True)
class Link:
    """See events/links.py."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    topics: tuple[str, ...]
    forwards: bool = False
    groups: tuple[str, ...] = ()


class LinkTable:
    """All links.  version: rises with every change, for caches.

    with_groups: the links that forward groups, by name.
    """

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self.by_name: dict[str, Link] = {}
        self.with_groups: tuple[Link, ...] = ()
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def topics_of(self, name: str) -> Iterator[Topic]:
        """Yield the topics that a link mirrors."""
        return (each for each in self._topics.by_id.values() if each.link == name)

    def fold_set(self, event: LinkSet) -> None:
        """Make or change a link."""
        self.by_name[event.name] = Link(
            event.name,
            event.cluster_id,
            event.bootstrap_servers,
            event.topics,
            event.forwards,
            event.groups,
        )
        self._index()
        self.version += 1

    def fold_removed(self, event: LinkRemoved) -> None:
        """Forget a link."""
        expect(event.name in self.by_name, f"unknown link {event.name}")
        del self.by_name[event.name]
        self._index()
        self.version += 1

    def expect_link(self, name: str) -> None:
        """Check that there is such a link."""
        expect(name in self.by_name, f"unknown link {name}")

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return [
            [
                each.name,
                each.cluster_id,
                each.bootstrap_servers,
                list(each.topics),
                *((each.forwards,) if each.forwards or each.groups else ()),
                *((list(each.groups),) if each.groups else ()),
            ]
            for _, each in sorted(self.by_name.items())
        ]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for name, cluster_id, bootstrap_servers, topics, *later in rows:
            forwards = bool(later and later[0])
            groups = tuple(later[1]) if len(later) > 1 else ()
            link = Link(name, cluster_id, bootstrap_servers, tuple(topics), forwards, groups)
            self.by_name[name] = link
        self._index()

    def _index(self) -> None:
        links = (link for _, link in sorted(self.by_name.items()))
        self.with_groups = tuple(each for each in links if each.groups)
