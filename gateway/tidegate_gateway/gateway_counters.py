"""Counters for metrics of a whole gateway; its parts have their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class GatewayCounters:
    """Requests by API, produced bytes by topic.  topics: names of the topics that exist."""

    topics: Collection[str] = ()
    requests: Counter[int] = field(default_factory=Counter[int])
    topic_bytes_in: Counter[str] = field(default_factory=Counter[str])

    def count(self, api_key: int) -> None:
        """Count a request of the API."""
        self.requests[api_key] += 1

    def add_bytes_in(self, topic: str, size_bytes: int) -> None:
        """Count produced bytes of a topic."""
        self.topic_bytes_in[topic] += size_bytes
        if len(self.topic_bytes_in) > 2 * len(self.topics) + 100:
            self.forget_deleted()

    def forget_deleted(self) -> None:
        """Drop the counts of deleted topics."""
        for topic in self.topic_bytes_in.keys() - self.topics:
            del self.topic_bytes_in[topic]
