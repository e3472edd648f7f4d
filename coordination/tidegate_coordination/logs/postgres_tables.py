"""The SQL behind `postgres:`: blocking, no retries, one statement for each step.

Every call of the hot path is one round trip of a prepared statement that commits by itself, under
READ COMMITTED. `postgres_layout.py` says what the tables are.

Append against trim. An append locks the boundary row (FOR SHARE) and only then inserts; raising the
boundary waits for such locks, and a lock that waited for it sees the raised boundary, however old
the rest of what the statement sees is. So a position is inserted before the boundary passes it, or
refused for ever. That the predecessor is there may be looked up in the older view: whoever asks has
read that entry, and if it was trimmed since, the boundary tells.
"""

from typing import Final

import crc32c
from psycopg.types.numeric import Int8

from tidegate_coordination.logs.postgres_session import Connection
from tidegate_coordination.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    Trimmed,
)

_TRIM_BATCH: Final = 500
_PAGE_ENTRIES: Final = "1000"
_TRIMMED: Final = "(SELECT trimmed FROM boundary)"
_LAST: Final = f"coalesce((SELECT max(position) FROM entry), {_TRIMMED})"
_APPEND: Final = """
WITH held AS MATERIALIZED (
    SELECT trimmed FROM boundary FOR SHARE
), joined AS MATERIALIZED (
    SELECT trimmed, %(position)s > trimmed AND (%(position)s = trimmed + 1
        OR EXISTS (SELECT FROM entry WHERE position = %(position)s - 1)) AS fits
    FROM held
), taken AS (
    INSERT INTO entry (position, payload, crc)
    SELECT %(position)s, %(payload)s, %(crc)s FROM joined WHERE fits
    ON CONFLICT (position) DO NOTHING
    RETURNING pg_notify(%(channel)s, position::text) IS NOT NULL AS told
)
SELECT trimmed, fits, EXISTS (SELECT FROM taken WHERE told) FROM joined
"""
_READ: Final = f"""
WITH near AS (
    SELECT position, payload, crc FROM entry
    WHERE position >= %(from_position)s ORDER BY position LIMIT {_PAGE_ENTRIES}
), page AS (
    SELECT *, sum(octet_length(payload)) OVER (ORDER BY position ROWS UNBOUNDED PRECEDING) AS total
    FROM near
)
SELECT trimmed, {_LAST}, position, payload, crc
FROM boundary LEFT JOIN page
    ON page.total <= %(max_bytes)s OR page.position = %(from_position)s
ORDER BY position
"""


def append(connection: Connection, channel: str, position: int, payload: bytes) -> AppendResult:
    row = connection.execute(
        _APPEND,
        {
            "position": Int8(position),
            "payload": payload,
            "crc": Int8(checksum_of(LogEntry(position, payload))),
            "channel": channel,
        },
        prepare=True,
        binary=True,
    ).fetchone()
    if row is None:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    trimmed, fits, is_taken = row
    if is_taken:
        return AppendResult.APPENDED
    if position <= trimmed:
        return AppendResult.TRIMMED
    if fits:
        return AppendResult.CONFLICT
    raise _too_far(position, last_position(connection))


def read(connection: Connection, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
    rows = connection.execute(
        _READ,
        {"from_position": Int8(from_position), "max_bytes": Int8(max_bytes)},
        prepare=True,
        binary=True,
    ).fetchall()
    if not rows:
        raise LogCorrupt("the PostgreSQL log has lost its boundary; restore it")
    trimmed, last = rows[0][:2]
    if from_position <= trimmed:
        return Trimmed(trimmed + 1)
    entries = [_checked(*row[2:]) for row in rows if row[2] is not None]
    for position, entry in enumerate(entries, start=from_position):
        if entry.position != position:
            raise LogCorrupt(f"entry {position} is missing from the PostgreSQL log")
    if not entries and from_position <= last:
        raise LogCorrupt(f"entry {from_position} is missing from the PostgreSQL log")
    if from_position > last + 1:
        raise _too_far(from_position, last)
    return entries


def _checked(position: int, payload: bytes, crc: int) -> LogEntry:
    entry = LogEntry(position, payload)
    if crc != checksum_of(entry):
        raise LogCorrupt(f"entry {position} of the PostgreSQL log fails its checksum")
    return entry


def checksum_at(connection: Connection, position: int) -> tuple[int, int | None]:
    """Return the boundary, and the checksum of an entry; None where it is not there."""
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
        # Locked first: what the next statement sees is then all that appends may still change.
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


def _too_far(position: int, last: int) -> LogCorrupt:
    return LogCorrupt(f"position {position} was asked for, but the PostgreSQL log ends at {last}")
