"""Snapshot frames: every flipped bit and misplaced chunk is noticed; trims stay below snapshots."""

from collections.abc import Sequence
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.records.inlined_world import InlinedWorld
from tidegate_coordination.log.inlined_bodies import first_needed_of
from tidegate_coordination.log.metadata_log import (
    LogCorrupt,
    LogEntry,
    LogUnavailable,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log.snapshots import (
    frame_chunks,
    load_newest,
    save_verified,
    trim_below_verified,
    unframe_at,
    unframe_chunks,
)
from tidegate_coordination.logs.memory import MemoryLog

CHUNKS = [b"topics", b"", b"partitions"]


@given(st.integers(0, 2**63), st.lists(st.binary(max_size=200), max_size=8))
def test_round_trip(position: int, chunks: list[bytes]) -> None:
    assert unframe_chunks(frame_chunks(position, chunks)) == Snapshot(position, chunks)


def test_the_layout_is_pinned() -> None:
    head, chunk = frame_chunks(7, [b"ab"])
    assert head.hex() == (
        "00000010" "0001" "00000000" "0000000000000007" "dd3c8745"
        "00000001" "0000000000000002" "77acc04d"
    )  # fmt: skip
    assert chunk.hex() == "00000002000100000001000000000000000794c0decd6162"


def test_every_flipped_bit_is_noticed() -> None:
    framed = frame_chunks(3, CHUNKS)
    for number, frame in enumerate(framed):
        for bit in range(len(frame) * 8):
            damaged = bytearray(frame)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(LogCorrupt):
                unframe_chunks([*framed[:number], bytes(damaged), *framed[number + 1 :]])


def test_every_truncation_is_noticed() -> None:
    framed = frame_chunks(3, CHUNKS)
    for number, frame in enumerate(framed):
        for length in range(len(frame)):
            with pytest.raises(LogCorrupt):
                unframe_chunks([*framed[:number], frame[:length], *framed[number + 1 :]])


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([], "no chunks at all"),
        ([0, 1, 2], "2 chunks instead of 3"),
        ([0, 2, 1, 3], "stands at"),
        ([1, 2, 3], "stands at"),
        ([0, 1, 2, 3, 3], "stands at"),
    ],
)
def test_chunks_out_of_place_are_noticed(order: list[int], words: str) -> None:
    framed = frame_chunks(3, CHUNKS)
    with pytest.raises(LogCorrupt, match=words):
        unframe_chunks([framed[number] for number in order])


@pytest.mark.parametrize(("position", "words"), [(4, "foreign chunk"), (3, "fails its digest")])
def test_a_chunk_of_another_snapshot_is_noticed(position: int, words: str) -> None:
    framed, foreign = frame_chunks(3, CHUNKS), frame_chunks(position, [b"tropics", *CHUNKS[1:]])
    with pytest.raises(LogCorrupt, match=words):
        unframe_chunks([framed[0], foreign[1], *framed[2:]])


async def filled(count: int) -> MemoryLog:
    log = MemoryLog()
    for position in range(1, count + 1):
        await log.append(position, b"%d" % position)
    return log


async def test_a_trim_keeps_entries_that_the_snapshot_does_not_cover() -> None:
    log = await filled(9)
    await save_verified(log, 6, CHUNKS)
    assert await trim_below_verified(log, keep_entries=2) == 5
    assert await log.read(4, 1) == Trimmed(5)
    assert await trim_below_verified(log) == 7
    assert await log.read(7, 1) == [LogEntry(7, b"7")]


async def test_a_trim_keeps_entries_whose_bytes_the_snapshot_lacks() -> None:
    """Also if they were moved since: a restore may begin with the snapshot."""
    world = InlinedWorld()
    await world.begin()
    kept = await world.append(*world.inline(b"one"))
    await world.append(*world.inline(b"two"))
    await world.save_snapshot()
    trim = partial(trim_below_verified, world.log, needed_of=first_needed_of)
    assert await trim() == kept
    moved = await world.append(world.move())
    assert await trim() == kept
    assert isinstance(await world.log.read(kept, 1), list)
    await world.save_snapshot()
    assert await trim() == moved + 1


async def test_nothing_is_trimmed_without_a_snapshot() -> None:
    log = await filled(3)
    with pytest.raises(LogUnavailable, match="no snapshot"):
        await trim_below_verified(log)
    assert await log.read(1, 1) == [LogEntry(1, b"1")]


class _LosesSnapshots(MemoryLog):
    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()


class _DamagesSnapshots(MemoryLog):
    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await super().save_snapshot(position, [b"something else"])


@pytest.mark.parametrize(
    ("log", "words"),
    [(_LosesSnapshots(), "cannot be read back"), (_DamagesSnapshots(), "other than it was saved")],
)
async def test_a_snapshot_counts_only_when_read_back(log: MemoryLog, words: str) -> None:
    with pytest.raises(LogCorrupt, match=words):
        await save_verified(log, 0, CHUNKS)


async def test_anothers_newer_snapshot_counts_as_well() -> None:
    log = await filled(5)
    await save_verified(log, 5, CHUNKS)
    assert await save_verified(log, 4, [b"older"]) == Snapshot(5, CHUNKS)


async def test_a_log_that_does_not_join_its_snapshot_is_not_trimmed() -> None:
    shorter = await filled(3)
    await shorter.save_snapshot(5, CHUNKS)
    with pytest.raises(LogCorrupt, match="ends before 4"):
        await trim_below_verified(shorter)
    later = await filled(9)
    await later.trim(8)
    await later.save_snapshot(5, CHUNKS)
    with pytest.raises(LogCorrupt, match="begins after its snapshot at 5"):
        await trim_below_verified(later)


async def test_if_a_snapshot_is_dropped_while_it_is_read_the_newest_is_read() -> None:
    lists = [[(1, 5)], [(2, 9)]]

    async def list_complete() -> list[tuple[int, int]]:
        await trio.lowlevel.checkpoint()
        return lists.pop(0) if len(lists) > 1 else lists[0]

    async def load(snapshot: int, position: int) -> Snapshot:
        await trio.lowlevel.checkpoint()
        if snapshot == 1:
            raise LogCorrupt("its chunks are gone")
        return Snapshot(position, [])

    assert await load_newest(list_complete, load) == Snapshot(9, [])


def test_a_snapshot_of_another_position_is_noticed() -> None:
    framed = frame_chunks(4, CHUNKS)
    assert unframe_at(4, framed).chunks == CHUNKS
    with pytest.raises(LogCorrupt, match="the snapshot at 5 says it is at 4"):
        unframe_at(5, framed)


async def test_concurrent_trims_find_no_damage() -> None:
    """Another trim saves a newer snapshot and trims after this one has loaded the older one."""

    class Shared(MemoryLog):
        async def load_snapshot(self) -> Snapshot | None:
            loaded = await super().load_snapshot()
            await self.save_snapshot(8, CHUNKS)
            await self.trim(9)
            return loaded

    log = Shared()
    for position in range(1, 10):
        await log.append(position, b"x")
    await log.save_snapshot(5, CHUNKS)
    assert await trim_below_verified(log) == 9
