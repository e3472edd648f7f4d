"""The tables of a PostgreSQL log, in a schema of its own.

    tidegate_layout(version)                one row
    entry(position, payload, crc)           the primary key is the compare-and-set
    boundary(one, trimmed)                  one row: positions up to it are gone for ever
    snapshot(id, position, complete)        counts only when complete
    snapshot_chunk(snapshot, ordinal, framed)

Payloads are stored as they are: to compress them would lengthen every append.
"""

from typing import Final

from psycopg import sql

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.postgres.session import Connection

LAYOUT: Final = 1

_TABLES: Final = (
    "CREATE TABLE tidegate_layout (version integer NOT NULL)",
    "CREATE TABLE entry (position bigint PRIMARY KEY, payload bytea NOT NULL, crc bigint NOT NULL)",
    "ALTER TABLE entry ALTER COLUMN payload SET STORAGE EXTERNAL",
    "CREATE TABLE boundary (one integer PRIMARY KEY CHECK (one = 1), trimmed bigint NOT NULL)",
    "INSERT INTO boundary VALUES (1, 0)",
    # An identity column: the id of a dropped snapshot must not be reused while its writer still
    # writes.
    "CREATE TABLE snapshot (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " position bigint NOT NULL, complete boolean NOT NULL DEFAULT false)",
    "CREATE TABLE snapshot_chunk (snapshot bigint NOT NULL, ordinal integer NOT NULL,"
    " framed bytea NOT NULL, PRIMARY KEY (snapshot, ordinal))",
    "ALTER TABLE snapshot_chunk ALTER COLUMN framed SET STORAGE EXTERNAL",
    f"INSERT INTO tidegate_layout VALUES ({LAYOUT})",
)


def make_tables(connection: Connection, schema: str) -> None:
    """Create the missing tables; several gateways may call it at once.

    Raises:
        psycopg.Error: to be translated.
        LogMisconfigured: a newer release made them.
    """
    if _is_made(connection):
        return
    # Locked for the session, since a transaction would not see tables that others made meanwhile.
    # If a statement fails, the lock ends with the connection.
    lock = ("tidegate " + schema,)
    connection.execute("SELECT pg_advisory_lock(hashtext(%s))", lock)
    if not _is_made(connection):
        with connection.transaction():
            _make(connection, schema)
    connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", lock)


def _make(connection: Connection, schema: str) -> None:
    # IF NOT EXISTS would need the right to create schemas even if the schema exists.
    found = connection.execute("SELECT to_regnamespace(quote_ident(%s)) IS NULL", (schema,))
    if found.fetchone() == (True,):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    for statement in _TABLES:
        connection.execute(statement.encode())


def _is_made(connection: Connection) -> bool:
    found = connection.execute("SELECT to_regclass('tidegate_layout') IS NOT NULL")
    if found.fetchone() != (True,):
        return False
    row = connection.execute("SELECT version FROM tidegate_layout").fetchone()
    if row != (LAYOUT,):
        version = row[0] if row else "none"
        raise LogMisconfigured(
            f"the PostgreSQL log has layout {version}; this release reads {LAYOUT}:"
            " start a newer one"
        )
    return True
