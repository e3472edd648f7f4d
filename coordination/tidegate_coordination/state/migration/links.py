"""Links to classic Kafka clusters, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ...events.links import LinkRemoved, LinkSet
from ..broken import expect
from ..topics import Topic, TopicTable

_LATER: Final[tuple[Any, ...]] = (False, (), (), 0)
"""The values of later fields in links of former releases."""


@dataclass(frozen=True, slots=True)
class Link:
    """See events/links.py."""

    name: str
    cluster_id: str
    bootstrap_servers: str
    topics: tuple[str, ...]
    forwards: bool = False
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    transaction_version: int = 0


class LinkTable:
    """All links.  version: rises with every change, for caches.

    with_groups, with_ids: the links that forward groups, or transactional ids, by name.
    """

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self.by_name: dict[str, Link] = {}
        self.with_groups: tuple[Link, ...] = ()
        self.with_ids: tuple[Link, ...] = ()
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
            event.transactional_ids,
            event.transaction_version,
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
        return [_row(each) for _, each in sorted(self.by_name.items())]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for name, cluster_id, bootstrap_servers, topics, *more in rows:
            later: list[Any] = more
            forwards, groups, ids, version = (*later, *_LATER[len(later) :])
            self.by_name[name] = Link(
                name,
                cluster_id,
                bootstrap_servers,
                tuple(topics),
                forwards,
                tuple(groups),
                tuple(ids),
                version,
            )
        self._index()

    def _index(self) -> None:
        links = [link for _, link in sorted(self.by_name.items())]
        self.with_groups = tuple(each for each in links if each.groups)
        self.with_ids = tuple(each for each in links if each.transactional_ids)


def _row(link: Link) -> list[object]:
    """Return a link as builtins; older releases know no transactional ids, or no groups."""
    later = [
        link.forwards,
        list(link.groups),
        list(link.transactional_ids),
        link.transaction_version,
    ]
    while later and not later[-1]:
        later.pop()
    return [link.name, link.cluster_id, link.bootstrap_servers, list(link.topics), *later]
