"""Promises of `sqlite:` beyond the contract: durability, patience, clear refusals."""

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    Trimmed,
)
from tidegate_coordination.logs.sqlite.log import SqliteLog, StatementWorker, open_file, open_log
from tidegate_coordination.logs.sqlite.tables import (
    SqliteTables,
    check_durable,
    connect,
    translated_errors,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SqliteLog]:
    log = await open_file(path, in_loop=True)
    yield log
    await log.aclose()


def raw(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run statements on another connection, as an operator's shell or another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for each in statements for row in connection.execute(each).fetchall()]


async def fill(log: SqliteLog, count: int) -> None:
    for position in range(1, count + 1):
        assert await log.append(position, b"%d" % position) is AppendResult.APPENDED


def test_the_pragmas_read_back_durable(path: Path) -> None:
    with closing(connect(str(path), busy_seconds=0)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize(
    ("pragma", "words"),
    [("synchronous = NORMAL", "synchronous=1 instead of 2"), ("journal_mode = DELETE", "=delete")],
)
def test_weaker_pragmas_are_refused(path: Path, pragma: str, words: str) -> None:
    with closing(connect(str(path), busy_seconds=0)) as connection:
        check_durable(connection)
        connection.execute(f"PRAGMA {pragma}")
        with pytest.raises(LogMisconfigured, match=words):
            check_durable(connection)


async def test_a_file_that_cannot_be_durable_is_refused() -> None:
    with pytest.raises(LogMisconfigured, match="memory instead of WAL"):
        await open_file(Path(":memory:"), in_loop=True)


async def test_open_log_takes_a_url(path: Path) -> None:
    for url in (f"sqlite:{path}", f"sqlite://{path}"):
        log = await open_log(url)
        await log.aclose()
    assert raw(path, "PRAGMA user_version") == [(1,)]


@pytest.mark.parametrize("url", ["sqlite:", "sqlite::memory:", "sqlite://host/log.db"])
async def test_a_url_without_a_path_is_refused(url: str) -> None:
    with pytest.raises(LogMisconfigured, match="sqlite:"):
        await open_log(url)


async def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogMisconfigured, match="unable to open"):
        await open_file(tmp_path / "nowhere" / "log.db")


async def test_a_foreign_file_is_refused_and_kept(path: Path) -> None:
    raw(path, "CREATE TABLE precious (x)")
    with pytest.raises(LogMisconfigured, match="not a metadata log"):
        await open_file(path, in_loop=True)
    assert raw(path, "SELECT name FROM sqlite_schema") == [("precious",)]


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    await trio.Path(path).write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(LogMisconfigured, match="not a database"):
        await open_file(path, in_loop=True)


async def test_a_newer_format_is_refused(path: Path) -> None:
    await (await open_file(path, in_loop=True)).aclose()
    raw(path, "PRAGMA user_version = 2")
    with pytest.raises(LogMisconfigured, match="format 2; this release reads 1"):
        await open_file(path, in_loop=True)


async def test_a_locked_file_is_waited_for(
    log: SqliteLog, path: Path, autojump_clock: MockClock
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.append, 1, b"patient")
            await trio.sleep(0.3)
            assert await log.read(1, 10) == []
            other.execute("ROLLBACK")
    assert await log.read(1, 10) == [LogEntry(1, b"patient")]


async def test_a_lock_that_stays_is_unavailable(
    log: SqliteLog, path: Path, autojump_clock: MockClock
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailable, match="locked"):
            await log.append(1, b"in vain")
        other.execute("ROLLBACK")
    assert trio.current_time() > 1
    assert await log.append(1, b"then") is AppendResult.APPENDED


async def test_a_thread_that_hangs_is_given_up(autojump_clock: MockClock) -> None:
    """The next statement starts only once the hung one has ended."""
    worker, release, order = StatementWorker(in_loop=False), threading.Event(), list[str]()

    def hang() -> None:
        release.wait(30)
        order.append("hung")

    with pytest.raises(LogUnavailable, match="within 10 s"):
        await worker.call("append", hang)
    with pytest.raises(LogUnavailable, match="within 10 s"):
        await worker.call("append", lambda: order.append("never starts"))
    autojump_clock.autojump_threshold = float("inf")
    release.set()
    await worker.call("append", lambda: order.append("next"))
    assert order == ["hung", "next"]


def test_a_full_disk_is_unavailable_and_loses_nothing(path: Path) -> None:
    with closing(connect(str(path), busy_seconds=0)) as connection:
        tables = SqliteTables(connection)
        connection.execute("PRAGMA max_page_count = 20")
        assert tables.append(1, b"small") is AppendResult.APPENDED
        with pytest.raises(LogUnavailable, match="full"), translated_errors("append"):
            tables.append(2, b"x" * 200_000)
        connection.execute("PRAGMA max_page_count = 1000")
        assert tables.append(2, b"y" * 200_000) is AppendResult.APPENDED
        assert tables.read(1, 10) == [LogEntry(1, b"small")]


async def test_a_damaged_entry_is_noticed(log: SqliteLog, path: Path) -> None:
    await fill(log, 3)
    raw(path, "UPDATE entry SET payload = x'37' WHERE position = 2")
    assert await log.read(1, 1) == [LogEntry(1, b"1")]
    with pytest.raises(LogCorrupt, match=r"entry 2 .* checksum"):
        await log.read(1, 100)


@pytest.mark.parametrize("start", [1, 2])
async def test_a_missing_entry_is_noticed(log: SqliteLog, path: Path, start: int) -> None:
    await fill(log, 3)
    raw(path, "DELETE FROM entry WHERE position = 2")
    with pytest.raises(LogCorrupt, match="entry 2 is missing"):
        await log.read(start, 100)


async def test_a_log_put_back_from_an_old_copy_is_noticed(log: SqliteLog, path: Path) -> None:
    await fill(log, 3)
    raw(path, "DELETE FROM entry WHERE position > 1")
    with pytest.raises(LogCorrupt, match="ends at 1"):
        await log.read(4, 100)
    with pytest.raises(LogCorrupt, match="ends at 1"):
        await log.append(4, b"4")


async def test_wait_sees_another_connection(
    log: SqliteLog, path: Path, autojump_clock: MockClock
) -> None:
    other = await open_file(path, in_loop=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait, 0, 60.0)
        await trio.sleep(1)
        await other.append(1, b"elsewhere")
    assert trio.current_time() < 1.2
    await other.aclose()


async def test_wait_sees_ones_own_append_at_once(log: SqliteLog, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait, 0, 60.0)
        await trio.sleep(1)
        await log.append(1, b"here")
    assert trio.current_time() == 1.0


def test_polling_sees_an_append_whose_answer_was_lost(path: Path) -> None:
    """SQLite's `data_version` does not change by commits of the same connection."""
    with closing(connect(str(path), busy_seconds=0)) as connection:
        tables = SqliteTables(connection)
        assert tables.poll_last() == 0
        tables.append(1, b"given up by its caller")
        assert tables.poll_last() == 1


async def test_a_trim_that_was_cut_short_holds_and_is_finished_later(
    log: SqliteLog, path: Path
) -> None:
    await fill(log, 1200)
    with closing(connect(str(path), busy_seconds=0)) as connection:
        SqliteTables(connection).raise_boundary(1101)  # and then the power failed
    assert raw(path, "SELECT count(*) FROM entry") == [(1200,)]
    assert await log.append(1100, b"late") is AppendResult.TRIMMED
    assert await log.read(1100, 10) == Trimmed(1101)
    await log.trim(1)
    assert raw(path, "SELECT min(position), count(*) FROM entry") == [(1101, 100)]


async def test_a_fresh_log_may_begin_anywhere(log: SqliteLog) -> None:
    await log.trim(1_000)
    assert await log.append(999, b"old life") is AppendResult.TRIMMED
    assert await log.append(1_000, b"new life") is AppendResult.APPENDED
    with pytest.raises(LogMisuse, match="ends at 1000"):
        await log.trim(1_002)


async def test_two_snapshots_are_kept_and_damage_falls_back(log: SqliteLog, path: Path) -> None:
    for position in (1, 2, 3):
        await log.save_snapshot(position, [b"state", b"%d" % position])
    assert raw(path, "SELECT position FROM snapshot ORDER BY 1") == [(2,), (3,)]
    assert raw(path, "SELECT count(*) FROM snapshot_chunk") == [(6,)]
    newest = "(SELECT id FROM snapshot WHERE position = 3)"
    raw(path, f"DELETE FROM snapshot_chunk WHERE ordinal = 1 AND snapshot = {newest}")
    assert await log.load_snapshot() == (2, [b"state", b"2"])
    raw(path, "UPDATE snapshot_chunk SET framed = x'00'")
    with pytest.raises(LogCorrupt, match="cut short"):
        await log.load_snapshot()


def test_a_snapshot_without_its_end_is_not_loaded(path: Path) -> None:
    with closing(connect(str(path), busy_seconds=0)) as connection:
        tables = SqliteTables(connection)
        snapshot = tables.begin_snapshot(5)
        tables.put_chunk(snapshot, 0, b"the process died here")
        assert tables.complete_snapshots() == []


async def test_a_slow_save_learns_of_a_newer_snapshot(log: SqliteLog, path: Path) -> None:
    with closing(connect(str(path), busy_seconds=0)) as connection:
        tables = SqliteTables(connection)
        snapshot = tables.begin_snapshot(5)
        await log.save_snapshot(9, [b"newer"])
        with pytest.raises(LogUnavailable, match="newer snapshot"):
            tables.complete_snapshot(snapshot)


async def test_closing_twice_is_fine_and_leaves_one_file(path: Path) -> None:
    log = await open_file(path)
    await log.append(1, b"x")
    await log.aclose()
    await log.aclose()
    assert [each.name for each in path.parent.iterdir()] == ["log.db"]


_WRITER = """
import sys, trio
from pathlib import Path
from tidegate_coordination.logs.sqlite.log import open_file
from tidegate_coordination.log.metadata_log import AppendResult

async def main(path, name, wins):
    log, position = await open_file(path), 1
    while wins:
        result = await log.append(position, name.encode())
        wins -= result is AppendResult.APPENDED
        position += 1
    await log.aclose()

trio.run(main, Path(sys.argv[1]), sys.argv[2], 40)
"""


async def test_two_processes_share_one_file(path: Path) -> None:
    """Both processes open, create and write the file at once; each won append is its own entry."""
    async with trio.open_nursery() as nursery:
        for name in ("left", "right"):
            command = [sys.executable, "-W", "error", "-c", _WRITER, str(path), name]
            nursery.start_soon(trio.run_process, command)
    log = await open_file(path)
    entries = await log.read(1, 1_000_000)
    await log.aclose()
    assert not isinstance(entries, Trimmed)
    names = [each.payload for each in entries]
    assert (names.count(b"left"), names.count(b"right"), len(names)) == (40, 40, 80)
