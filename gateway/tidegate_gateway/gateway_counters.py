"""Counters for metrics of a whole gateway; its parts have their own."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tidegate_runtime.histograms import Histogram

from .counting.error_counts import ErrorCounts
from .counting.topic_counters import TopicCounters


@dataclass(slots=True)
class RequestTimes:
    """The times of one API's requests.

    total: from a request's last byte to its answer.  queue: until its handler begins; requests of
    one client that arrive together wait for each other.
    """

    total: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class FetchTimes:
    """The times of fetches: of each, how long it waited for records, and the rest of its work.

    waiting: fetches that wait just now.
    """

    wait: Histogram = field(default_factory=Histogram)
    local: Histogram = field(default_factory=Histogram)
    waiting: int = 0


@dataclass(slots=True)
class GatewayCounters:
    """Requests, errors and times by API; numbers by topic.

    times: of all APIs but Produce, see produce_times.py.
    """

    topics: TopicCounters = field(default_factory=TopicCounters)
    requests: Counter[int] = field(default_factory=Counter[int])
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    times: dict[int, RequestTimes] = field(default_factory=lambda: defaultdict(RequestTimes))
    fetches: FetchTimes = field(default_factory=FetchTimes)

    def count(self, api_key: int) -> None:
        """Count a request of the API."""
        self.requests[api_key] += 1

    def answered(self, api_key: int, received: float, began: float, now: float) -> None:
        """Count the times of an answered request: when it came, and when its handler began."""
        times = self.times[api_key]
        times.queue.add(began - received)
        times.total.add(now - received)
