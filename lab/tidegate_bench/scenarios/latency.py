"""latency: 100-byte records one by one, until acknowledged or until read back by a consumer.

Idle: no other load.  Busy: beside a producer at a fixed, modest pace.  Each with the default budget
of requests to the store, and without a budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from ..brokers import bare
from ..brokers.worlds import Gateway, World
from ..clients import workers
from ..clients.spec import OneByOne, Produce, Spec
from ..lab import Case, Lab, measured, new_topic, rows_of
from ..measure.figures import Observation, latency_figures
from ..measure.table import Report, Row
from . import java_cases

BUSY_BYTES_PER_SECOND: Final = 5_000_000
BUSY_PARTITIONS: Final = 4
BUSY_BATCH_BYTES: Final = 16_384
NO_BUDGET: Final = {"wal.put.budget.per.second": "0"}
_JAVA: Final = {"d Java end to end": java_cases.latency, "Java 20 records/s": java_cases.lone}
NOTE: Final = (
    "own ms: p50 less the medians of a bare PUT and a bare append; cpu ms/record is the server's"
)


@dataclass(frozen=True, slots=True)
class _Kind:
    label: str
    read_back: bool
    is_busy: bool


_KINDS: Final = (
    _Kind("idle ack", read_back=False, is_busy=False),
    _Kind("idle end to end", read_back=True, is_busy=False),
    _Kind("busy ack", read_back=False, is_busy=True),
    _Kind("busy end to end", read_back=True, is_busy=True),
)


_LABELS: Final = (*(kind.label for kind in _KINDS), *_JAVA)


def run(lab: Lab) -> Report:
    """Measure at a gateway with the default budget, and at one without."""
    rows: list[Row] = []
    if lab.options.bootstrap is not None:
        with lab.worlds() as brokers:
            return Report("latency", _rows(lab, brokers, "", 0.0))
    for more, settings in _budgets(lab):
        if any(lab.options.wants(label + more) for label in _LABELS):
            with ExitStack() as stack:
                gateway = stack.enter_context(lab.gateway(settings))
                bare_ms, row = _bare(gateway, more)
                brokers = [gateway.world, *lab.rivals()]
                rows += [row, *_rows(lab, brokers, more, bare_ms)]
    return Report("latency", rows, (NOTE,))


def _budgets(lab: Lab) -> Sequence[tuple[str, Mapping[str, str]]]:
    if lab.options.store in ("memory", "file"):
        return [("", {})]  # their requests cost nothing, so they have no budget
    without = (" no budget", NO_BUDGET)
    return [without] if lab.options.quick else [without, (java_cases.BUDGET, {})]


def _bare(gateway: Gateway, more: str) -> tuple[float, Row]:
    put_ms, append_ms = 0.0, 0.0
    if gateway.store_url != "memory:":
        put_ms, append_ms = bare.put_and_append_ms(gateway.store_url, gateway.log_url)
    figures = {"bare PUT ms": put_ms, "bare append ms": append_ms}
    row = rows_of(f"store and log{more}", ["alone"], [[Observation(more=figures)]])[0]
    return put_ms + append_ms, row


def _rows(lab: Lab, brokers: Sequence[World], more: str, bare_ms: float) -> list[Row]:
    rows = _java(lab, brokers, more) if lab.options.uses_java else []
    if not lab.options.uses_librdkafka:
        return rows
    for kind in _KINDS:
        if lab.options.wants(kind.label + more):
            with (
                new_topic(brokers, 1) as topic,
                new_topic(brokers, BUSY_PARTITIONS) as busy_topic,
            ):
                case = _case(lab, kind, (topic, busy_topic), bare_ms)
                rows += lab.contest(brokers, replace(case, label=kind.label + more))
    return rows


def _java(lab: Lab, brokers: Sequence[World], more: str) -> list[Row]:
    rows: list[Row] = []
    for label, make in _JAVA.items():
        if lab.options.wants(label + more):
            with new_topic(brokers, 1) as topic:
                rows += lab.contest(brokers, make(lab, label + more, topic))
    return rows


def _case(lab: Lab, kind: _Kind, topics: tuple[str, str], bare_ms: float) -> Case:
    lengths = lab.options.lengths
    topic, busy_topic = topics

    def specs(broker: World, records: int, seconds: float) -> list[Spec]:
        asked: list[Spec] = [OneByOne(broker.bootstrap, topic, records, seconds, kind.read_back)]
        if kind.is_busy:
            asked.append(_background(broker, busy_topic, seconds))
        return asked

    def prepare(broker: World) -> None:
        _ = workers.run(specs(broker, lengths.records // 10, 1.0))

    def measure(broker: World) -> Observation:
        seconds = lengths.record_seconds
        # When busy, both continue for the whole time.
        records = 1_000_000 if kind.is_busy else lengths.records
        seen, told = measured(broker, specs(broker, records, seconds))
        latencies = told[0].get("latencies", [])
        figures = latency_figures(latencies) | {"records": float(len(latencies))}
        if bare_ms and not kind.is_busy and not kind.read_back and broker.is_ours:
            figures["own ms"] = figures["p50 ms"] - bare_ms
        if not kind.is_busy and seen.server_cpu is not None:
            figures["cpu ms/record"] = seen.server_cpu * 1e3 / len(latencies)
        return Observation(rss_bytes=seen.rss_bytes, more=figures)

    return Case(kind.label, prepare, measure)


def _background(broker: World, topic: str, seconds: float) -> Produce:
    return Produce(
        broker.bootstrap,
        topic,
        BUSY_PARTITIONS,
        BUSY_BATCH_BYTES,
        int(BUSY_BYTES_PER_SECOND * seconds),
        seconds,
        bytes_per_second=BUSY_BYTES_PER_SECOND,
    )
