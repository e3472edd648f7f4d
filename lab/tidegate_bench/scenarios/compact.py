"""compact: the cost of keeping the newest record of each key, by codec and by the share kept.

Keyed records of about 185 bytes are first merged into segments, unmeasured, and then compacted.
All records are dirty, so each is read twice: for its key, and for the copy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Final

from tidegate_protocol.compression import Codec
from tidegate_protocol.records import Record, build_batch

from ..brokers.pipeline_process import Work
from ..brokers.stored_data import PlacedRecords
from ..errors import BenchError
from ..lab import Lab, rows_of
from ..measure.figures import Observation
from ..measure.table import Report, Row
from ..pipeline_lab import RUNNERS, PipelineLab, pipeline_lab

PARTITIONS: Final = 8
BATCH_RECORDS: Final = 88
RECORDS: Final = 800_000
QUICK_RECORDS: Final = 40_000
TEXT_BYTES: Final = 156
MIB: Final = 1 << 20
# Records by key: of x N draws from N keys, a share of (1 - e^-x) / x are the newest of their keys.
_KEPT: Final = {32: 3.0, 80: 0.465}
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20)}
NOTE: Final = (
    "M records/s/core: records before compaction by the CPU of all processes; of workers: by theirs"
    " alone; MiB/s/core: bytes as stored before it; kept %: of the records"
)


@dataclass(frozen=True, slots=True)
class _Load:
    codec: Codec
    kept: int

    @property
    def label(self) -> str:
        return f"{self.codec.name.lower()}, {self.kept} % kept"


_LOADS: Final = tuple(
    _Load(codec, kept)
    for codec, kept in product((Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY), _KEPT)
)
_QUICK: Final = (_Load(Codec.NONE, 32),)


def run(lab: Lab) -> Report:
    """Measure all loads with each runner, one after the other."""
    rows: list[Row] = []
    for runner in RUNNERS:
        loads = [each for each in _loads(lab) if lab.options.wants(f"{runner} {each.label}")]
        if loads:
            with pipeline_lab(lab, runner) as pipeline:
                _warm(lab, pipeline)
                for load in loads:
                    rows += _measured(lab, pipeline, load)
    return Report("compact", rows, (NOTE,))


def _loads(lab: Lab) -> tuple[_Load, ...]:
    return _QUICK if lab.options.quick else _LOADS


def _warm(lab: Lab, pipeline: PipelineLab) -> None:
    """Let a JVM compile the relevant code, and let Python import it."""
    records = QUICK_RECORDS if lab.options.quick else RECORDS // 4
    _ = _compacted(pipeline, "warm-up", _LOADS[0], records)


def _measured(lab: Lab, pipeline: PipelineLab, load: _Load) -> list[Row]:
    runs = 1 if lab.options.quick else 2
    records = QUICK_RECORDS if lab.options.quick else RECORDS
    seen: list[Observation] = []
    for number in range(runs):
        name = f"{load.codec.name.lower()}-{load.kept}-{number}"
        seen.append(_compacted(pipeline, name, load, records))
        speed = seen[-1].more["M records/s/core"]
        lab.say(f"compact: {pipeline.runner}, {load.label}: {speed:.2f} M records/s/core")
    return rows_of(load.label, [pipeline.runner], [seen])


def _compacted(pipeline: PipelineLab, topic: str, load: _Load, records: int) -> Observation:
    _ = pipeline.write(topic, PARTITIONS, _batches(load, records), _CONFIGS)
    _ = pipeline.do("merge")
    work = pipeline.do("compact")
    if work.records + work.removed != records:
        raise BenchError(f"{work.records} records stayed and {work.removed} went, of {records}")
    return Observation(
        work.bytes, work.seconds, rss_bytes=work.worker_peak_bytes, more=_figures(work, records)
    )


def _figures(work: Work, records: int) -> dict[str, float]:
    millions = records / 1e6
    return {
        "M records/s/core": millions / work.cpu,
        "of workers": millions / (work.worker_cpu or work.driver_cpu),
        "MiB/s/core": work.bytes / MIB / work.cpu,
        "kept %": 100 * (1 - work.removed / records),
        "bytes/record": work.bytes / records,
    }


def _batches(load: _Load, records: int) -> Iterator[PlacedRecords]:
    """Yield batches of all partitions in turns; a key belongs to one partition."""
    rng, now_ms = Random(1), int(time.time() * 1000)
    keys = round(records / PARTITIONS / _KEPT[load.kept])
    text = _text(rng)
    for number, first in enumerate(range(0, records, BATCH_RECORDS)):
        count = min(BATCH_RECORDS, records - first)
        made = [_record(at, now_ms, rng.randrange(keys), text, rng) for at in range(count)]
        yield number % PARTITIONS, build_batch(made, codec=load.codec)


def _record(at: int, now_ms: int, key: int, text: bytes, rng: Random) -> Record:
    start = rng.randrange(len(text) - TEXT_BYTES)
    return Record(at, now_ms, b"key-%012d" % key, text[start : start + TEXT_BYTES])


def _text(rng: Random) -> bytes:
    """Return text that codecs compress to about a half, as they do with real data."""
    words = [rng.randbytes(6).hex().encode() for _ in range(300)]
    return b" ".join(rng.choice(words) for _ in range(10_000))
