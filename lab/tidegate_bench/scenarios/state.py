"""state: the replica of the metadata log in one process, without a network.

The scenario measures folding entries, the memory of a slice, snapshots, and a gateway's start from
a SQLite file: from a snapshot, and from entries alone.
"""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.logs.sqlite.log import SqliteLog, open_file
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.entry_trial import Trial

from ..brokers.slices import entries
from ..lab import Lab, rows_of
from ..measure.figures import Observation
from ..measure.table import Report, Row

SLICES: Final = (100_000, 1_000_000)
QUICK_SLICES: Final = (50_000,)
LOAD_SECONDS: Final = 300.0
NOTE: Final = (
    "replay (decoding and folding entries), trial, fold, encode, decode: CPU; save, start: wall;"
    " bytes/slice: of Python's allocations"
)


def run(lab: Lab) -> Report:
    """Measure with few and with many slices."""
    rows: list[Row] = []
    for slices in QUICK_SLICES if lab.options.quick else SLICES:
        label = f"{slices:,} slices"
        if lab.options.wants(label):
            runs = 1 if slices > SLICES[0] else lab.options.lengths.runs
            seen: list[Observation] = []
            for number in range(runs):
                with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
                    seen.append(Observation(more=trio.run(_measure, Path(folder), slices)))
                lab.say(f"state: {label} run {number + 1}")
            rows += rows_of(label, ["in process"], [seen])
    return Report("state", rows, (NOTE,))


async def _measure(folder: Path, slices: int) -> dict[str, float]:
    log = await open_file(folder / "metadata.db")
    for position, payload in enumerate(entries(slices), start=1):
        _ = await log.append(position, payload)
    await log.aclose()
    figures = (
        _replayed(slices) | _tried(slices) | {"start by entries s": await _start_seconds(folder)}
    )
    log = await open_file(folder / "metadata.db")
    figures |= await _snapshot(log, slices)
    await log.aclose()
    return figures | {"start by snapshot s": await _start_seconds(folder)}


def _replayed(slices: int) -> dict[str, float]:
    payloads = list(entries(slices))
    seconds = _replay(payloads)[1]
    gc.collect()
    tracemalloc.start()
    try:
        state, _ = _replay(payloads)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del state
    return {"replay slices/s": slices / seconds, "bytes/slice": held / slices}


def _replay(payloads: list[bytes]) -> tuple[ClusterState, float]:
    state = ClusterState()
    begun = time.process_time()
    for position, payload in enumerate(payloads, start=1):
        state.apply(position, decode_entry(payload, position))
    return state, time.process_time() - begun


def _tried(slices: int) -> dict[str, float]:
    """Return a slice's cost for its writer: the trial before the append, and the fold after it."""
    decoded = [
        decode_entry(payload, position) for position, payload in enumerate(entries(slices), start=1)
    ]
    state = ClusterState()
    tried = folded = 0
    for position, entry in enumerate(decoded, start=1):
        begun = time.process_time_ns()
        Trial(state).check(entry.events)
        ended = time.process_time_ns()
        state.apply(position, entry)
        folded += time.process_time_ns() - ended
        tried += ended - begun
    return {"trial us/slice": tried / slices / 1e3, "fold us/slice": folded / slices / 1e3}


async def _snapshot(log: SqliteLog, slices: int) -> dict[str, float]:
    state = await load_state(log, deadline_seconds=LOAD_SECONDS)
    begun = time.process_time()
    position, chunks = await encode_state(state)
    encoded = time.process_time()
    _ = ClusterState.decode(b"".join(chunks))
    decoded = time.process_time()
    saving = time.perf_counter()
    _ = await save_verified(log, position, chunks)
    saved = time.perf_counter()
    _ = await trim_below_verified(log, keep_entries=5)
    size = sum(map(len, chunks))
    return {
        "encode ms": (encoded - begun) * 1e3,
        "decode ms": (decoded - encoded) * 1e3,
        "save ms": (saved - saving) * 1e3,
        "snapshot MB": size / 1e6,
        "snapshot bytes/slice": size / slices,
    }


async def _start_seconds(folder: Path) -> float:
    begun = time.perf_counter()
    log = await open_file(folder / "metadata.db")
    _ = await load_state(log, deadline_seconds=LOAD_SECONDS)
    seconds = time.perf_counter() - begun
    await log.aclose()
    return seconds
