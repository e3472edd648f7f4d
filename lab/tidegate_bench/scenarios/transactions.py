"""transactions: what their ends cost, with one producer and with many, and what their batches cost.

The clients are bare (clients/transact.py), so that the broker is the limit.  Version 2 sends
Produce v12 and EndTxn v5, version 1 AddPartitionsToTxn v3, Produce v11 and EndTxn v4.  The loads of
a kind run in turns at the same gateway, and at Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..brokers import bare
from ..brokers.worlds import World
from ..clients import workers
from ..clients.spec import KIB, Told, Transact
from ..lab import Case, Lab, new_topic, rows_of
from ..measure import samples
from ..measure.figures import Observation, Spread, figures_of, percentile, spreads_of
from ..measure.samples import Sample
from ..measure.table import Report, Row, ratio_row

PARTITIONS: Final = 16
SMALL_BYTES: Final = 100
IN_FLIGHT: Final = 5
WARM_SHARE: Final = 2  # a warm-up is twice as long as a run, for the JVM
POSITION: Final = "tidegate_log_position"
NOTE: Final = (
    "end: from EndTxn to its answer; append: the median of bare appends just before the run; own:"
    " end p50 less that; entries: of the metadata log; cpu: the server's; busy: answers"
    " CONCURRENT_TRANSACTIONS"
)


@dataclass(frozen=True, slots=True)
class _Load:
    """version 0: of an idempotent producer."""

    label: str
    version: int
    producers: int
    batches: int = 1
    batch_bytes: int = SMALL_BYTES

    @property
    def is_of_bytes(self) -> bool:
        """Return whether its figure is the cost of a megabyte, not of an end."""
        return self.batch_bytes > SMALL_BYTES

    def spec(self, broker: World, topic: str, max_seconds: float) -> Transact:
        return Transact(
            broker.bootstrap,
            topic,
            PARTITIONS,
            self.producers,
            self.version,
            self.batches,
            self.batch_bytes,
            IN_FLIGHT,
            max_seconds,
        )


def _small(label: str, producers: int) -> tuple[_Load, ...]:
    return tuple(_Load(f"{label} v{version}", version, producers) for version in (2, 1))


def _bytes(label: str, producers: int, batches: int, batch_bytes: int) -> tuple[_Load, ...]:
    kinds = {"idempotent": 0, "transactional v2": 2, "transactional v1": 1}
    return tuple(
        _Load(f"{label} {kind}", version, producers, batches, batch_bytes)
        for kind, version in kinds.items()
    )


_QUICK: Final = (_small("1 producer,", 1)[:1],)
_ALL: Final = (
    _small("1 producer,", 1),
    _small("64 producers,", 64),
    _bytes("16K, 500 a transaction,", 32, 500, 16 * KIB),
    _bytes("1M, 20 a transaction,", 4, 20, 1000 * KIB),
)


def run(lab: Lab) -> Report:
    """Measure all loads, each kind at a gateway of its own."""
    rows: list[Row] = []
    for kind in _QUICK if lab.options.quick else _ALL:
        loads = [each for each in kind if lab.options.wants(each.label)]
        if loads and lab.options.bootstrap is not None:
            with lab.worlds() as brokers:
                rows += _contest(lab, brokers, loads, "")
        elif loads:
            with lab.gateway() as gateway:
                brokers = [gateway.world, *lab.rivals()]
                rows += _contest(lab, brokers, loads, gateway.log_url)
    return Report("transactions", rows, (NOTE,))


def _contest(lab: Lab, brokers: Sequence[World], loads: Sequence[_Load], log_url: str) -> list[Row]:
    """Measure loads and brokers in turns."""
    seen: dict[tuple[str, str], list[Observation]] = {}
    with new_topic(brokers, PARTITIONS) as topic:
        cases = [_case(lab, each, topic, log_url) for each in loads]
        turns = [(case, broker) for case in cases for broker in brokers]
        for case, broker in turns:
            lab.say(f"{case.label}: {broker.name} warms up")
            case.prepare(broker)
        for number in range(lab.options.lengths.runs):
            for case, broker in turns:
                found = case.measure(broker)
                seen.setdefault((case.label, broker.name), []).append(found)
                lab.say(f"{case.label}: {broker.name} run {number + 1}: {_brief(found)}")
    names = [broker.name for broker in brokers]
    rows = [
        row
        for case in cases
        for row in rows_of(case.label, names, [seen[case.label, name] for name in names])
    ]
    return [*rows, *(row for name in names for row in _compared(loads, name, seen))]


def _compared(
    loads: Sequence[_Load], name: str, seen: Mapping[tuple[str, str], Sequence[Observation]]
) -> list[Row]:
    """Return the figures of transactional loads, divided by those of the first, idempotent load."""
    if loads[0].version:
        return []

    def spreads(load: _Load) -> dict[str, Spread]:
        return spreads_of([figures_of(each) for each in seen[load.label, name]])

    return [
        ratio_row(f"{each.label}, over idempotent, {name}", spreads(each), spreads(loads[0]))
        for each in loads[1:]
    ]


def _case(lab: Lab, load: _Load, topic: str, log_url: str) -> Case:
    seconds = lab.options.lengths.run_seconds

    def prepare(broker: World) -> None:
        _ = workers.run([load.spec(broker, topic, WARM_SHARE * seconds)])

    def measure(broker: World) -> Observation:
        is_timed = bool(log_url) and broker.is_ours and not load.is_of_bytes
        append_ms = bare.append_ms(log_url) if is_timed else 0.0
        before, told, after = _measured(broker, load.spec(broker, topic, seconds))
        if load.is_of_bytes:
            return samples.between(
                broker.eyes,
                before,
                after,
                payload_bytes=told.get("payload_bytes", 0),
                seconds=told.get("seconds", 0.0),
            )
        figures = _figures(told, before, after)
        if append_ms:
            figures |= {"append ms": append_ms, "own ms": figures["end p50 ms"] - append_ms}
        return Observation(more=figures)

    return Case(load.label, prepare, measure)


def _measured(broker: World, spec: Transact) -> tuple[Sample, Told, Sample]:
    with workers.ready([spec]) as (client,):
        before = samples.look(broker.eyes, first=True)
        client.go()
        told = client.told()
        return before, told, samples.look(broker.eyes, first=False)


def _figures(told: Told, before: Sample, after: Sample) -> dict[str, float]:
    """Return the latency of an EndTxn, and the cost of a transaction."""
    count = max(1, told.get("transactions", 0))
    latencies = told.get("latencies", []) or [0.0]
    figures = {
        "end p50 ms": percentile(latencies, 0.5) * 1e3,
        "end p99 ms": percentile(latencies, 0.99) * 1e3,
        "transactions/s": count / told.get("seconds", 1.0),
        "busy": float(told.get("concurrent", 0)),
    }
    if before.server_cpu is not None and after.server_cpu is not None:
        figures["cpu ms/transaction"] = (after.server_cpu - before.server_cpu) * 1e3 / count
    if POSITION in after.counters:
        entries = after.counters[POSITION] - before.counters[POSITION]
        figures["entries/transaction"] = entries / count
    return figures


def _brief(seen: Observation) -> str:
    return ", ".join(f"{value:.2f} {name}" for name, value in list(figures_of(seen).items())[:3])
