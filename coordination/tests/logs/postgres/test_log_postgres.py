"""Promises of `postgres:` beyond the contract: races, and waking waiting callers."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trustme

from tests.worlds import postgres_world
from tests.worlds.postgres_world import (
    PATIENCE_SECONDS,
    backends,
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
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
)
from tidegate_coordination.log_contract.contract import verify_log
from tidegate_coordination.logs.postgres import listener as postgres_listener
from tidegate_coordination.logs.postgres.log import PostgresLog

if TYPE_CHECKING:
    from tests.worlds.pg_server import PostgresServer


url, log = postgres_world.url, postgres_world.log


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


async def test_the_postgres_log_keeps_the_contract_over_tls(
    postgres_server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """The wheel's server has no TLS, so a proxy before it terminates TLS."""
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
    """Terminate the TLS of one connection, and relay it to the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    assert len(await client.receive_some(8)) == 8  # SSLRequest
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


# -- append against trim and against others -----------------------------------------------------


async def test_an_append_paused_while_the_boundary_passes_it_is_refused(
    log: PostgresLog, url: str
) -> None:
    """The append begins while an entry holds position 2, and continues after the trim."""
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
    """Otherwise the trim could read an end of the log that is about to change."""
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


# -- waking ---------------------------------------------------------------------------------------


async def test_waiting_wakes_by_notification(
    log: PostgresLog, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "POLL_SECONDS", 1e6)  # polling cannot wake it
    other = await opened_log(url)
    with trio.fail_after(PATIENCE_SECONDS):
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
    with trio.fail_after(PATIENCE_SECONDS):
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
    with trio.fail_after(PATIENCE_SECONDS):
        while log._last_seen < 1:
            await log.wait(0, 0.01)


@pytest.mark.parametrize("said", ["7", "9" * 19, "9" * 7_000, "\u0667", "-1", "nonsense", ""])
async def test_notifications_of_strangers_do_no_harm(log: PostgresLog, url: str, said: str) -> None:
    """Every user of the database may send notifications."""
    await fill(log, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.wait, 1, 1e6)
        await until(lambda: bool(backends(url, "query LIKE 'SELECT coalesce%%'")))
        raw(url, f"SELECT pg_notify('tidegate_tidegate', '{said}')")
        raw(url, "SELECT pg_notify('tidegate_tidegate', '5')")
    # The log was notified, perhaps twice. After a read it waits again.
    waits_again = False
    for _ in range(3):
        assert await log.read(2, 100) == []
        with trio.move_on_after(0.3) as waited:
            await log.wait(1, 1e6)
        waits_again = waits_again or waited.cancelled_caught
    assert waits_again
    other = await opened_log(url)
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, 1, 1e6)
            await other.append(2, b"2")
    await other.aclose()


async def test_waiting_outlives_its_connection(log: PostgresLog, url: str) -> None:
    listening = "state = 'idle' AND query LIKE 'SELECT coalesce%%'"
    with trio.fail_after(PATIENCE_SECONDS):
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

    with trio.fail_after(PATIENCE_SECONDS):
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

    with trio.fail_after(PATIENCE_SECONDS):
        with transaction(url, "INSERT INTO entry VALUES (2, 'rival', 0)") as rival:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append)
                await until(lambda: is_blocked(url))
                await log.aclose()
            rival.rollback()
    assert len(ended) == 1
    assert "the call was abandoned" in ended[0]
