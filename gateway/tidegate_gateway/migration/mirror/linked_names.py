"""The names of topics that links mirror, also of topics that do not exist yet."""

from __future__ import annotations

from tidegate_coordination.name_patterns import BadPattern
from tidegate_coordination.state.migration.links import LinkTable

from .source_topics import TopicPatterns


class LinkedNames:
    """Remembers the compiled patterns of all links until one changes."""

    def __init__(self, links: LinkTable) -> None:
        self._links = links
        self._patterns: list[TopicPatterns] = []
        self._as_of = -1

    def matches(self, topic: str) -> bool:
        """Return whether a link mirrors topics of this name."""
        if self._as_of != self._links.version:
            found = (_patterns(each.topics) for each in self._links.by_name.values())
            self._patterns = [each for each in found if each is not None]
            self._as_of = self._links.version
        return any(each.matches(topic) for each in self._patterns)


def _patterns(texts: tuple[str, ...]) -> TopicPatterns | None:
    try:
        return TopicPatterns(texts)
    except BadPattern:
        return None  # a pattern of another release; the link's task logs the error
