"""A million slices in a real SQLite file: snapshotted, trimmed, and loaded again in seconds."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from tests.worlds.slices import beginning, slice_entries
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.log.metadata_log import AppendResult, Trimmed
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.logs.sqlite.log import open_file
from tidegate_coordination.state.cluster import ClusterState

SLICES = 1_000_000
PARTITIONS = 2_000
MAX_STATE_BYTES_A_SLICE = 40
MAX_RESTART_SECONDS = 5.0
KEPT_ENTRIES = 5


async def test_a_restart_finds_a_million_slices_and_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await open_file(path)
    live = ClusterState()
    for position, payload in enumerate((beginning(PARTITIONS), *slice_entries(SLICES, PARTITIONS))):
        assert await log.append(position + 1, payload) is AppendResult.APPENDED
        live.apply(position + 1, decode_entry(payload, position + 1))
    assert sum(len(each.runs) for each in live.partitions.values()) == SLICES
    position, chunks = await encode_state(live)
    assert sum(map(len, chunks)) <= SLICES * MAX_STATE_BYTES_A_SLICE
    await save_verified(log, position, chunks)
    assert await trim_below_verified(log, keep_entries=KEPT_ENTRIES) == position + 1 - KEPT_ENTRIES
    await log.aclose()

    begun = time.process_time()
    again = await open_file(path)
    snapshot = await again.load_snapshot()
    assert snapshot is not None
    state = ClusterState.decode(b"".join(snapshot.chunks))
    assert time.process_time() - begun < MAX_RESTART_SECONDS
    assert state.position == live.position
    assert state.encode() == live.encode()
    assert await again.read(1, 1) == Trimmed(position + 1 - KEPT_ENTRIES)
    assert await again.read(position + 1, 1) == []
    await again.aclose()


async def test_other_tasks_run_while_a_state_is_encoded() -> None:
    state = ClusterState()
    state.apply(1, decode_entry(beginning(20_000), 1))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await encode_state(state)
        nursery.cancel_scope.cancel()
    assert turns > 50
