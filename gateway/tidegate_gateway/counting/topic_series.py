"""Chooses the topics with their own series on the metrics page if there are too many topics.

One series, OTHER, sums all other topics.  OTHER must not fall when a topic gets its own series:
Prometheus takes a falling counter for a restart.  So OTHER keeps the counts of a topic that leaves
it, and the topic's own series counts from that moment on.  When a topic loses its series, OTHER
counts the topic from that moment on.

Every CHOICE_SECONDS the topics with the most bytes since the last choice get the series.  A topic
with a series keeps it unless another topic has twice as many bytes, so few series come and go.
Internal topics come last.  A look takes a few steps for each topic, nearly all of these in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .topic_counters import BYTES_IN, BYTES_OUT, Row, TopicCounters, total, zeros

MAX_TOPIC_SERIES: Final = 1000
CHOICE_SECONDS: Final = 300.0
OTHER: Final = "_other"
"""The label of the topics without series.  A topic of that name is counted with them."""
_LOYALTY: Final = 2


class TopicSeries:
    """See the module's head.

    Args:
      counters: the counts of all topics.
      is_internal: whether a topic is one of Kafka's internal ones.
      most: how many topics have series.

    own: the topics with series, as of the last look, the most active ones first.
    """

    def __init__(
        self, counters: TopicCounters, is_internal: Callable[[str], bool], most: int
    ) -> None:
        self._counters = counters
        self._is_internal = is_internal
        self._most = most
        self.own: dict[str, None] = {}
        # The topics that OTHER counted at the last look.
        self._hidden: set[str] = set()
        # At the last look, the rows of the topics with series.
        self._at_look: dict[str, Row] = {}
        # A topic's row as it was when it last left OTHER, or when its series was last shown.
        self._since: dict[str, Row] = {}
        self._others_kept = zeros()
        self._bytes_before: dict[str, int] = {}
        self._choose_at = 0.0
        counters.on_gone = self._gone

    def look(self, now: float) -> tuple[list[tuple[str, Row]], Row]:
        """Return the topics with series and their rows, the most active ones first; and OTHER.

        now: seconds of one clock.
        """
        rows = self._counters.rows
        self._counters.forget_deleted()
        if now >= self._choose_at or len(self.own) < min(len(rows), self._most):
            self._choose_at = now + CHOICE_SECONDS
            self._change(self._chosen())
        self._hidden = rows.keys() - self.own.keys()
        self._at_look = {name: rows[name].copy() for name in self.own}
        shown = [(name, self._counted(name)) for name in self.own]
        return shown, self._others()

    @property
    def others(self) -> int:
        """Return how many topics OTHER counts, as of the last look."""
        return len(self._hidden)

    def _chosen(self) -> list[str]:
        before, own = self._bytes_before, self.own
        self._bytes_before = sizes = {
            name: row[BYTES_IN] + row[BYTES_OUT] for name, row in self._counters.rows.items()
        }

        def order(name: str) -> tuple[bool, int]:
            recent = sizes[name] - before.get(name, 0)
            return self._is_internal(name), -recent * (_LOYALTY if name in own else 1)

        return sorted(filter(OTHER.__ne__, sizes), key=order)[: self._most]

    def _change(self, chosen: list[str]) -> None:
        rows, own = self._counters.rows, self.own
        self.own = dict.fromkeys(chosen)
        gained = [name for name in chosen if name in self._hidden]
        self._others_kept = total([self._others_kept, *map(self._counted, gained)])
        self._since.update((name, rows[name].copy()) for name in gained)
        # OTHER includes the counts since the last look, since the topic's own series never shows
        # them.
        self._since.update((name, self._at_look[name]) for name in own if name not in self.own)

    def _counted(self, name: str) -> Row:
        row, since = self._counters.rows[name], self._since.get(name)
        if since is None:
            return row
        return [each - before for each, before in zip(row, since, strict=True)]

    def _others(self) -> Row:
        rows, hidden = self._counters.rows, self._hidden
        counted = total([self._others_kept, *map(rows.__getitem__, hidden)])
        since = total(map(self._since.__getitem__, hidden & self._since.keys()))
        return [each - before for each, before in zip(counted, since, strict=True)]

    def _gone(self, topic: str, row: Row) -> None:
        since = self._since.pop(topic, None) or zeros()
        self._bytes_before.pop(topic, None)
        self._hidden.discard(topic)
        if topic in self.own:
            del self.own[topic]
            return
        counted = [each - before for each, before in zip(row, since, strict=True)]
        self._others_kept = total([self._others_kept, counted])
