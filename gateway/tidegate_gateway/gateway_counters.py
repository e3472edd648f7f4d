"""Counters for metrics of a whole gateway; the parts of a gateway have further counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial

import trio

from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.histograms import Histogram

from .counting.error_counts import ErrorCounts
from .counting.refused_features import RefusedFeatures
from .counting.slow_requests import SlowRequests, Waits, seconds_of
from .counting.topic_counters import TopicCounters
from .counting.topic_series import MAX_TOPIC_SERIES, TopicSeries
from .network.call import Peer
from .settings.broker_settings import BrokerSettings
from .topics.internal_topics import INTERNAL_TOPICS


@dataclass(slots=True)
class RequestTimes:
    """The times of one API's requests.

    total: from a request's last byte to its answer.  queue: from its last byte to the start of its
    handler; requests of one client that arrive together wait for each other.
    """

    total: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class FetchTimes:
    """The times of fetches.  wait: the waits for records.  local: all other work of each fetch.

    waiting: the number of fetches that are waiting now.
    """

    wait: Histogram = field(default_factory=Histogram)
    local: Histogram = field(default_factory=Histogram)
    waiting: int = 0


@dataclass(slots=True)
class GatewayCounters:
    """Counts of requests, errors and times by API, and counts by topic.

    times: of all APIs but Produce, whose times are in produce_times.py.  slow: logs slow requests.
    refused: logs requests for features that are not served.  series: the topics that metrics name.
    """

    topics: TopicCounters = field(default_factory=TopicCounters)
    requests: Counter[int] = field(default_factory=Counter[int])
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    times: dict[int, RequestTimes] = field(default_factory=lambda: defaultdict(RequestTimes))
    fetches: FetchTimes = field(default_factory=FetchTimes)
    slow: SlowRequests = field(default_factory=SlowRequests)
    refused: RefusedFeatures = field(default_factory=partial(RefusedFeatures, trio.current_time))
    series: TopicSeries = field(init=False)

    def __post_init__(self) -> None:
        """Make the part that chooses the topics with their own series."""
        is_internal = INTERNAL_TOPICS.__contains__
        self.series = TopicSeries(self.topics, is_internal, MAX_TOPIC_SERIES)

    def count(self, api_key: int) -> None:
        """Count a request of the API."""
        self.requests[api_key] += 1

    def answered(
        self, api_key: int, waits: Waits, peer: Peer, received: float, began: float
    ) -> None:
        """Count the times of an answered request: when it came, and when its handler began."""
        now, times = trio.current_time(), self.times[api_key]
        times.queue.add(began - received)
        times.total.add(now - received)
        if now - received >= self.slow.after_seconds:
            self.slow.note_answered(api_key, waits, peer, received, began, now)


def gateway_counters(state: ClusterState, settings: BrokerSettings) -> GatewayCounters:
    """Return the counters of a gateway."""
    slow = SlowRequests(seconds_of(settings.int("slow.request.log.ms")))
    return GatewayCounters(TopicCounters(state.topics.by_name), slow=slow)
