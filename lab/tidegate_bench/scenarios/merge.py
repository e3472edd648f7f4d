"""merge: the cost of making segments from WAL objects, in one process and on Spark.

Objects of 8 MiB with batches of 50 partitions, as gateways leave them, are merged from store to
store.  Each round has new data; the first round of a session on Spark is a row of its own.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from tidegate_protocol.records import Record, build_batch

from ..brokers.pipeline_process import Work
from ..brokers.stored_data import PlacedRecords
from ..errors import BenchError
from ..lab import Lab, rows_of
from ..measure.figures import Observation
from ..measure.table import Report, Row
from ..pipeline_lab import RUNNERS, PipelineLab, pipeline_lab

PARTITIONS: Final = 50
BATCH_RECORDS: Final = 16
RECORD_BYTES: Final = 1_000
POOL_BATCHES: Final = 256
DATA_BYTES: Final = 1_000_000_000
QUICK_BYTES: Final = 50_000_000
MIB: Final = 1 << 20
NOTE: Final = (
    "MiB/s/core: bytes of batches by the CPU of all processes (driver, JVM, workers); of workers:"
    " by theirs alone; wall/core: by the time and the tasks at once; RSS: a worker's peak"
)


def run(lab: Lab) -> Report:
    """Measure each runner in a place of its own."""
    rows: list[Row] = []
    for runner in RUNNERS:
        if lab.options.wants(runner):
            with pipeline_lab(lab, runner) as pipeline:
                rows += _rows(lab, pipeline, runner)
    return Report("merge", rows, (NOTE,))


def _rows(lab: Lab, pipeline: PipelineLab, runner: str) -> list[Row]:
    """Measure the rounds; the first one is a warm-up."""
    first, *seen = (_round(lab, pipeline, number) for number in range(lab.options.lengths.runs + 1))
    label = f"{PARTITIONS} partitions, 16 KiB batches"
    return [
        *rows_of(f"{label}, first round", [runner], [[first]]),
        *rows_of(label, [runner], [seen]),
    ]


def _round(lab: Lab, pipeline: PipelineLab, number: int) -> Observation:
    wanted = QUICK_BYTES if lab.options.quick else DATA_BYTES
    size_bytes = pipeline.write(f"round-{number}", PARTITIONS, _batches(wanted))
    work = pipeline.do("merge")
    if work.bytes != size_bytes:
        raise BenchError(f"{work.bytes} bytes were merged of {size_bytes}")
    seen = merge_observation(work, pipeline.at_once)
    lab.say(f"merge: {pipeline.runner} round {number}: {seen.more['MiB/s/core']:.0f} MiB/s/core")
    return seen


def merge_observation(work: Work, at_once: int) -> Observation:
    """Return the figures of a round of merging."""
    mebibytes = work.bytes / MIB
    return Observation(
        work.bytes,
        work.seconds,
        gets=work.gets,
        puts=work.published,
        rss_bytes=work.worker_peak_bytes,
        more=speeds(mebibytes, work, at_once),
    )


def speeds(mebibytes: float, work: Work, at_once: int) -> Mapping[str, float]:
    """Return MiB/s by CPU and by time."""
    return {
        "MiB/s/core": mebibytes / work.cpu,
        "of workers": mebibytes / (work.worker_cpu or work.driver_cpu),
        "wall/core": mebibytes / work.seconds / at_once,
    }


def _batches(size_bytes: int) -> Iterator[PlacedRecords]:
    """Yield about size_bytes of batches; the partitions take turns."""
    now_ms = int(time.time() * 1000)
    pool = [_batch(now_ms) for _ in range(POOL_BATCHES)]
    count = size_bytes // len(pool[0])
    shift = secrets.randbelow(POOL_BATCHES)
    for number in range(count):
        yield number % PARTITIONS, pool[(number * 7 + shift) % POOL_BATCHES]


def _batch(now_ms: int) -> bytes:
    values = (os.urandom(RECORD_BYTES) for _ in range(BATCH_RECORDS))
    records = [Record(at, now_ms, None, value) for at, value in enumerate(islice(values, 16))]
    return build_batch(records)
