"""transactions: what their ends cost, with one producer and with many, and what their batches cost.

The clients are bare (clients/transact.py), so that the broker is the limit.  Version 2 sends
Produce v12 and EndTxn v5, version 1 AddPartitionsToTxn v3, Produce v11 and EndTxn v4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..brokers import bare
from ..brokers.worlds import Gateway, World
from ..clients import workers
from ..clients.spec import KIB, Told, Transact
from ..lab import Case, Lab, new_topic, rows_of
from ..measure import samples
from ..measure.figures import Observation, percentile
from ..measure.samples import Sample
from ..measure.table import Report, Row

PARTITIONS: Final = 16
SMALL_BYTES: Final = 100
WARM_SHARE: Final = 2  # times a run, as a JVM needs
POSITION: Final = "tidegate_log_position"
NOTE: Final = (
    "end: from EndTxn to its answer; own ms: end p50 less the median of a bare append; entries: of"
    " the metadata log; cpu: the server's; busy: answers CONCURRENT_TRANSACTIONS"
)


@dataclass(frozen=True, slots=True)
class _Load:
    """version 0: of an idempotent producer."""

    label: str
    version: int
    producers: int
    batches: int = 1
    batch_bytes: int = SMALL_BYTES
    in_flight: int = 5

    @property
    def is_of_bytes(self) -> bool:
        """Return whether its figure is the cost of a megabyte, not of an end."""
        return self.batch_bytes > SMALL_BYTES


def _bytes(label: str, producers: int, batches: int, batch_bytes: int) -> tuple[_Load, ...]:
    kinds = {"idempotent": 0, "transactional": 2, "transactional v1": 1}
    return tuple(
        _Load(f"{label} {kind}", version, producers, batches, batch_bytes)
        for kind, version in kinds.items()
    )


_SMALL: Final = tuple(
    _Load(f"{producers} producers v{version}", version, producers)
    for producers in (1, 64)
    for version in (2, 1)
)
_QUICK: Final = (_SMALL[0],)
_ALL: Final = (
    *_SMALL,
    *_bytes("16K, 100 a transaction", 16, 100, 16 * KIB),
    *_bytes("1M, 20 a transaction", 4, 20, 1000 * KIB),
)


def run(lab: Lab) -> Report:
    """Measure all loads, each kind at a gateway of its own."""
    rows: list[Row] = []
    loads = [each for each in (_QUICK if lab.options.quick else _ALL) if _is_wanted(lab, each)]
    for each in loads:
        if lab.options.bootstrap is not None:
            with lab.worlds() as brokers:
                rows += _rows(lab, brokers, each, 0.0)
        else:
            with lab.gateway() as gateway:
                brokers = [gateway.world, *lab.rivals()]
                append_ms = 0.0 if each.is_of_bytes else _append_ms(gateway)
                rows += _rows(lab, brokers, each, append_ms)
    return Report("transactions", rows, (NOTE,))


def _is_wanted(lab: Lab, load: _Load) -> bool:
    return lab.options.wants(load.label)


def _append_ms(gateway: Gateway) -> float:
    return bare.append_ms(gateway.log_url)


def _rows(lab: Lab, brokers: Sequence[World], load: _Load, append_ms: float) -> list[Row]:
    with new_topic(brokers, PARTITIONS) as topic:
        rows = lab.contest(brokers, _case(lab, load, topic, append_ms))
    if not append_ms:
        return rows
    figures = Observation(more={"append p50 ms": append_ms})
    return [*rows_of(f"{load.label}: log alone", ["bare"], [[figures]]), *rows]


def _case(lab: Lab, load: _Load, topic: str, append_ms: float) -> Case:
    seconds = lab.options.lengths.run_seconds

    def spec(broker: World, max_seconds: float) -> Transact:
        return Transact(
            broker.bootstrap,
            topic,
            PARTITIONS,
            load.producers,
            load.version,
            load.batches,
            load.batch_bytes,
            load.in_flight,
            max_seconds,
        )

    def prepare(broker: World) -> None:
        _ = workers.run([spec(broker, WARM_SHARE * seconds)])

    def measure(broker: World) -> Observation:
        before, told, after = _measured(broker, spec(broker, seconds))
        if load.is_of_bytes:
            return samples.between(
                broker.eyes,
                before,
                after,
                payload_bytes=told.get("payload_bytes", 0),
                seconds=told.get("seconds", 0.0),
            )
        own = {"append p50 ms": append_ms} if broker.is_ours and append_ms else {}
        return Observation(more=_figures(told, before, after, own))

    return Case(load.label, prepare, measure)


def _measured(broker: World, spec: Transact) -> tuple[Sample, Told, Sample]:
    with workers.ready([spec]) as (client,):
        before = samples.look(broker.eyes, first=True)
        client.go()
        told = client.told()
        return before, told, samples.look(broker.eyes, first=False)


def _figures(told: Told, before: Sample, after: Sample, own: dict[str, float]) -> dict[str, float]:
    """Return what an end took, and what a transaction cost."""
    count = max(1, told.get("transactions", 0))
    latencies = told.get("latencies", []) or [0.0]
    figures = {
        "end p50 ms": percentile(latencies, 0.5) * 1e3,
        "end p99 ms": percentile(latencies, 0.99) * 1e3,
        "transactions/s": count / told.get("seconds", 1.0),
        "busy": float(told.get("concurrent", 0)),
    }
    if own:
        figures["own ms"] = figures["end p50 ms"] - own["append p50 ms"]
    if before.server_cpu is not None and after.server_cpu is not None:
        figures["cpu ms/transaction"] = (after.server_cpu - before.server_cpu) * 1e3 / count
    if POSITION in after.counters:
        entries = after.counters[POSITION] - before.counters[POSITION]
        figures["entries/transaction"] = entries / count
    return figures
