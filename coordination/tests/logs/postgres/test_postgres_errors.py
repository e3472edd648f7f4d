"""Which errors of PostgreSQL are outages, and which are not."""

from __future__ import annotations

import select
from typing import Any

import psycopg
import pytest

from tests.worlds import postgres_world
from tests.worlds.postgres_world import PATIENCE_SECONDS
from tidegate_coordination.log.metadata_log import AppendResult, LogCorrupt, LogUnavailable
from tidegate_coordination.logs.postgres import tables as postgres_tables
from tidegate_coordination.logs.postgres.errors import translated
from tidegate_coordination.logs.postgres.log import PostgresLog
from tidegate_coordination.logs.postgres.url import Address

url, log = postgres_world.url, postgres_world.log


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("25P03", LogUnavailable),  # the process was stopped for longer than the server waits
        ("25P04", LogUnavailable),
        ("XX000", LogUnavailable),  # the answer of some proxies when they lose the server
        ("XX001", LogCorrupt),
        ("42601", psycopg.errors.SyntaxError),  # a bug of Tidegate
    ],
)
def test_an_error_that_may_pass_is_an_outage(state: str, kind: type[Exception]) -> None:
    address = Address({}, "tidegate")
    error = psycopg.errors.lookup(state)("it said so")
    assert type(translated(address, "append", error)) is kind


async def test_a_process_that_is_stopped_within_a_transaction_goes_on(
    log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the transaction, and answers with an error for that."""
    await log.append(1, b"one")
    real = postgres_tables.last_position

    def stopped(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
        select.select([connection.fileno()], [], [], PATIENCE_SECONDS)
        return real(connection)

    def impatient(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        connection.execute("SET idle_in_transaction_session_timeout = '10ms'")

    await log._upkeep.call("be impatient", impatient)
    with monkeypatch.context() as patch:
        patch.setattr(postgres_tables, "last_position", stopped)
        with pytest.raises(LogUnavailable, match="idle-in-transaction"):
            await log.trim(2)
    await log.trim(2)
    assert await log.append(2, b"two") is AppendResult.APPENDED
