"""connections: the memory of idle connections, bare and with a waiting fetch session."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ..brokers.worlds import World
from ..clients.wire import Wire
from ..errors import BenchError
from ..lab import Lab, new_topic, rows_of
from ..measure import proc
from ..measure.figures import Observation
from ..measure.table import Report, Row

CONNECTIONS: Final = 2_000
QUICK_CONNECTIONS: Final = 300
WARM_CONNECTIONS: Final = 50
WAIT_MS: Final = 120_000  # of a fetch: longer than the whole scenario takes
SETTLE_SECONDS: Final = 1.0
SPARE_FILES: Final = 200


def run(lab: Lab) -> Report:
    """Measure once at each broker; memory varies less from run to run than time."""
    count = QUICK_CONNECTIONS if lab.options.quick else CONNECTIONS
    _allow_files(count + SPARE_FILES)
    rows: list[Row] = []
    for label, waits in (("ApiVersions and Metadata", False), ("and a Fetch that waits", True)):
        if lab.options.wants(label):
            with lab.worlds() as brokers, new_topic(brokers, 1) as topic:
                seen = [[_measure(lab, broker, topic, count, waits)] for broker in brokers]
                rows += rows_of(f"{count} x {label}", [each.name for each in brokers], seen)
    return Report("connections", rows)


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < count:
            raise BenchError(f"connections needs {count} open files: raise ulimit -n")


def _measure(lab: Lab, broker: World, topic: str, count: int, waits: bool) -> Observation:
    if broker.eyes.pid is None:
        raise BenchError("connections measures memory: give --pid of a broker on this machine")

    def converse(wire: Wire) -> None:
        wire.api_versions()
        wire.metadata(topic)
        if waits:
            wire.wait_for_records(topic, WAIT_MS)

    for wire in (warm := _open(broker, WARM_CONNECTIONS, converse)):
        wire.close()
    del warm
    time.sleep(SETTLE_SECONDS)
    before = proc.rss_bytes(broker.eyes.pid)
    begun = time.perf_counter()
    wires = _open(broker, count, converse)
    seconds = time.perf_counter() - begun
    time.sleep(SETTLE_SECONDS)
    after = proc.rss_bytes(broker.eyes.pid)
    for wire in wires:
        wire.close()
    lab.say(f"{broker.name}: {count} connections")
    figures = {
        "RSS MB before": before / 1e6,
        "RSS MB after": after / 1e6,
        "KiB each": (after - before) / 1024 / count,
        "opened/s": count / seconds,
    }
    return Observation(more=figures)


def _open(broker: World, count: int, converse: Callable[[Wire], None]) -> Sequence[Wire]:
    wires: list[Wire] = []
    for _ in range(count):
        wire = Wire.connect(broker.bootstrap)
        wires.append(wire)
        converse(wire)
    return wires
