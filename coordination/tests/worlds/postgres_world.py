"""A log in PostgreSQL, and other sessions in its database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import trio

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import AppendResult, MetadataLog
from tidegate_coordination.logs.postgres.log import PostgresLog

if TYPE_CHECKING:
    from tests.worlds.pg_server import PostgresServer

PATIENCE_SECONDS = 20.0


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    """An empty database."""
    return postgres_server.new_database()


@pytest.fixture
async def log(url: str) -> AsyncIterator[PostgresLog]:
    """The log at the test's `url`."""
    opened = await opened_log(url)
    yield opened
    await opened.aclose()


async def opened_log(url: str) -> PostgresLog:
    opened = await open_log(url)
    assert isinstance(opened, PostgresLog)
    return opened


def raw(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Another connection, as an operator's shell has it."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=tidegate") as connection:
        done = [connection.execute(each.encode()) for each in statements]
        return [row for each in done if each.description for row in each.fetchall()]


@contextmanager
def transaction(url: str, *statements: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Run statements in a transaction that is rolled back, unless the caller commits it."""
    with psycopg.connect(url, options="-c search_path=tidegate") as connection:
        for each in statements:
            connection.execute(each.encode())
        yield connection
        connection.rollback()


async def fill(log: MetadataLog, count: int) -> None:
    for position in range(1, count + 1):
        assert await log.append(position, b"%d" % position) is AppendResult.APPENDED


async def until(holds: Callable[[], bool]) -> None:
    """Poll the server until the condition holds; only for facts that no call of the log returns."""
    with trio.fail_after(PATIENCE_SECONDS):
        while not await trio.to_thread.run_sync(holds):
            await trio.lowlevel.checkpoint()


def backends(url: str, where: str) -> list[int]:
    """The processes of the server that work for this database's logs."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return [pid for (pid,) in raw(url, f"{query} AND application_name = 'tidegate' AND {where}")]


def is_blocked(url: str) -> bool:
    return bool(backends(url, "wait_event_type = 'Lock'"))


async def end_connections(url: str) -> None:
    for pid in backends(url, "true"):
        raw(url, f"SELECT pg_terminate_backend({pid})")
    await until(lambda: not backends(url, "true"))
