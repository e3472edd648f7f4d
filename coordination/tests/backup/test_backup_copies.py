"""Copies of the log: their names, frames, choice and deletion, and several copiers at once."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.worlds.backup_world import (
    CLUSTER,
    Writer,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    writers,
)
from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.backup.copies import (
    DamagedCopy,
    EntriesName,
    SnapshotName,
    chain,
    decode_entries,
    digest_of,
    encode_entries,
    entries_key,
    join_chunks,
    obsolete,
    parse_entries_key,
    parse_snapshot_key,
    part_key,
    snapshot_folder,
    split_chunks,
)
from tidegate_coordination.backup.shelf import Shelf
from tidegate_coordination.events.entries import encode_entry
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    Trimmed,
)
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_storage.objects.ownership import claim_prefix

ENTRIES = [LogEntry(7, b"seven"), LogEntry(8, b""), LogEntry(9, bytes(300))]


def name_of(body: bytes, first: int = 7, last: int = 9) -> EntriesName:
    return EntriesName(first, last, digest_of(body))


def test_entries_come_back() -> None:
    body = encode_entries(ENTRIES)
    assert decode_entries(name_of(body), body) == ENTRIES


def test_no_byte_of_entries_can_change_unnoticed() -> None:
    body = encode_entries(ENTRIES)
    for at in range(len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 1
        with pytest.raises(DamagedCopy, match="entries 7 to 9"):
            decode_entries(name_of(body), bytes(damaged))


@pytest.mark.parametrize("cut", [1, 9, 20, 200])
def test_entries_that_were_written_wrong_are_refused(cut: int) -> None:
    body = encode_entries(ENTRIES)[:-cut]
    with pytest.raises(DamagedCopy):
        decode_entries(name_of(body), body)
    whole = encode_entries(ENTRIES)
    with pytest.raises(DamagedCopy, match="holds others"):
        decode_entries(name_of(whole, first=6), whole)
    newer = whole[:9] + b"\2" + whole[10:]
    with pytest.raises(DamagedCopy, match="format 2"):
        decode_entries(name_of(newer), newer)


def test_names_come_back_and_sort_by_position() -> None:
    entries = EntriesName(9, 12, "abc")
    key = entries_key("c/1/backup/", entries)
    assert parse_entries_key("c/1/backup/", key) == entries
    assert key < entries_key("c/1/backup/", EntriesName(10, 10, "000"))
    snapshot = SnapshotName(44, "def")
    folder = snapshot_folder("c/1/backup/", snapshot)
    assert parse_snapshot_key("c/1/backup/", part_key(folder, 3)) == (snapshot, False)
    assert parse_snapshot_key("c/1/backup/", folder + "whole.json") == (snapshot, True)
    assert parse_snapshot_key("c/1/backup/", "c/1/backup/snapshots/notes.txt") is None
    assert parse_entries_key("c/1/backup/", "c/1/backup/entries/notes.txt") is None


@given(st.lists(st.binary(max_size=40)), st.integers(1, 100))
def test_chunks_come_back_from_their_parts(chunks: list[bytes], max_bytes: int) -> None:
    parts = list(join_chunks(chunks, max_bytes))
    assert [chunk for part in parts for chunk in split_chunks(part)] == chunks


def test_a_part_cut_short_is_refused() -> None:
    [part] = join_chunks([b"abc"], 100)
    for cut in range(1, len(part)):
        with pytest.raises(DamagedCopy):
            list(split_chunks(part[:-cut]))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)), max_size=12), st.integers(0, 20))
def test_a_chain_goes_as_far_as_can_be(stretches: list[tuple[int, int]], after: int) -> None:
    names = [EntriesName(first, first + more, "") for first, more in stretches]
    reached = after
    for name in chain(names, after):
        assert name.first <= reached + 1 <= name.last
        reached = name.last
    covered = {position for first, more in stretches for position in range(first, first + more + 1)}
    assert reached + 1 not in covered


def test_the_newest_two_snapshots_and_later_entries_stay() -> None:
    snapshots = [SnapshotName(at, "") for at in (10, 20, 30)]
    entries = [EntriesName(1, 10, ""), EntriesName(11, 20, ""), EntriesName(15, 21, "")]
    assert obsolete(snapshots, entries, 2) == (snapshots[:1], entries[:2])
    assert obsolete(snapshots[:2], entries, 2) == ([], entries[:1])
    assert obsolete(snapshots[:1], entries, 2) == ([], [])


async def test_a_second_round_copies_only_new_entries(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1)
        await writer.create_topic("t")
        assert (await copier.copy()).entries == 2
        assert (await copier.copy()).objects == 0
        await writer.create_topic("u")
        report = await copier.copy()
        assert (report.entries, report.position) == (1, 3)
        # Another gateway finds the copies that exist.
        assert (await Copier(log, store, CLUSTER, 1).copy()).objects == 0


async def test_several_at_once_do_no_harm(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copiers = [Copier(log, store, CLUSTER, 1) for _ in range(5)]
        for number in range(10):
            await writer.create_topic(f"t{number}")
            async with trio.open_nursery() as nursery:
                for each in copiers:
                    nursery.start_soon(each.copy)
    new_log = MemoryLog()
    await restored(store, new_log)
    assert len((await replayed(new_log)).topics.by_id) == 10


async def test_a_copier_skips_its_round_if_another_has_copied(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        one, other = (Copier(log, store, CLUSTER, 1) for _ in range(2))
        for each in (one, other):
            await each.copy(even_if_others_do=False)
        await writer.create_topic("t")
        assert (await one.copy(even_if_others_do=False)).entries == 1
        await writer.create_topic("u")
        report = await other.copy(even_if_others_do=False)
        assert (report.by_others, report.position) == (True, 2)
        assert (await other.copy(even_if_others_do=False)).entries == 1


async def snapshot(log: MemoryLog, writer: Writer) -> int:
    taken = await encode_state(writer.coordinator.state)
    await save_verified(log, taken.position, taken.chunks)
    return taken.position


async def test_after_a_trim_past_the_copies_copying_continues_from_the_snapshot(
    autojump_clock: MockClock,
) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1)
        await copier.copy()
        for number in range(5):
            await writer.create_topic(f"t{number}")
        await log.trim(4)
        with pytest.raises(LogUnavailable, match="does not reach"):
            await copier.copy()
        position = await snapshot(log, writer)
        await trim_below_verified(log)
        await writer.create_topic("last")
        report = await copier.copy()
        assert (report.snapshot_position, report.position) == (position, position + 1)
    new_log = MemoryLog()
    await restored(store, new_log)
    assert "last" in (await replayed(new_log)).topics.by_name


async def test_old_copies_go_and_two_whole_ones_stay(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1, snapshot_entries=3)
        positions: list[int] = []
        for number in range(20):
            await writer.create_topic(f"t{number}")
            if number % 4 == 0:
                positions.append(await snapshot(log, writer))
            await copier.copy()
    copies = await Shelf(store, CLUSTER, 1).look()
    assert [each.position for each in copies.snapshots] == positions[-2:]
    assert min(each.last for each in copies.entries) > positions[-2]
    # If the newest snapshot is damaged, a restore uses the one before it and the entries after
    # that.
    newest = snapshot_folder(f"{CLUSTER}/1/backup/", copies.snapshots[-1])
    key = part_key(newest, 0)
    await store.delete_many([key])
    await store.put(key, b"rubbish")
    new_log = MemoryLog()
    report = await restored(store, new_log)
    assert len((await replayed(new_log)).topics.by_id) == 20
    assert "fails its checksum" in report.complaints[0]


async def test_a_restore_ends_before_damaged_entries(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        copier = Copier(log, store, CLUSTER, 1)
        for number in range(3):
            await writer.create_topic(f"t{number}")
            await copier.copy()
        await writer.write(("t0", batch_of(b"a")))
    last = [each.key for each in await store.list(f"{CLUSTER}/1/backup/entries/")][-1]
    await store.delete_many([last])
    await store.put(last, b"rubbish")
    new_log = MemoryLog()
    report = await restored(store, new_log)
    state = await replayed(new_log)
    assert sorted(state.topics.by_name) == ["t0", "t1"]
    assert report.salvage.records == 1
    assert "fails its checksum" in report.complaints[0]


async def test_a_position_that_was_copied_is_the_logs_end(autojump_clock: MockClock) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        assert await back_up(log, store) == 2
    assert not isinstance(await log.read(1, 1), Trimmed)


async def test_copies_in_another_store_are_found_in_each_timeline(
    autojump_clock: MockClock,
) -> None:
    """A separate store of copies has no markers of later timelines."""
    store, copies = memory_store(), memory_store()
    log, second, third = MemoryLog(), MemoryLog(), MemoryLog()
    await claim_prefix(copies, CLUSTER, timeline=1, created_by="0")
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, copies)
    assert (await restored(store, second, copies=copies)).timeline == 2
    async with writers(second, store, 1) as [writer]:
        await writer.create_topic("u")
        await back_up(second, copies)
    assert (await restored(store, third, copies=copies)).timeline == 3
    assert sorted((await replayed(third)).topics.by_name) == ["t", "u"]


async def test_a_store_without_any_of_the_objects_is_refused(autojump_clock: MockClock) -> None:
    store, copies, other = memory_store(), memory_store(), memory_store()
    log = MemoryLog()
    for each in (copies, other):
        await claim_prefix(each, CLUSTER, timeline=1, created_by="0")
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"a")))
        await back_up(log, copies)
    new_log = MemoryLog()
    with pytest.raises(LogMisconfigured, match="none of the 1 objects"):
        await restored(other, new_log, copies=copies)
    assert await new_log.read(1, 1) == []
    assert await new_log.load_snapshot() is None
    assert not await other.list("tidegate-timelines/")


class GrowingLog(MemoryLog):
    """A log that has one more entry at each read."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await self.grow(from_position)
        return await super().read(from_position, max_bytes)

    async def grow(self, position: int) -> None:
        entry = encode_entry(b"n" * 12, 1, 1000, [], 0, entry_format=2, position=position)
        if await self.append(position, entry) is not AppendResult.APPENDED:
            await self.grow(position + 1)


async def test_copying_ends_even_if_the_log_grows_as_fast() -> None:
    log = GrowingLog()
    for position in (1, 2, 3):
        await log.grow(position)
    with trio.fail_after(5):
        report = await Copier(log, memory_store(), CLUSTER, 1).copy(up_to=3)
    assert 3 <= report.position <= 5
