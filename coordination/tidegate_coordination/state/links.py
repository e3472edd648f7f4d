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


class LinkTable:
    """All links.  version: rises with every change, for caches."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self.by_name: dict[str, Link] = {}
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def topics_of(self, name: str) -> Iterator[Topic]:
        """Yield the topics that a link mirrors."""
        return (each for each in self._topics.by_id.values() if each.link == name)

    def fold_set(self, event: LinkSet) -> None:
        """Make or change a link."""
        self.by_name[event.name] = Link(
            event.name, event.cluster_id, event.bootstrap_servers, event.topics, event.forwards
        )
        self.version += 1

    def fold_removed(self, event: LinkRemoved) -> None:
        """Forget a link."""
        expect(event.name in self.by_name, f"unknown link {event.name}")
        del self.by_name[event.name]
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
                *((True,) if each.forwards else ()),
            ]
            for _, each in sorted(self.by_name.items())
        ]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for name, cluster_id, bootstrap_servers, topics, *forwards in rows:
            self.by_name[name] = Link(
                name, cluster_id, bootstrap_servers, tuple(topics), bool(forwards)
            )
