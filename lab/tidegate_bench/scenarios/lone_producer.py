"""lone-producer: one idempotent producer with its defaults, five in flight, at a slow store.

Its limit is in flight x batch / latency, of which only the latency depends on the broker.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from ..brokers.delayed_store import delayed
from ..brokers.worlds import World
from ..clients import workers
from ..clients.spec import Produce
from ..lab import Case, Lab, measured, new_topic
from ..measure.figures import Observation
from ..measure.table import Report, Row
from . import java_cases

PARTITIONS: Final = 16
CHUNK_BYTES: Final = 102_400


def run(lab: Lab) -> Report:
    """Measure at our gateway with delayed PUTs, and at the other broker without a delay."""
    rows: list[Row] = []
    with ExitStack() as stack:
        delay_ms = lab.options.delay_ms if lab.options.bootstrap is None else 0.0
        through = stack.enter_context(delayed(delay_ms, "PUT")) if delay_ms else None
        brokers = stack.enter_context(lab.worlds(through=through))
        topic = stack.enter_context(new_topic(brokers, PARTITIONS))
        if lab.options.uses_librdkafka:
            rows += lab.contest(brokers, _case(lab, topic, delay_ms))
        if lab.options.uses_java:
            label = f"Java defaults, PUT +{delay_ms:g} ms"
            case = java_cases.ingest(lab, label, topic, java_cases.DEFAULTS)
            rows += lab.contest(brokers, case)
    notes = (f"each PUT of our store takes {delay_ms:g} ms longer",) if delay_ms else ()
    return Report("lone-producer", rows, notes)


def _case(lab: Lab, topic: str, delay_ms: float) -> Case:
    lengths = lab.options.lengths

    def spec(broker: World, max_bytes: int, max_seconds: float) -> Produce:
        return Produce(
            broker.bootstrap,
            topic,
            PARTITIONS,
            CHUNK_BYTES,
            max_bytes,
            max_seconds,
            idempotent=True,
            own_batching=True,
        )

    def prepare(broker: World) -> None:
        _ = workers.run([spec(broker, lengths.warm_bytes, lengths.warm_seconds / 2)])

    def measure(broker: World) -> Observation:
        return measured(broker, [spec(broker, lengths.run_bytes, lengths.run_seconds)])[0]

    return Case(f"librdkafka defaults, idempotent, PUT +{delay_ms:g} ms", prepare, measure)
