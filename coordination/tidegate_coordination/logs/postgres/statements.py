"""Statements of the hot path, sent by libpq in the event loop: a thread costs more than they do.

Each is prepared at its first use on a connection.  Values and rows are PostgreSQL's binary forms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
import trio
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

INT8: Final = 20  # object ids of types
BYTEA: Final = 17
TEXT: Final = 25
_BINARY: Final = 1
_GOOD: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)

Row = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """types: of its parameters ($1, $2, ...), in order."""

    name: bytes
    sql: bytes
    types: tuple[int, ...]


async def ask(
    line: PGconn, statement: Statement, values: Sequence[bytes], prepared: set[bytes]
) -> list[Row]:
    """Return the rows.

    prepared: names of this connection's prepared statements; grows.

    Raises:
        psycopg.Error: the connection cannot be used again.
        trio.ClosedResourceError: the connection was closed meanwhile.
    """
    if statement.name not in prepared:
        line.send_prepare(statement.name, statement.sql, statement.types)
        await _result(line)
        prepared.add(statement.name)
    line.send_query_prepared(statement.name, values, [_BINARY] * len(values), _BINARY)
    result = await _result(line)
    columns = range(result.nfields)
    return [tuple(result.get_value(row, at) for at in columns) for row in range(result.ntuples)]


async def _result(line: PGconn) -> PGresult:
    """Send the buffered bytes, and receive the one result."""
    while line.flush():
        await trio.lowlevel.wait_writable(line.socket)
    found: PGresult | None = None
    while True:
        while line.is_busy():
            await trio.lowlevel.wait_readable(line.socket)
            line.consume_input()
        result = line.get_result()
        if result is None:
            break
        found = result
    if found is None:
        raise psycopg.OperationalError("the connection was lost")
    if found.status not in _GOOD:
        raise _error(found)
    return found


def _error(result: PGresult) -> psycopg.Error:
    if result.error_field(DiagnosticField.SQLSTATE):
        return psycopg.errors.error_from_result(result)
    # libpq's own error: no server answered
    return psycopg.OperationalError(result.get_error_message())
