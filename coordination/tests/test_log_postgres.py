"""What `postgres:` promises beyond the contract: races, outages, clear refusals."""

from __future__ import annotations

import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import trio
import trustme

from tidegate_coordination.load import open_log
from tidegate_coordination.log_contract import verify_log
from tidegate_coordination.logs import postgres_lane, postgres_listener
from tidegate_coordination.logs.postgres_log import PostgresLog
from tidegate_coordination.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)

if TYPE_CHECKING:
    from tests.pg_server import PostgresServer

_PATIENCE_SECONDS = 20.0


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


@pytest.fixture
async def log(url: str) -> AsyncIterator[PostgresLog]:
    opened = await opened_log(url)
    yield opened
    await opened.aclose()


async def opened_log(url: str) -> PostgresLog:
    log = await open_log(url)
    assert isinstance(log, PostgresLog)
    return log


def raw(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Another connection, as an operator's shell has it."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=tidegate") as connection:
        done = [connection.execute(each.encode()) for each in statements]
        return [row for each in done if each.description for row in each.fetchall()]


@contextmanager
def transaction(url: str, *statements: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Statements that are not committed, unless the caller does."""
    with psycopg.connect(url, options="-c search_path=tidegate") as connection:
        for each in statements:
            connection.execute(each.encode())
        yield connection
        connection.rollback()


async def fill(log: MetadataLog, count: int) -> None:
    for position in range(1, count + 1):
        assert await log.append(position, b"%d" % position) is AppendResult.APPENDED


async def until(holds: Callable[[], bool]) -> None:
    """Ask the server over and over; only for what no call of the log's can tell."""
    with trio.fail_after(_PATIENCE_SECONDS):
        while not await trio.to_thread.run_sync(holds):
            await trio.lowlevel.checkpoint()


def backends(url: str, where: str) -> list[int]:
    """The processes of the server that work for this database's logs."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return [pid for (pid,) in raw(url, f"{query} AND application_name = 'tidegate' AND {where}")]


def is_blocked(url: str) -> bool:
    return bool(backends(url, "wait_event_type = 'Lock'"))


async def test_it_keeps_the_contract(url: str) -> None:
    failed: list[str] = []

    def report(name: str, good: bool, text: str) -> None:
        failed.extend([] if good else [f"{name}: {text}"])

    assert await verify_log(lambda: open_log(url), report)
    assert failed == []


async def test_postgresql_means_the_same(url: str) -> None:
    log = await opened_log(url.replace("postgres://", "postgresql://", 1))
    await fill(log, 1)
    await log.aclose()


async def test_logs_of_one_database_do_not_see_each_other(url: str) -> None:
    one, two = await opened_log(url), await opened_log(f"{url}?schema=other")
    await fill(one, 3)
    assert await two.append(1, b"its own") is AppendResult.APPENDED
    assert await two.read(1, 100) == [LogEntry(1, b"its own")]
    await one.save_snapshot(3, [b"of one"])
    await one.trim(3)
    assert await two.load_snapshot() is None
    assert await two.append(2, b"more") is AppendResult.APPENDED
    await one.aclose()
    await two.aclose()


async def test_many_may_be_the_first(url: str) -> None:
    logs: list[PostgresLog] = []

    async def open_one() -> None:
        logs.append(await opened_log(url))

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(open_one)
    results = [await log.append(1, b"first") for log in logs]
    assert sorted(each.value for each in results) == ["appended"] + ["conflict"] * 5
    for log in logs:
        await log.aclose()


# -- append against trim and against others -----------------------------------------------------


async def test_an_append_paused_while_the_boundary_passes_it_is_refused(
    log: PostgresLog, url: str
) -> None:
    """Its statement began when position 2 was held by an entry, and goes on when that is gone."""
    await fill(log, 3)
    results: list[AppendResult] = []

    async def append() -> None:
        results.append(await log.append(2, b"from the past"))

    trim = ("UPDATE boundary SET trimmed = 3", "DELETE FROM entry")
    async with trio.open_nursery() as nursery:
        with transaction(url, *trim) as trimming:
            nursery.start_soon(append)
            await until(lambda: is_blocked(url))
            trimming.commit()
    assert results == [AppendResult.TRIMMED]
    assert raw(url, "SELECT * FROM entry") == []
    assert await log.append(3, b"also") is AppendResult.TRIMMED
    assert await log.append(4, b"next") is AppendResult.APPENDED


async def test_a_trim_waits_for_an_append_under_way(log: PostgresLog, url: str) -> None:
    """Else it could judge the end of the log by what is about to change."""
    results: list[AppendResult] = []
    refused: list[LogMisuse] = []

    async def append() -> None:
        results.append(await log.append(1, b"first"))

    async def trim() -> None:
        try:
            await log.trim(1_000)  # allowed on a log that never held an entry
        except LogMisuse as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        with transaction(url, "INSERT INTO entry VALUES (1, 'rival', 0)") as rival:
            nursery.start_soon(append)
            await until(lambda: is_blocked(url))
            nursery.start_soon(trim)
            await until(lambda: len(backends(url, "wait_event_type = 'Lock'")) == 2)
            rival.rollback()
    assert (results, len(refused)) == ([AppendResult.APPENDED], 1)
    assert await log.read(1, 10) == [LogEntry(1, b"first")]


async def test_an_append_waits_for_a_rival_and_conflicts(log: PostgresLog, url: str) -> None:
    results: list[AppendResult] = []

    async def append() -> None:
        results.append(await log.append(1, b"second"))

    async with trio.open_nursery() as nursery:
        with transaction(url, "INSERT INTO entry VALUES (1, 'rival', 0)") as rival:
            nursery.start_soon(append)
            await until(lambda: is_blocked(url))
            rival.commit()
    assert results == [AppendResult.CONFLICT]


async def test_a_fresh_log_may_begin_anywhere(log: PostgresLog) -> None:
    await log.trim(1_000)
    assert await log.append(999, b"old life") is AppendResult.TRIMMED
    assert await log.append(1_000, b"new life") is AppendResult.APPENDED
    with pytest.raises(LogMisuse, match="ends at 1000"):
        await log.trim(1_002)


async def test_trimming_takes_as_many_batches_as_it_needs(log: PostgresLog, url: str) -> None:
    raw(url, "INSERT INTO entry SELECT n, '', 0 FROM generate_series(1, 1200) AS n")
    await log.trim(1_101)
    assert raw(url, "SELECT min(position), count(*) FROM entry") == [(1101, 100)]


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
    for pid in backends(url, "true"):
        raw(url, f"SELECT pg_terminate_backend({pid})")
    await until(lambda: not backends(url, "true"))
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


async def test_what_looks_like_a_refusal_is_an_outage_once_it_was_open(
    postgres_server: PostgresServer, log: PostgresLog, url: str
) -> None:
    """Servers that fail over say so too; opening it anew is refused."""
    database = url.rpartition("/")[2]
    await fill(log, 1)
    postgres_server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    for pid in backends(url, "true"):
        raw(url, f"SELECT pg_terminate_backend({pid})")
    await until(lambda: not backends(url, "true"))
    with pytest.raises(LogUnavailable, match="takes no writes"):
        await log.append(2, b"2")
    with pytest.raises(LogMisconfigured, match="set read-only"):
        await open_log(url)


# -- waking ---------------------------------------------------------------------------------------


async def test_waiting_wakes_by_notification(
    log: PostgresLog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "POLL_SECONDS", 1e6)  # nothing is seen by asking
    other = await opened_log(url)
    with trio.fail_after(_PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(log.wait, 0, 1e6)
            await until(lambda: bool(backends(url, "query LIKE 'SELECT coalesce%%'")))
            await other.append(1, b"elsewhere")
        await log.wait(0, 1e6)
    await other.aclose()


async def test_growth_is_seen_where_notifications_are_lost(
    log: PostgresLog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "POLL_SECONDS", 0.05)
    with trio.fail_after(_PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, 0, 1e6)
            await until(lambda: bool(backends(url, "query LIKE 'SELECT coalesce%%'")))
            raw(url, "INSERT INTO entry VALUES (1, 'unsaid', 0)")


async def test_growth_is_seen_however_short_the_waits_are(
    log: PostgresLog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "POLL_SECONDS", 0.2)
    await log.wait(0, 0.1)
    raw(url, "INSERT INTO entry VALUES (1, 'unsaid', 0)")
    with trio.fail_after(_PATIENCE_SECONDS):
        while log._last_seen < 1:
            await log.wait(0, 0.01)


@pytest.mark.parametrize("said", ["7", "9" * 19, "9" * 7_000, "\u0667", "-1", "nonsense", ""])
async def test_notifications_of_strangers_do_no_harm(log: PostgresLog, url: str, said: str) -> None:
    """No right is needed to send them."""
    await fill(log, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait, 1, 1e6)
        await until(lambda: bool(backends(url, "query LIKE 'SELECT coalesce%%'")))
        raw(url, f"SELECT pg_notify('tidegate_tidegate', '{said}')")
        raw(url, "SELECT pg_notify('tidegate_tidegate', '5')")
    # It was told that there is more, twice perhaps; once it has looked, it waits again.
    waits_again = False
    for _ in range(3):
        assert await log.read(2, 100) == []
        with trio.move_on_after(0.3) as waited:
            await log.wait(1, 1e6)
        waits_again = waits_again or waited.cancelled_caught
    assert waits_again
    other = await opened_log(url)
    with trio.fail_after(_PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, 1, 1e6)
            await other.append(2, b"2")
    await other.aclose()


async def test_waiting_outlives_its_connection(log: PostgresLog, url: str) -> None:
    listening = "state = 'idle' AND query LIKE 'SELECT coalesce%%'"
    with trio.fail_after(_PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, 0, 1e6)
            await until(lambda: bool(backends(url, listening)))
            (pid,) = backends(url, listening)
            raw(url, f"SELECT pg_terminate_backend({pid})")
            await until(lambda: backends(url, listening) not in ([], [pid]))
            await log.append(1, b"1")


async def test_a_wait_ends_when_the_log_is_closed(url: str) -> None:
    log = await opened_log(url)
    ended: list[LogUnavailable] = []

    async def wait() -> None:
        try:
            await log.wait(0, 1e6)
        except LogUnavailable as error:
            ended.append(error)

    with trio.fail_after(_PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(lambda: bool(backends(url, "query LIKE 'SELECT coalesce%%'")))
            await log.aclose()
    assert len(ended) == 1
    await log.aclose()


async def test_an_append_ends_when_the_log_is_closed(log: PostgresLog, url: str) -> None:
    await fill(log, 1)
    ended: list[str] = []

    async def append() -> None:
        try:
            await log.append(2, b"late")
        except LogUnavailable as error:
            ended.append(str(error))

    with trio.fail_after(_PATIENCE_SECONDS):
        with transaction(url, "INSERT INTO entry VALUES (2, 'rival', 0)") as rival:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append)
                await until(lambda: is_blocked(url))
                await log.aclose()
            rival.rollback()
    assert len(ended) == 1
    assert "nobody waits for it any more" in ended[0]


# -- durability and damage ------------------------------------------------------------------------


async def test_weak_commits_of_a_role_are_made_strong(
    postgres_server: PostgresServer, url: str
) -> None:
    """What is acknowledged is flushed by then; a stronger setting is left."""
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


async def end_connections(url: str) -> None:
    for pid in backends(url, "true"):
        raw(url, f"SELECT pg_terminate_backend({pid})")
    await until(lambda: not backends(url, "true"))


@pytest.mark.parametrize("length", [2, 3, 4, 9])
async def test_a_log_that_went_on_without_an_entry_is_noticed(
    log: PostgresLog, url: str, length: int
) -> None:
    """As after a standby took over that lacked what a gateway had read, and others went on."""
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


async def test_what_was_trimmed_is_not_missed(log: PostgresLog, url: str) -> None:
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


async def test_it_keeps_the_contract_over_tls(
    postgres_server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """The server of the wheel has no TLS, so it ends before it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.crt")
    trusted = f"{url}?sslmode=verify-full&sslrootcert={tmp_path / 'authority.crt'}"
    with pytest.raises(LogMisconfigured, match="see sslmode"):
        await open_log(trusted)
    async with trio.open_nursery() as nursery:
        serve = partial(serve_tls, authority, postgres_server.port)
        listen = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        there = trusted.replace(
            f":{postgres_server.port}/", f":{listener.socket.getsockname()[1]}/"
        )
        with pytest.raises(LogMisconfigured, match="see sslmode"):
            await open_log(there.replace("127.0.0.1", "localhost"))
        assert await verify_log(lambda: open_log(there), lambda *_: None)
        nursery.cancel_scope.cancel()


async def serve_tls(authority: trustme.CA, port: int, client: trio.SocketStream) -> None:
    """Take off the TLS of one connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    assert len(await client.receive_some(8)) == 8  # "may we?"
    await client.send_all(b"S")
    inner = trio.SSLStream(client, context, server_side=True)
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        server = await trio.open_tcp_stream("127.0.0.1", port)
        async with inner, server, trio.open_nursery() as nursery:
            nursery.start_soon(_pump, inner, server)
            await _pump(server, inner)
            nursery.cancel_scope.cancel()


async def _pump(source: trio.abc.Stream, target: trio.abc.Stream) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while part := await source.receive_some(65_536):
            await target.send_all(part)
    await target.aclose()


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("postgres-of-tests@", "wrong-secret@"), "check user and password"),
        (("postgres:postgres-of-tests@", "nobody:wrong-secret@"), "check user and password"),
        (("postgres:postgres-of-tests@", "nobody@"), "check user and password"),
        (("/d", "/none"), "create the database first"),
        (("postgres:postgres-of-tests@", "barred:postgres-of-tests@"), "create it, with LOGIN"),
        (("127.0.0.1", "127.0.0.1:1,127.0.0.1"), None),
    ],
)
async def test_what_a_person_can_mend_is_a_sentence(
    postgres_server: PostgresServer,
    url: str,
    change: tuple[str, str],
    sentence: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    if "barred" in change[1]:
        postgres_server.sql("CREATE ROLE barred NOLOGIN PASSWORD 'postgres-of-tests'")
    wrong = url.replace(*change)
    assert wrong != url
    if sentence is None:
        await (await open_log(wrong)).aclose()
        return
    with pytest.raises(LogMisconfigured, match=sentence) as refused:
        await open_log(wrong)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_role_without_rights_is_told_which(
    postgres_server: PostgresServer, url: str
) -> None:
    database = url.rpartition("/")[2]
    postgres_server.sql(f"CREATE ROLE {database} LOGIN PASSWORD 'postgres-of-tests'")
    theirs = postgres_server.url(database, user=database)
    with pytest.raises(LogMisconfigured, match="CREATE SCHEMA tidegate AUTHORIZATION"):
        await open_log(theirs)
    raw(url, f"CREATE SCHEMA tidegate AUTHORIZATION {database}")
    log = await opened_log(theirs)
    await fill(log, 1)
    await log.aclose()
    stranger = f"{database}_stranger"
    postgres_server.sql(f"CREATE ROLE {stranger} LOGIN PASSWORD 'postgres-of-tests'")
    with pytest.raises(LogMisconfigured, match="tidegate"):
        await open_log(postgres_server.url(database, user=stranger))


@pytest.mark.parametrize(
    ("state", "kind"),
    [("28P01", LogMisconfigured), ("3D000", LogMisconfigured), ("57P03", LogUnavailable)],
)
async def test_a_refusal_is_known_in_any_language(state: str, kind: type[Exception]) -> None:
    """What is refused for now is an outage."""
    fields = ["SFATAL", "VFATAL", f"C{state}", "Mça ne va pas", ""]
    refusal = b"".join(each.encode() + b"\0" for each in fields)

    async def refuse(client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            assert await client.receive_some(8)  # "TLS?"
            await client.send_all(b"N")
            assert await client.receive_some(1000)
            await client.send_all(b"E" + (len(refusal) + 4).to_bytes(4, "big") + refusal)
            await client.aclose()

    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, refuse, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        port = listener.socket.getsockname()[1]
        with pytest.raises(kind, match="ça ne va pas"):
            await open_log(f"postgres://ann:secret@127.0.0.1:{port}/db")
        nursery.cancel_scope.cancel()


async def test_the_password_may_come_from_where_libpq_looks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "postgres-of-tests")
    log = await open_log(url.replace(":postgres-of-tests", ""))
    await log.aclose()


async def test_a_newer_layout_is_refused(log: PostgresLog, url: str) -> None:
    raw(url, "UPDATE tidegate_layout SET version = 2")
    with pytest.raises(LogMisconfigured, match="layout 2; this release reads 1"):
        await open_log(url)


async def test_tables_of_others_are_kept(url: str) -> None:
    raw(url, "CREATE TABLE public.entry (precious text)")
    with pytest.raises(LogMisconfigured, match="tables of others"):
        await open_log(f"{url}?schema=public")
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert raw(url, names) == [("entry",)]


async def test_nobody_there_is_an_outage() -> None:
    with pytest.raises(LogUnavailable, match="refused"):
        await open_log("postgres://me:secret@127.0.0.1:1/db")


async def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tidegate_coordination.logs.postgres_log", None)
    with pytest.raises(LogMisconfigured, match=r"pip install 'tidegate\[postgres\]'"):
        await open_log("postgres://h/db")
