"""A damaged log: the report of its damage, and the log made from its readable entries."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tests.worlds.backup_world import (
    CLUSTER,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    writers,
)
from tidegate_coordination.backup.recovery import NothingToRestore
from tidegate_coordination.backup.repair import look_for_damage, recover_from_log, save_entries
from tidegate_coordination.backup.shelf import Shelf
from tidegate_coordination.log.metadata_log import LogCorrupt, LogEntry, Trimmed
from tidegate_coordination.log.snapshots import encode_state, save_verified
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.sqlite.log import SqliteLog, open_file
from tidegate_storage.stores.object_store import ObjectStore


def say(text: str) -> None:
    """Discard the text."""


async def written(path: Path, store: ObjectStore, topics: int) -> SqliteLog:
    """A log: the registration, topics, one commit."""
    log = await open_file(path, in_loop=True)
    async with writers(log, store, 1) as [writer]:
        for number in range(topics):
            await writer.create_topic(f"t{number}")
        await writer.write(("t0", batch_of(b"a")))
    return log


def spoil(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount > 0


async def test_a_whole_log_is_whole(tmp_path: Path) -> None:
    log = await written(tmp_path / "log.db", memory_store(), 3)
    damage = await look_for_damage(log, say)
    assert damage.is_whole
    assert (damage.first, damage.last) == (1, 5)
    await log.aclose()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET payload = x'00' WHERE position = 4",
        "DELETE FROM entry WHERE position = 4",
    ],
)
async def test_without_a_copy_recovery_ends_before_a_bad_entry(
    statement: str, tmp_path: Path
) -> None:
    store = memory_store()
    log = await written(tmp_path / "log.db", store, 5)
    spoil(tmp_path / "log.db", statement)
    damage = await look_for_damage(log, say)
    assert (list(damage.bad), damage.last) == ([4], 7)
    assert "entry 4" in damage.bad[4]
    recovered = await recover_from_log(log, damage, None, say)
    assert recovered.position == 3
    assert sorted(recovered.state.topics.by_name) == ["t0", "t1"]
    saved = memory_store()
    assert await save_entries(log, saved, CLUSTER) == 6
    assert [each.first for each in (await Shelf(saved, CLUSTER, 0).look()).entries] == [1, 5]
    await log.aclose()


async def test_a_copy_heals_a_bad_entry(tmp_path: Path) -> None:
    store = memory_store()
    log = await written(tmp_path / "log.db", store, 5)
    await back_up(log, store)
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("after")
    spoil(tmp_path / "log.db", "DELETE FROM entry WHERE position = 4")
    damage = await look_for_damage(log, say)
    shelf = Shelf(store, CLUSTER, 1)
    recovered = await recover_from_log(log, damage, (shelf, await shelf.look()), say)
    assert recovered.position == damage.last == 9
    assert "after" in recovered.state.topics.by_name
    await log.aclose()


class _Rotten(MemoryLog):
    """Return wrong bytes for one position without an error."""

    def __init__(self, log: MemoryLog, position: int, byte: int) -> None:
        super().__init__()
        self._log = log
        self._rotten = position
        self._byte = byte

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await self._log.read(from_position, max_bytes)
        assert not isinstance(entries, Trimmed)
        return [self._as_read(each) for each in entries]

    def _as_read(self, entry: LogEntry) -> LogEntry:
        if entry.position != self._rotten:
            return entry
        payload = bytearray(entry.payload)
        payload[self._byte] ^= 0x03
        return LogEntry(entry.position, bytes(payload))


@pytest.mark.parametrize("byte", [1, 20, -1])  # the format; in the middle; the checksum
async def test_an_entry_that_only_its_own_checksum_shows_damaged_is_taken_from_the_copy(
    byte: int,
) -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1, highest_version=2) as [writer]:
        for number in range(5):
            await writer.create_topic(f"t{number}")
        await back_up(log, store)
        await writer.create_topic("after")
    rotten = _Rotten(log, 4, byte)
    damage = await look_for_damage(rotten, say)
    assert (list(damage.bad), damage.last) == ([4], 7)
    assert "entry 4" in damage.bad[4]
    alone = await recover_from_log(rotten, damage, None, say)
    assert alone.position == 3
    shelf = Shelf(store, CLUSTER, 1)
    recovered = await recover_from_log(rotten, damage, (shelf, await shelf.look()), say)
    assert recovered.position == 7
    assert "after" in recovered.state.topics.by_name
    saved = memory_store()
    assert await save_entries(rotten, saved, CLUSTER) == 6
    names = (await Shelf(saved, CLUSTER, 0).look()).entries
    assert [(each.first, each.last) for each in names] == [(1, 3), (5, 7)]


async def test_an_entry_without_a_checksum_that_cannot_be_read_is_taken_from_the_copy() -> None:
    store, log = memory_store(), MemoryLog()
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("t")
        await back_up(log, store)
        await writer.create_topic("after")
    [_, entry, _] = await log.read(1, 1 << 20)  # type: ignore[misc]
    rotten = _Rotten(log, 2, entry.payload.index(b"\xa1t"))
    shelf = Shelf(store, CLUSTER, 1)
    damage = await look_for_damage(rotten, say)
    recovered = await recover_from_log(rotten, damage, (shelf, await shelf.look()), say)
    assert "after" in recovered.state.topics.by_name


async def test_a_bad_snapshot_needs_a_copy_or_all_entries(tmp_path: Path) -> None:
    store = memory_store()
    log = await written(tmp_path / "log.db", store, 2)
    state = await replayed(log)
    taken = await encode_state(state)
    await save_verified(log, taken.position, taken.chunks)
    spoil(tmp_path / "log.db", "UPDATE snapshot_chunk SET framed = x'00'")
    damage = await look_for_damage(log, say)
    assert "checksum" in damage.snapshot_error or "cut short" in damage.snapshot_error
    assert (await recover_from_log(log, damage, None, say)).position == 4
    await log.trim(3)
    damage = await look_for_damage(log, say)
    assert damage.first == 3
    with pytest.raises(NothingToRestore, match="nor a copy"):
        await recover_from_log(log, damage, None, say)
    await log.aclose()


async def test_an_entry_that_contradicts_the_state_is_left_out(tmp_path: Path) -> None:
    log = await open_file(tmp_path / "log.db", in_loop=True)
    async with writers(log, memory_store(), 1) as [writer]:
        await writer.create_topic("t")
    [*_, again] = await log.read(2, 1 << 20)  # type: ignore[misc]
    await log.append(3, again.payload)
    damage = await look_for_damage(log, say)
    recovered = await recover_from_log(log, damage, None, say)
    assert recovered.position == 2
    assert "entry after 2 cannot be folded" in recovered.complaints[0]
    await log.aclose()


@pytest.mark.parametrize("replace", [False, True])
async def test_a_log_whose_file_went_away_says_so_and_acknowledges_nothing(
    replace: bool, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    log = await written(path, memory_store(), 1)
    path.unlink()
    if replace:
        await (await open_file(path, in_loop=True)).aclose()
    sentence = "was replaced" if replace else "was deleted while it was open"
    for call in (
        lambda: log.append(4, b"x"),
        lambda: log.read(1, 1),
        lambda: log.wait(9, 1),
        log.load_snapshot,
    ):
        with pytest.raises(LogCorrupt, match=sentence):
            await call()
    await log.aclose()
    await trio.lowlevel.checkpoint()


async def test_a_sqlite_log_is_restored_to_a_sqlite_log(tmp_path: Path) -> None:
    store = memory_store()
    log = await written(tmp_path / "log.db", store, 2)
    await back_up(log, store)
    await log.aclose()
    new_log = await open_file(tmp_path / "new.db", in_loop=True)
    assert (await restored(store, new_log)).timeline == 2
    async with writers(new_log, store, 1) as [writer]:
        await writer.write(("t0", batch_of(b"b")))
    assert (await look_for_damage(new_log, say)).is_whole
    await new_log.aclose()


async def test_a_log_without_identity_is_compared_with_the_copies(
    tmp_path: Path,
) -> None:
    """The log's first entries are trimmed and its snapshot is lost, but the copies have both."""
    store, other_store = memory_store(), memory_store()
    log = await written(tmp_path / "log.db", store, 5)
    other = await written(tmp_path / "other.db", other_store, 9)
    await back_up(log, store)
    async with writers(log, store, 1) as [writer]:
        await writer.create_topic("after")
    shelf = Shelf(store, CLUSTER, 1)
    copies = (shelf, await shelf.look())
    for each, reached in ((log, 9), (other, 7)):
        await each.trim(3)
        damage = await look_for_damage(each, say)
        assert not damage.is_whole
        assert (await recover_from_log(each, damage, copies, say)).position == reached
        await each.aclose()
