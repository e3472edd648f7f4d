"""The metrics of topics: the work of this gateway, by topic.

A topic without series of its own is counted in the series of OTHER (topic_series.py).  As in Kafka,
a series without a topic is the sum over all topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate_protocol.apis import ApiKey
from tidegate_runtime.prometheus import BREAK, Break, Family, Series, counter, gauge, label, line

from ..counting.topic_counters import (
    BYTES_IN,
    BYTES_OUT,
    BYTES_REJECTED,
    FAILED_FETCH,
    FAILED_PRODUCE,
    FETCHED,
    MESSAGES_IN,
    PRODUCED,
    Row,
)
from ..counting.topic_series import OTHER
from ..gateway import Gateway

_BY_TOPIC: Final = (
    ("bytesin", BYTES_IN, "Bytes of batches produced"),
    ("messagesin", MESSAGES_IN, "Records produced"),
    ("totalproducerequests", PRODUCED, "Produce requests; by topic: batches"),
    ("failedproducerequests", FAILED_PRODUCE, "Partitions whose produce failed"),
    ("bytesrejected", BYTES_REJECTED, "Bytes of batches refused as too large"),
    ("bytesout", BYTES_OUT, "Bytes of batches fetched"),
    ("totalfetchrequests", FETCHED, "Fetch requests; by topic: partitions with records"),
    ("failedfetchrequests", FAILED_FETCH, "Partitions whose fetch failed"),
)


def topic_metrics(gateway: Gateway, now: float) -> Iterator[Family | Break]:
    """Yield the metrics by topic.  now: seconds on Trio's clock."""
    counters, series = gateway.counters, gateway.counters.series
    yield BREAK
    shown, others = series.look(now)
    yield BREAK
    whole = counters.topics.whole()
    requests = {
        PRODUCED: counters.requests[ApiKey.PRODUCE],
        FETCHED: counters.requests[ApiKey.FETCH],
    }
    for name, place, help_text in _BY_TOPIC:
        name = f"kafka_server_brokertopicmetrics_{name}_total"
        total = requests.get(place, whole[place])
        yield Series(name, help_text, "counter", _topic_lines(name, place, total, shown, others))
    yield counter("kafka_server_brokertopicmetrics_producemessageconversions", "Always 0", 0)
    yield gauge("tidegate_topics_without_series", f"Topics counted as {OTHER}", series.others)


def _topic_lines(
    name: str, place: int, total: int, shown: list[tuple[str, Row]], others: Row
) -> Iterator[str]:
    yield line(name, "", total)
    for topic, row in shown:
        yield line(name, label("topic", topic), row[place])
    if any(others):
        yield line(name, label("topic", OTHER), others[place])
