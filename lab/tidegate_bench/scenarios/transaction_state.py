"""transaction-state: transactions in the replica of the metadata log, in one process.

Folds of their ends, judging their batches, the aborted ones that a fetch names, snapshots of a
million ids, and the memory and bytes of each.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any, Final, cast

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import encode_events
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD, TRANSACTIONAL
from tidegate_coordination.state.records.aborted import Aborted
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import Marker, packed_marker
from tidegate_gateway.fetch.aborted_list import aborted_between
from tidegate_storage.objects.segment_format import AbortedTransaction, SegmentIndex

from ..brokers.transaction_memory import Spec, Told
from ..brokers.transaction_states import BATCH_BYTES, FIRST_ID, RECORDS, START_MS, TOPIC, Replica
from ..clients import workers
from ..lab import Lab, rows_of
from ..measure.figures import Observation
from ..measure.table import Report, Row

IDS: Final = 1_000_000
QUICK_IDS: Final = 20_000
OPENED: Final = 18_000
WIDTHS: Final = (1, 10)
ABORTED: Final = 10_000
ENDS: Final = 20
PARTITIONS: Final = 10
PRODUCERS: Final = 32
BATCHES: Final = 100
FETCHED: Final = 20
SAMPLES: Final = 2_000
HIGH_ID: Final = 1 << 40
OFFSET_BYTES: Final = 8
NOTE: Final = (
    "us, ms: CPU; ends are 20 in an entry, batches 100 of 32 producers in an object; an open"
    " transaction has records in partitions that 18,000 share"
)

Figures = dict[tuple[str, str], float]
"""By what was measured, and the unit."""


def run(lab: Lab) -> Report:
    """Measure each part some times."""
    ids = QUICK_IDS if lab.options.quick else IDS
    parts: dict[str, Callable[[], Figures]] = {
        "ends": lambda: _ends(rounds=20 if lab.options.quick else 150),
        "batches": lambda: _batches(objects=20 if lab.options.quick else 100),
        "aborted": _aborted,
        "snapshot": lambda: _snapshot(ids),
        "memory": lambda: _memory(ids),
        "bytes": _bytes,
    }
    rows: list[Row] = []
    for part, measure in parts.items():
        if lab.options.wants(part):
            rows += _rows(lab, part, measure)
    return Report("transaction-state", rows, (NOTE,))


def _rows(lab: Lab, part: str, measure: Callable[[], Figures]) -> list[Row]:
    seen: dict[tuple[str, str], list[Observation]] = {}
    for number in range(lab.options.lengths.runs):
        for (label, unit), value in measure().items():
            seen.setdefault((label, unit), []).append(Observation(more={unit: value}))
        lab.say(f"transaction-state: {part} run {number + 1}")
    return [
        row for (label, _), each in seen.items() for row in rows_of(label, ["in process"], [each])
    ]


def _ends(rounds: int) -> Figures:
    return {
        (f"fold of {kind}, {PARTITIONS} partitions", "us"): _fold_us(rounds, committed=committed)
        for kind, committed in (("a commit", True), ("an abort", False))
    }


def _fold_us(rounds: int, *, committed: bool) -> float:
    replica = Replica(PARTITIONS)
    replica.initialise(ENDS)
    numbers = range(PARTITIONS)
    took: list[float] = []
    for epoch in range(rounds):
        for producer in range(ENDS):
            replica.write(FIRST_ID + producer, epoch, numbers)
        events = [
            replica.ended(FIRST_ID + producer, epoch, numbers, producer, committed=committed)
            for producer in range(ENDS)
        ]
        entry = replica.entry(*events)
        begun = time.process_time_ns()
        replica.state.apply(replica.state.position + 1, entry)
        took.append((time.process_time_ns() - begun) / ENDS / 1e3)
    return median(took)


def _batches(objects: int) -> Figures:
    kinds = {"idempotent": 0, "transactional": TRANSACTIONAL | MAY_ADD}
    return {
        (f"{step} a batch, {kind}", "us"): each
        for kind, flags in kinds.items()
        for step, each in _batch_us(objects, flags).items()
    }


def _batch_us(objects: int, flags: int) -> dict[str, float]:
    replica = Replica(PARTITIONS)
    replica.initialise(PRODUCERS)
    places = sorted((at % PARTITIONS, at % PRODUCERS) for at in range(BATCHES))
    sequences = dict.fromkeys(places, 0)
    decided = folded = 0.0
    for _ in range(objects):
        batches: list[BatchFacts] = []
        for at, (partition, producer) in enumerate(places):
            first = sequences[partition, producer]
            sequences[partition, producer] = first + RECORDS
            batches.append(_facts(at, partition, producer, first, flags))
        seconds = replica.commit(batches)
        decided += seconds[0]
        folded += seconds[1]
    count = objects * BATCHES
    return {"decide": decided / count * 1e6, "fold": folded / count * 1e6}


def _facts(at: int, partition: int, producer: int, first: int, flags: int) -> BatchFacts:
    last = first + RECORDS - 1
    place = (TOPIC, partition, at * BATCH_BYTES, BATCH_BYTES, RECORDS, START_MS, at)
    return BatchFacts(*place, FIRST_ID + producer, 0, first, last, flags)


def _aborted() -> Figures:
    replica = Replica(1)
    replica.initialise(PRODUCERS)
    for number in range(ABORTED):
        producer_id, epoch = FIRST_ID + number % PRODUCERS, number // PRODUCERS
        replica.write(producer_id, epoch, [0])
        replica.apply(replica.ended(producer_id, epoch, [0], committed=False))
    partition = replica.state.partitions[0]
    assert partition.aborted is not None
    rows = [partition.aborted[at] for at in range(ABORTED)]
    named = tuple(AbortedTransaction(*row[:3]) for row in rows)
    index = SegmentIndex(TOPIC, 0, 0, partition.next_offset, (), named, 0)
    merged = Partition(0, TOPIC, 0)
    merged.fold_run(ev.Run(0, 0, 1, 0, partition.next_offset, START_MS, 1, ev.RUN_SEGMENT), 1)
    return {
        ("aborted of 20 offsets, 10,000 in the state", "us"): _named_us(partition, None),
        ("aborted of 20 offsets, 10,000 in a segment", "us"): _named_us(merged, index),
    }


def _named_us(partition: Partition, index: SegmentIndex | None) -> float:
    rng = random.Random(1)
    took: list[float] = []
    for _ in range(SAMPLES):
        start = rng.randrange(partition.next_offset - FETCHED)
        begun = time.perf_counter_ns()
        found = aborted_between(partition, start, start + FETCHED, lambda _: index)
        took.append((time.perf_counter_ns() - begun) / 1e3)
        assert FETCHED // 2 <= len(found) <= FETCHED
    return median(took)


def _snapshot(ids: int) -> Figures:
    replica = Replica(PARTITIONS)
    replica.initialise(ids)
    begun = time.thread_time()
    with replica.state.frozen() as frozen:
        stopped = time.thread_time() - begun
        pieces = frozen.pieces()
        took: list[float] = []
        begun = time.thread_time()
        while next(pieces, None) is not None:
            took.append(time.thread_time() - begun)
            begun = time.thread_time()
    return {
        (f"snapshot of {ids:,} ids: its beginning", "ms"): stopped * 1e3,
        (f"snapshot of {ids:,} ids: longest piece", "ms"): max(took) * 1e3,
        (f"snapshot of {ids:,} ids: all pieces", "ms"): sum(took) * 1e3,
    }


def _memory(ids: int) -> Figures:
    found: Figures = {("an idle id, without its name", "bytes"): _told(Spec(ids)).an_id}
    for width in WIDTHS:
        opened = _told(Spec(OPENED, OPENED, width)).an_open_one
        found[f"an open transaction more, partitions: {width}", "bytes"] = opened
    return found


def _told(spec: Spec) -> Told:
    module = "tidegate_bench.brokers.transaction_memory"
    with workers.process(module, json.dumps(asdict(spec))) as process:
        told: dict[str, Any] = {**process.told()}
        return Told(**told)


def _bytes() -> Figures:
    """Return the sizes of the columns of a row, and of an end in the log."""
    marker = packed_marker(Marker(HIGH_ID, 1, committed=True, timestamp_ms=START_MS))
    aborted = Aborted()
    aborted.append(HIGH_ID, 0, 1, 2)
    none, one = (_end_bytes(count) for count in (0, 1_000))
    return {
        ("row of a marker", "bytes"): float(OFFSET_BYTES + len(marker)),
        ("aborted row", "bytes"): float(sum(map(len, cast("list[bytes]", aborted.encode())))),
        ("end in the log, no partition", "bytes"): float(none),
        ("end in the log, each partition", "bytes"): (one - none) / 1_000,
    }


def _end_bytes(partitions: int) -> int:
    markers = tuple((100_000 + at, 10**10 + at) for at in range(partitions))
    head = (HIGH_ID, True, 300, HIGH_ID, 300)
    event = tev.TransactionEnded(*head, markers, START_MS, tev.CAUSE_CLIENT)
    return len(bytes(encode_events([event])[0]))
