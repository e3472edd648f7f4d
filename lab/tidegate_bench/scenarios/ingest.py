"""ingest: the cost of taking in 1 KiB records, by size of batches, partitions, connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from ..brokers.worlds import World
from ..clients import workers
from ..clients.spec import Produce
from ..lab import Case, Lab, measured, new_topic
from ..measure.figures import Observation
from ..measure.table import Report, Row
from . import java_cases

_SIZES: Final = {"1MB": 1_000_000, "16K": 16_384}


@dataclass(frozen=True, slots=True)
class _Load:
    size: str
    partitions: int
    connections: int
    idempotent: bool
    codec: str = ""

    @property
    def label(self) -> str:
        kind = self.codec or ("idempotent" if self.idempotent else "plain")
        return f"{self.size} {self.partitions}p {self.connections}c {kind}"

    def spec(self, broker: World, topic: str, max_bytes: int, max_seconds: float) -> Produce:
        return Produce(
            broker.bootstrap,
            topic,
            self.partitions,
            _SIZES[self.size],
            max_bytes,
            max_seconds,
            producers=self.connections,
            idempotent=self.idempotent,
            codec=self.codec,
        )


_JAVA: Final = {
    "a2 Java 1 MiB, linger 5": java_cases.TUNED,
    "a3 Java defaults": java_cases.DEFAULTS,
}
_JAVA_PARTITIONS: Final = 16
_QUICK: Final = (_Load("1MB", 16, 1, False), _Load("16K", 16, 1, False))
_USUAL: Final = (
    _Load("1MB", 16, 1, False),
    _Load("1MB", 16, 1, True),
    _Load("1MB", 1, 1, False),
    _Load("1MB", 1000, 1, False),
    _Load("1MB", 16, 64, False),
    _Load("16K", 16, 1, False),
    _Load("16K", 16, 1, True),
    _Load("16K", 1000, 1, False),
    _Load("16K", 16, 64, False),
)
_COMPRESSED: Final = tuple(
    _Load(size, 16, 1, False, codec) for size, codec in product(_SIZES, ("lz4", "zstd"))
)
_ALL: Final = (
    *(_Load(*each) for each in product(_SIZES, (1, 16, 1000), (1, 64), (False, True))),
    *_COMPRESSED,
)


def run(lab: Lab) -> Report:
    """Measure all loads, each at a fresh gateway."""
    rows: list[Row] = []
    for load in _loads(lab):
        with lab.worlds() as brokers, new_topic(brokers, load.partitions) as topic:
            rows += lab.contest(brokers, _case(lab, load, topic))
    for label, settings in _JAVA.items():
        if lab.options.uses_java and lab.options.wants(label):
            with lab.worlds() as brokers, new_topic(brokers, _JAVA_PARTITIONS) as topic:
                rows += lab.contest(brokers, java_cases.ingest(lab, label, topic, settings))
    return Report("ingest", rows)


def _loads(lab: Lab) -> Sequence[_Load]:
    options = lab.options
    if not options.uses_librdkafka:
        return []
    loads = _ALL if options.all_cases else _QUICK if options.quick else _USUAL
    if options.only:
        loads = _ALL  # --only may name any case
    return [load for load in loads if options.wants(load.label)]


def _case(lab: Lab, load: _Load, topic: str) -> Case:
    lengths = lab.options.lengths

    def prepare(broker: World) -> None:
        spec = load.spec(broker, topic, lengths.warm_bytes, lengths.warm_seconds)
        _ = workers.run([spec])

    def measure(broker: World) -> Observation:
        spec = load.spec(broker, topic, lengths.run_bytes, lengths.run_seconds)
        return measured(broker, [spec])[0]

    return Case(load.label, prepare, measure)
