"""Cases whose clients are Kafka's Java tools.  Each tool is a process of its own, and so is cold.

Number of records: as many as the broker takes in the time of a run, measured while warming up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..brokers.worlds import World
from ..clients import java
from ..lab import Case, Lab
from ..measure.figures import Observation

PRODUCER_RECORDS: Final = 500_000
FIRST_RECORDS: Final = 20_000
LONE_PER_SECOND: Final = 20
LATENCY_RECORDS: Final = 5_000
BUDGET: Final = " with the budget"
TUNED: Final = ("acks=all", "batch.size=1048576", "linger.ms=5")
DEFAULTS: Final = ("acks=all",)


@dataclass(slots=True)
class _Amount:
    """Records a run, by broker."""

    most: int
    seconds: float
    of: dict[str, int] = field(default_factory=dict[str, int])

    def learn(self, broker: World, records: int, seconds: float) -> None:
        self.of[broker.name] = min(self.most, max(records, int(records / seconds * self.seconds)))


def ingest(lab: Lab, label: str, topic: str, settings: Sequence[str]) -> Case:
    """ProducerPerformance as fast as it goes: a2 (TUNED) and a3 (DEFAULTS)."""
    lengths = lab.options.lengths
    most = min(PRODUCER_RECORDS, lengths.run_bytes // java.RECORD_BYTES)
    amount = _Amount(most, lengths.run_seconds)

    def prepare(broker: World) -> None:
        first = java.producer(broker, topic, FIRST_RECORDS, settings)
        told = java.run([first])[0].told
        amount.learn(broker, FIRST_RECORDS, told.get("seconds", 1.0))

    def measure(broker: World) -> Observation:
        records = amount.of[broker.name]
        return java.measured(broker, [java.producer(broker, topic, records, settings)])[0]

    return Case(label, prepare, measure)


def lone(lab: Lab, label: str, topic: str) -> Case:
    """ProducerPerformance at 20 records a second: the time of an acknowledgement."""
    seconds = 2 if lab.options.quick else 10

    def tool(broker: World, records: int) -> java.Tool:
        return java.producer(broker, topic, records, DEFAULTS, throughput=LONE_PER_SECOND)

    def prepare(broker: World) -> None:
        _ = java.run([tool(broker, LONE_PER_SECOND)])

    def measure(broker: World) -> Observation:
        seen, printed = java.measured(broker, [tool(broker, LONE_PER_SECOND * seconds)])
        return Observation(rss_bytes=seen.rss_bytes, more=printed[0].figures)

    return Case(label, prepare, measure)


def fanout(
    lab: Lab, label: str, topic: str, readers: int, fill: Callable[[World, int], None]
) -> Case:
    """ConsumerPerformance from the start, in one group each: c1 and c3."""
    size = min(150_000_000, lab.options.lengths.run_bytes)

    def measure(broker: World) -> Observation:
        records = size // java.RECORD_BYTES
        groups = [f"bench-{secrets.token_hex(4)}" for _ in range(readers)]
        tools = [java.consumer(broker, topic, records, group) for group in groups]
        return java.measured(broker, tools)[0]

    def prepare(broker: World) -> None:
        fill(broker, size + 10_000_000)
        _ = measure(broker)

    return Case(label, prepare, measure)


def latency(lab: Lab, label: str, topic: str) -> Case:
    """EndToEndLatency: d.  Under a request budget each record waits for an eighth of a second."""
    is_slow = lab.options.quick or label.endswith(BUDGET)
    records = 200 if is_slow else LATENCY_RECORDS

    def prepare(broker: World) -> None:
        _ = java.run([java.end_to_end(broker, topic, 100)])

    def measure(broker: World) -> Observation:
        seen, printed = java.measured(broker, [java.end_to_end(broker, topic, records)])
        figures = dict(printed[0].figures)
        if seen.server_cpu is not None:
            figures["cpu ms/record"] = seen.server_cpu * 1e3 / records
        return Observation(rss_bytes=seen.rss_bytes, more=figures)

    return Case(label, prepare, measure)
