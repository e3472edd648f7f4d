"""The SQL behind `postgres:`: no retries, one statement for each step.

Every call of the hot path is one round trip of a prepared statement that commits by itself, under
READ COMMITTED: APPEND and READ, which run in the event loop. `layout.py` describes the tables.

Append against trim. An append locks the boundary row (FOR SHARE) and only then inserts. Raising the
boundary waits for such locks. A lock that waited for a rise of the boundary sees the raised
boundary, even if the rest of the statement's view is older. So a position is inserted before the
boundary passes it, or refused for ever. The check for the predecessor may use the older view: the
writer has read that entry, and if the entry was trimmed since, the boundary shows it.
"""

from typing import Final

import crc32c
from psycopg.types.numeric import Int8

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    Trimmed,
)
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.statements import BYTEA, INT8, TEXT, Row, Statement

_TRIM_BATCH: Final = 500
_PAGE_ENTRIES: Final = 1000
_TRUE: Final = b"\x01"
_TRIMMED: Final = "(SELECT trimmed FROM boundary)"
_LAST: Final = f"coalesce((SELECT max(position) FROM entry), {_TRIMMED})"
APPEND: Final = Statement(
    b"tidegate_append",
    b"""
WITH held AS MATERIALIZED (
    SELECT trimmed FROM boundary FOR SHARE
), joined AS MATERIALIZED (
    SELECT trimmed, $1 > trimmed AND ($1 = trimmed + 1
        OR EXISTS (SELECT FROM entry WHERE position = $1 - 1)) AS fits
    FROM held
), taken AS (
    INSERT INTO entry (position, payload, crc) SELECT $1, $2, $3 FROM joined WHERE fits
    ON CONFLICT (position) DO NOTHING
    RETURNING pg_notify($4, position::text) IS NOT NULL AS told
)
SELECT trimmed, fits, EXISTS (SELECT FROM taken WHERE told) FROM joined
""",
    (INT8, BYTEA, INT8, TEXT),
)
READ: Final = Statement(
    b"tidegate_read",
    f"""
WITH near AS (
    SELECT position, payload, crc FROM entry
    WHERE position >= $1 ORDER BY position LIMIT {_PAGE_ENTRIES}
), page AS (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) AS total
    FROM near
)
SELECT trimmed, {_LAST}, position, payload, crc
FROM boundary LEFT JOIN page ON page.total <= $2 OR page.position = $1
ORDER BY position
""".encode(),
    (INT8, INT8),
)


def append_values(channel: str, position: int, payload: bytes) -> list[bytes]:
    checksum = checksum_of(LogEntry(position, payload))
    return [_int8(position), payload, _int8(checksum), channel.encode()]


def append_result(rows: list[Row], position: int) -> AppendResult | None:
    """Read the result of APPEND; None if the log ends before the position."""
    if not rows:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    [(trimmed, fits, is_taken)] = rows
    if is_taken == _TRUE:
        return AppendResult.APPENDED
    if position <= _number_of(trimmed):
        return AppendResult.TRIMMED
    return AppendResult.CONFLICT if fits == _TRUE else None


def read_values(from_position: int, max_bytes: int) -> list[bytes]:
    return [_int8(from_position), _int8(max_bytes)]


def read_result(rows: list[Row], from_position: int) -> list[LogEntry] | Trimmed:
    """Decode the result of READ."""
    if not rows:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    trimmed, last = (_number_of(each) for each in rows[0][:2])
    if from_position <= trimmed:
        return Trimmed(trimmed + 1)
    entries = [_checked(*row[2:]) for row in rows if row[2] is not None]
    for position, entry in enumerate(entries, start=from_position):
        if entry.position != position:
            raise LogCorrupt(f"entry {position} is missing from the PostgreSQL log")
    if not entries and from_position <= last:
        raise LogCorrupt(f"entry {from_position} is missing from the PostgreSQL log")
    if from_position > last + 1:
        raise too_far(from_position, last)
    return entries


def _checked(position: bytes | None, payload: bytes | None, crc: bytes | None) -> LogEntry:
    entry = LogEntry(_number_of(position), payload or b"")
    if _number_of(crc) != checksum_of(entry):
        raise LogCorrupt(f"entry {entry.position} of the PostgreSQL log fails its checksum")
    return entry


def _int8(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _number_of(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "big", signed=True)


def checksum_at(connection: Connection, position: int) -> tuple[int, int | None]:
    """Return the boundary, and the checksum of an entry; None if there is no entry."""
    query = "SELECT trimmed, (SELECT crc FROM entry WHERE position = %s) FROM boundary"
    row = connection.execute(query, (Int8(position),)).fetchone()
    if row is None:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    return row[0], row[1]


def last_position(connection: Connection) -> int:
    return _number(connection, f"SELECT {_LAST}")


def raise_boundary(connection: Connection, before_position: int) -> None:
    """Raises LogMisuse if the boundary lies beyond the end."""
    upto = before_position - 1
    with connection.transaction():
        # The lock comes first, so that the next statement sees the entries of all appends that held
        # it.
        trimmed = _number(connection, "SELECT trimmed FROM boundary FOR UPDATE")
        if upto <= trimmed:
            return
        last = last_position(connection)
        if upto > last > 0:
            raise LogMisuse(f"cannot trim below {before_position}: the log ends at {last}")
        connection.execute("UPDATE boundary SET trimmed = %s", (Int8(upto),))


def delete_trimmed(connection: Connection) -> bool:
    """Delete some rows below the boundary; False when none are left."""
    deleted = connection.execute(
        "DELETE FROM entry WHERE position IN (SELECT position FROM entry"
        f" WHERE position <= {_TRIMMED} ORDER BY position LIMIT %s)",
        (_TRIM_BATCH,),
    ).rowcount
    return deleted == _TRIM_BATCH


def _number(connection: Connection, query: str) -> int:
    row = connection.execute(query.encode(), prepare=True, binary=True).fetchone()
    if row is None or row[0] is None:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    value: int = row[0]
    return value


def checksum_of(entry: LogEntry) -> int:
    return crc32c.crc32c(entry.payload, crc32c.crc32c(entry.position.to_bytes(8, "big")))


def too_far(position: int, last: int) -> LogCorrupt:
    return LogCorrupt(f"position {position} was requested, but the PostgreSQL log ends at {last}")
