"""A log in PostgreSQL under outages and damage: no entry is lost, and missing ones are noticed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import trio

from tests.worlds import postgres_world
from tests.worlds.postgres_world import (
    backends,
    end_connections,
    fill,
    is_blocked,
    opened_log,
    raw,
    transaction,
    until,
)
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    Trimmed,
)
from tidegate_coordination.logs.postgres import lane as postgres_lane
from tidegate_coordination.logs.postgres.log import PostgresLog

if TYPE_CHECKING:
    from tests.worlds.pg_server import PostgresServer


url, log = postgres_world.url, postgres_world.log


# -- outages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restart_of_the_server_loses_nothing(
    postgres_server: PostgresServer, log: PostgresLog, how: signal.Signals
) -> None:
    await fill(log, 3)
    await log.wait(2, 60)
    await trio.to_thread.run_sync(postgres_server.stop, how)
    try:
        for _ in range(2):
            with pytest.raises(LogUnavailable, match=r"refused|terminating|closed"):
                await log.append(4, b"4")
            with pytest.raises(LogUnavailable):
                await log.read(1, 100)
        with pytest.raises(LogUnavailable):
            await log.load_snapshot()
        with pytest.raises(LogUnavailable):
            await log.wait(3, 60)
    finally:
        await trio.to_thread.run_sync(postgres_server.start)
    assert await log.append(4, b"4") is AppendResult.APPENDED
    entries = await log.read(1, 100)
    assert entries == [LogEntry(each, b"%d" % each) for each in (1, 2, 3, 4)]
    await log.wait(3, 60)


async def test_an_append_whose_connection_is_killed_has_an_unknown_outcome(
    log: PostgresLog, url: str
) -> None:
    await fill(log, 1)
    errors: list[LogUnavailable] = []

    async def append() -> None:
        try:
            await log.append(2, b"mine")
        except LogUnavailable as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        with transaction(url, "INSERT INTO entry VALUES (2, 'rival', 0)") as rival:
            nursery.start_soon(append)
            await until(lambda: is_blocked(url))
            (pid,) = backends(url, "wait_event_type = 'Lock'")
            raw(url, f"SELECT pg_terminate_backend({pid})")
            await until(lambda: not is_blocked(url))
            rival.rollback()
    assert len(errors) == 1
    assert await log.append(2, b"mine") is AppendResult.APPENDED
    assert await log.append(2, b"mine") is AppendResult.CONFLICT
    assert await log.read(2, 10) == [LogEntry(2, b"mine")]


async def test_a_connection_that_died_idle_is_not_used(log: PostgresLog, url: str) -> None:
    await fill(log, 2)
    await end_connections(url)
    assert await log.append(3, b"3") is AppendResult.APPENDED


async def test_a_call_that_is_cancelled_leaves_no_connection_behind(
    log: PostgresLog, url: str
) -> None:
    await fill(log, 1)
    before = backends(url, "true")
    with transaction(url, "INSERT INTO entry VALUES (2, 'rival', 0)") as rival:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.append, 2, b"abandoned")
            await until(lambda: is_blocked(url))
            nursery.cancel_scope.cancel()
        rival.rollback()
    assert await log.append(2, b"abandoned") in (AppendResult.APPENDED, AppendResult.CONFLICT)
    assert await log.read(2, 10) == [LogEntry(2, b"abandoned")]
    await until(lambda: len(backends(url, "true")) == len(before))
    assert backends(url, "true") != before


async def test_statements_that_hang_are_given_up_with_their_threads(
    log: PostgresLog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, 1)
    with transaction(url, "INSERT INTO entry VALUES (2, 'rival', 0)") as rival:
        with monkeypatch.context() as patched:
            patched.setattr(postgres_lane, "CALL_SECONDS", 0.2)
            for _ in range(6):
                with pytest.raises(LogUnavailable, match="did not append within"):
                    await log.append(2, b"late")
            patched.setattr(postgres_lane, "CALL_SECONDS", 2)  # locks are waited for longer
            assert await log.append(1, b"held") is AppendResult.CONFLICT
        rival.rollback()
    assert await log.append(2, b"late") in (AppendResult.APPENDED, AppendResult.CONFLICT)
    assert await log.read(2, 10) == [LogEntry(2, b"late")]


async def test_once_open_a_refusal_counts_as_an_outage(
    postgres_server: PostgresServer, log: PostgresLog, url: str
) -> None:
    """A server that fails over answers the same.

    A new open_log() is refused.
    """
    database = url.rpartition("/")[2]
    await fill(log, 1)
    postgres_server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    await end_connections(url)
    with pytest.raises(LogUnavailable, match="takes no writes"):
        await log.append(2, b"2")
    with pytest.raises(LogMisconfigured, match="set read-only"):
        await open_log(url)


# -- durability and damage ------------------------------------------------------------------------


async def test_weak_commits_of_a_role_are_made_strong(
    postgres_server: PostgresServer, url: str
) -> None:
    """synchronous_commit = off is replaced, so that acknowledged entries are flushed.

    A stronger setting is kept.
    """
    database = url.rpartition("/")[2]
    for setting, used in (("off", "on"), ("remote_apply", "remote_apply")):
        postgres_server.sql(f"ALTER DATABASE {database} SET synchronous_commit = {setting}")
        log = await opened_log(url)
        shown = await log._appends.call("look", lambda it: it.execute("SHOW synchronous_commit"))
        assert shown.fetchone() == (used,)
        await log.aclose()


async def test_a_server_that_does_not_flush_is_refused(
    postgres_server: PostgresServer, url: str
) -> None:
    def shown() -> str:
        return str(postgres_server.sql("SHOW fsync")[0][0])

    try:
        postgres_server.sql("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        await until(lambda: shown() == "off")
        with pytest.raises(LogMisconfigured, match="Set fsync=on"):
            await open_log(url)
    finally:
        postgres_server.sql("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
        await until(lambda: shown() == "on")


async def test_a_damaged_entry_is_noticed(log: PostgresLog, url: str) -> None:
    await fill(log, 3)
    raw(url, "UPDATE entry SET payload = '7' WHERE position = 2")
    assert await log.read(1, 1) == [LogEntry(1, b"1")]
    with pytest.raises(LogCorrupt, match=r"entry 2 .* checksum"):
        await log.read(1, 100)


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("max_bytes", [0, 100])
async def test_a_missing_entry_is_noticed(
    log: PostgresLog, url: str, start: int, max_bytes: int
) -> None:
    await fill(log, 3)
    raw(url, "DELETE FROM entry WHERE position = 2")
    if (start, max_bytes) == (1, 0):
        assert await log.read(1, 0) == [LogEntry(1, b"1")]
        return
    with pytest.raises(LogCorrupt, match="entry 2 is missing"):
        await log.read(start, max_bytes)


async def test_a_standby_that_lacked_entries_is_noticed(log: PostgresLog, url: str) -> None:
    await fill(log, 3)
    raw(url, "DELETE FROM entry WHERE position > 1")
    with pytest.raises(LogCorrupt, match="ends at 1"):
        await log.read(4, 100)
    with pytest.raises(LogCorrupt, match="ends at 1"):
        await log.append(4, b"4")


@pytest.mark.parametrize("length", [2, 3, 4, 9])
async def test_a_log_that_went_on_without_an_entry_is_noticed(
    log: PostgresLog, url: str, length: int
) -> None:
    """A standby that lacked entries already read took over, and other gateways appended to it."""
    await fill(log, 4)
    await end_connections(url)
    raw(url, "DELETE FROM entry WHERE position > 2")
    other = await opened_log(url)
    for position in range(3, length + 1):
        assert await other.append(position, b"another") is AppendResult.APPENDED
    for attempt in (log.read(5, 100), log.append(5, b"5"), log.wait(4, 60), log.load_snapshot()):
        with pytest.raises(LogCorrupt, match=r"entry 4 .* another one"):
            await attempt
    await other.aclose()


async def test_trimmed_entries_do_not_count_as_lost(log: PostgresLog, url: str) -> None:
    await fill(log, 4)
    other = await opened_log(url)
    assert await other.append(5, b"5") is AppendResult.APPENDED
    await other.trim(6)
    await end_connections(url)
    assert await log.read(5, 100) == Trimmed(6)
    assert await log.append(6, b"6") is AppendResult.APPENDED
    await other.aclose()


async def test_dropped_tables_are_noticed(log: PostgresLog, url: str) -> None:
    await fill(log, 1)
    raw(url, "DROP SCHEMA tidegate CASCADE")
    with pytest.raises(LogCorrupt, match="were dropped"):
        await log.append(2, b"2")
    with pytest.raises(LogCorrupt, match="were dropped"):
        await log.read(1, 1)


async def test_two_snapshots_are_kept_and_damage_falls_back(log: PostgresLog, url: str) -> None:
    for position in (1, 2, 3):
        await log.save_snapshot(position, [b"state", b"%d" % position])
    assert raw(url, "SELECT position FROM snapshot ORDER BY 1") == [(2,), (3,)]
    assert raw(url, "SELECT count(*) FROM snapshot_chunk") == [(6,)]
    newest = "(SELECT id FROM snapshot WHERE position = 3)"
    raw(url, f"DELETE FROM snapshot_chunk WHERE ordinal = 1 AND snapshot = {newest}")
    assert await log.load_snapshot() == (2, [b"state", b"2"])
    raw(url, "UPDATE snapshot_chunk SET framed = 'x'")
    with pytest.raises(LogCorrupt, match="cut short"):
        await log.load_snapshot()


async def test_a_large_snapshot_is_read_in_parts(log: PostgresLog) -> None:
    chunks = [bytes([each]) * (3 << 20) for each in range(7)]
    await log.save_snapshot(5, chunks)
    assert await log.load_snapshot() == (5, chunks)


async def test_old_positions_are_read_after_a_trim_as_trimmed(log: PostgresLog) -> None:
    await fill(log, 4)
    await log.trim(3)
    assert await log.read(2, 10) == Trimmed(3)
    assert await log.read(3, 10) == [LogEntry(3, b"3"), LogEntry(4, b"4")]
