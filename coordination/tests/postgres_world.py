"""A log in PostgreSQL, and what else is at work in its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import trio

from tidegate_coordination.load import open_log
from tidegate_coordination.logs.postgres_log import PostgresLog
from tidegate_coordination.metadata_log import AppendResult, MetadataLog

PATIENCE_SECONDS = 20.0


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
    with trio.fail_after(PATIENCE_SECONDS):
        while not await trio.to_thread.run_sync(holds):
            await trio.lowlevel.checkpoint()


def backends(url: str, where: str) -> list[int]:
    """The processes of the server that work for this database's logs."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    return [pid for (pid,) in raw(url, f"{query} AND application_name = 'tidegate' AND {where}")]


def is_blocked(url: str) -> bool:
    return bool(backends(url, "wait_event_type = 'Lock'"))
