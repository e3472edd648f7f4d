"""cold-read: reading uncached data from the start, compared with the store's own speed.

Each run begins with a start of the gateway and an empty disk cache, if it has one.  If many clients
read, the gateway's memory is smaller than the data.  Segments are those of `tidegate pipeline`; WAL
objects are read as if no pipeline ran.  A store on this machine shares its CPU, and answers at
once; so one case delays each of its answers as S3 does.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidegate_pipeline.commands.options import MAX_FAILURES, Options
from tidegate_pipeline.planning.limits import MergeSettings

from ..brokers.bare_reads import Reading, read_all
from ..brokers.delayed_store import delayed
from ..brokers.pipeline_process import pipeline_process
from ..brokers.worlds import Gateway, World
from ..clients import java, workers
from ..clients.spec import Produce, Read
from ..errors import BenchError
from ..lab import Lab, measured, new_topic, rows_of
from ..measure import samples
from ..measure.figures import Observation
from ..measure.table import Report, Row

PARTITIONS: Final = 8
BATCH_BYTES: Final = 1_000_000
ONE_READER_BYTES: Final = 500_000_000
MANY_READERS_BYTES: Final = 100_000_000
READERS: Final = 50
READERS_A_PROCESS: Final = 25
CACHE: Final = {"fetch.cache.bytes": str(64 << 20)}
JAVA_PARTITIONS: Final = 16
JAVA_BATCH_BYTES: Final = 16_000
S3_DELAY_MS: Final = 30.0
SECONDS: Final = 300.0
_GET_BYTES: Final = "tidegate_store_get_bytes_total"
NOTE: Final = (
    "store: the same objects by GETs of 8 MiB, one after another, by the same library;"
    " got/stored: bytes from the store by the bytes of the objects"
)


@dataclass(frozen=True, slots=True)
class _Case:
    """folder: of the objects that are read.  delay_ms: of each GET.

    is_java: each reader is a ConsumerPerformance, a group of its own.  is_small: the gateway's
    memory is far smaller than the data.
    """

    folder: str
    readers: int
    delay_ms: float = 0.0
    is_java: bool = False
    is_small: bool = False

    @property
    def label(self) -> str:
        if self.is_java:
            groups = f"{self.readers} group{'s' if self.readers > 1 else ''}"
            return f"WAL objects, Java, {groups}{', memory of 64 MiB' if self.is_small else ''}"
        what = "segments" if self.folder == "/segments/" else "WAL objects"
        delay = f", GET +{self.delay_ms:g} ms" if self.delay_ms else ""
        return f"{what}, {self.readers} reader{'s' if self.readers > 1 else ''}{delay}"


_CASES: Final = (
    _Case("/segments/", 1),
    _Case("/segments/", 1, S3_DELAY_MS),
    _Case("/segments/", READERS),
    _Case("/wal/", 1),
    _Case("/wal/", READERS),
)
_JAVA_CASES: Final = (
    _Case("/wal/", 1, is_java=True),
    _Case("/wal/", 3, is_java=True),
    _Case("/wal/", 3, is_java=True, is_small=True),
)


def run(lab: Lab) -> Report:
    """Measure each case on a store of its own."""
    if lab.options.bootstrap is not None:
        raise BenchError("cold-read restarts its gateway: it needs a gateway that the bench starts")
    if lab.options.processes is not None:
        raise BenchError("cold-read empties the cache of one gateway: leave --processes out")
    if lab.options.store == "memory":
        raise BenchError("a store in memory is empty after a restart: give another --store")
    rows: list[Row] = []
    for case in _cases(lab):
        can_be_delayed = lab.options.store != "file"
        if lab.options.wants(case.label) and (can_be_delayed or not case.delay_ms):
            rows += _rows(lab, case)
    return Report("cold-read", rows, (NOTE,))


def _cases(lab: Lab) -> list[_Case]:
    librdkafka = _CASES if lab.options.uses_librdkafka else ()
    return [*librdkafka, *(_JAVA_CASES if lab.options.uses_java else ())]


def _rows(lab: Lab, case: _Case) -> list[Row]:
    is_much = case.readers == 1 or case.is_java
    size_bytes = ONE_READER_BYTES if is_much else MANY_READERS_BYTES
    if lab.options.quick:
        size_bytes //= 10
    seen: list[Observation] = []
    bare: list[Observation] = []
    with ExitStack() as stack:
        through = stack.enter_context(delayed(case.delay_ms, "GET")) if case.delay_ms else None
        has_little = case.is_small if case.is_java else case.readers > 1
        # Else the last records are not in the store when the pipeline merges.
        settings = {"wal.inline.max.bytes": "0", **(CACHE if has_little else {})}
        gateway = stack.enter_context(lab.gateway(settings, through=through))
        partitions = JAVA_PARTITIONS if case.is_java else PARTITIONS
        topic = stack.enter_context(new_topic([gateway.world], partitions))
        _fill(gateway.world, case, topic, size_bytes)
        if case.folder == "/segments/":
            _merge(gateway)
        for number in range(lab.options.lengths.runs):
            reading = read_all(gateway.store_url, case.folder)
            bare.append(Observation(reading.bytes, reading.seconds, gets=reading.gets))
            seen.append(_run(gateway, case, topic, size_bytes, reading))
            lab.say(f"cold-read: {case.label}: run {number + 1}")
    return rows_of(case.label, ["tidegate"], [seen]) + rows_of(case.label, ["store"], [bare])


def _fill(broker: World, case: _Case, topic: str, size_bytes: int) -> None:
    if case.is_java:
        batches: tuple[int, int] = JAVA_PARTITIONS, JAVA_BATCH_BYTES
        spec = Produce(broker.bootstrap, topic, *batches, size_bytes + (10 << 20), SECONDS)
    else:
        spec = Produce(broker.bootstrap, topic, PARTITIONS, BATCH_BYTES, size_bytes, SECONDS)
    _ = workers.run([spec])


def _merge(gateway: Gateway) -> None:
    options = Options(
        gateway.folder,
        gateway.store_url,
        gateway.log_url,
        "local",
        "",
        MAX_FAILURES,
        speculation=False,
        segment_bytes=MergeSettings().segment_bytes,
        rest_ms=0,
        patience_ms=0,
    )
    with pipeline_process(options, gateway.folder) as pipeline:
        _ = pipeline.do("merge")


def _restart(gateway: Gateway) -> None:
    """Restart the gateway with empty caches."""
    gateway.stop()
    shutil.rmtree(_disk_cache(gateway.folder), ignore_errors=True)
    gateway.start()


def _disk_cache(folder: Path) -> Path:
    return folder / "data" / "cache"


def _run(
    gateway: Gateway, case: _Case, topic: str, size_bytes: int, reading: Reading
) -> Observation:
    _restart(gateway)
    broker = gateway.world
    before = samples.counters_of(broker.eyes)
    seen = _read(case, broker, topic, size_bytes)
    wanted = size_bytes * case.readers
    if seen.payload_bytes < wanted:
        raise BenchError(f"{seen.payload_bytes:,} bytes were read of {wanted:,}")
    got = samples.counters_of(broker.eyes).get(_GET_BYTES, 0.0) - before.get(_GET_BYTES, 0.0)
    figures = {
        "GET/object": (seen.gets or 0.0) / reading.objects,
        "got/stored": got / reading.bytes,
        "objects": float(reading.objects),
    }
    if case.readers == 1:
        store_speed = reading.bytes / reading.seconds
        figures["of store's speed"] = seen.payload_bytes / seen.seconds / store_speed
    return replace(seen, puts=None, requests=None, more=figures)


def _read(case: _Case, broker: World, topic: str, size_bytes: int) -> Observation:
    if not case.is_java:
        return measured(broker, _reads(case, broker, topic, size_bytes))[0]
    records = size_bytes // java.RECORD_BYTES
    groups = [f"bench-{secrets.token_hex(4)}" for _ in range(case.readers)]
    return java.measured(broker, [java.consumer(broker, topic, records, each) for each in groups])[
        0
    ]


def _reads(case: _Case, broker: World, topic: str, size_bytes: int) -> list[Read]:
    whole, rest = divmod(case.readers, READERS_A_PROCESS)
    sizes = [READERS_A_PROCESS] * whole + ([rest] if rest else [])
    return [
        Read(broker.bootstrap, topic, PARTITIONS, size, size_bytes, SECONDS, from_start=True)
        for size in sizes
    ]
